// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	importeroptions "open-cluster-management.io/ocm/pkg/registration/hub/importer/options"
)

// BenchmarkPlan renders the klusterlet of a cluster, as each import does.
func BenchmarkPlan(b *testing.B) {
	client := kubefake.NewClientset()
	client.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "minted"}}, nil
	})
	o := importeroptions.New()
	o.APIServerURL, o.AgentImage = "https://hub.example.com", "registry.example.com/ocm/registration-operator:v1"
	o.ImporterRenderers = []string{importeroptions.RenderAuto, importeroptions.RenderFromConfigSecret}
	built, err := renderers(o, client, "hub-namespace")
	if err != nil {
		b.Fatal(err)
	}
	render, cluster := plan(built), testCluster()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := render(b.Context(), cluster); err != nil {
			b.Fatal(err)
		}
		// The fake client keeps what it was asked.
		client.ClearActions()
	}
}
