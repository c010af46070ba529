// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	clusterinventoryclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/aks"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/clusterprofile"
	"open-cluster-management.io/import-provider/pkg/credential/eks"
	"open-cluster-management.io/import-provider/pkg/credential/exchange"
	"open-cluster-management.io/import-provider/pkg/credential/exec"
	"open-cluster-management.io/import-provider/pkg/credential/gke"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

// getClusterProfile reads a ClusterProfile of the hub.
type getClusterProfile = func(ctx context.Context, namespace, name string) (*clusterinventoryv1alpha1.ClusterProfile, error)

func clusterProfiles(client clusterinventoryclient.Interface) getClusterProfile {
	return func(ctx context.Context, namespace, name string) (*clusterinventoryv1alpha1.ClusterProfile, error) {
		return client.ApisV1alpha1().ClusterProfiles(namespace).Get(ctx, name, metav1.GetOptions{}) //nolint:wrapcheck // the resolver classifies it.
	}
}

// newResolvers returns the credential resolvers that there are. The policy says which of them an import Secret may use.
func newResolvers(o *ImporterOptions, current func() *policy.Policy, profiles getClusterProfile) (*credential.Set, error) {
	tokens := tokensource.NewCache(tokensource.Options{})
	kubeconfigOptions := credential.KubeconfigOptions{
		InsecureSkipTLSVerify: o.InsecureAllowSkipTLSVerify,
		Proxies:               func() []string { return current().Proxies() },
	}
	cloudOptions := cloud.Options{Policy: current, Tokens: tokens, Kubeconfig: kubeconfigOptions}
	stanzas := map[string]credential.StanzaResolver{
		credential.ResolverEKS: eks.New(cloudOptions),
		credential.ResolverGKE: gke.New(cloudOptions),
		credential.ResolverAKS: aks.New(cloudOptions),
		credential.ResolverExec: exec.New(exec.Options{
			Policy: current, Tokens: tokens, Directory: o.PluginDirectory, Kubeconfig: kubeconfigOptions,
		}),
	}
	profileResolver, err := clusterprofile.New(clusterprofile.Options{
		Get: profiles, Policy: current, Resolvers: stanzas, ProviderFile: o.ClusterProfileProviderFile,
	})
	if err != nil {
		return nil, fmt.Errorf("--clusterprofile-provider-file: %w", err)
	}
	resolvers := map[string]credential.Resolver{
		credential.ResolverKubeconfig:     credential.NewKubeconfigResolver(kubeconfigOptions),
		credential.ResolverToken:          credential.NewTokenResolver(),
		credential.ResolverClusterProfile: profileResolver,
	}
	for name, resolver := range maps.All(stanzas) {
		resolvers[name] = resolver
	}
	set, err := credential.NewSet(resolvers, credential.SetOptions{
		InsecureSkipTLSVerify: o.InsecureAllowSkipTLSVerify,
		Policy:                current,
		Exchanger: exchange.New(exchange.Options{
			Tokens: tokens,
			HTTPClient: func(config *rest.Config) (*http.Client, error) {
				return kubeconfig.NewHTTPClient(config, o.Connection, current())
			},
		}),
		Forget: tokens.Forget,
	})
	if err != nil {
		return nil, fmt.Errorf("building the credential resolvers: %w", err)
	}
	return set, nil
}
