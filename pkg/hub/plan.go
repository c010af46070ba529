// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	"open-cluster-management.io/ocm/pkg/operator/helpers/chart"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

// plan renders the klusterlet of a cluster as the importer will: by the same renderers and chart, from the same values to
// begin with, which the importer does not export. An integration test compares it with the requests of a real import.
func plan(renderers []importer.KlusterletConfigRenderer) func(context.Context, *clusterv1.ManagedCluster) (*kubeconfig.Plan, error) {
	return func(ctx context.Context, cluster *clusterv1.ManagedCluster) (*kubeconfig.Plan, error) {
		config := &chart.KlusterletChartConfig{
			ReplicaCount:    1,
			CreateNamespace: true,
			Klusterlet: chart.KlusterletConfig{
				Create:              true,
				ClusterName:         cluster.Name,
				ResourceRequirement: &operatorv1.ResourceRequirement{Type: operatorv1.ResourceQosClassDefault},
			},
		}
		for _, renderer := range renderers {
			var err error
			if config, err = renderer(ctx, cluster, config); err != nil {
				return nil, fmt.Errorf("rendering the configuration of the klusterlet: %w", err)
			}
		}
		// Rendering that fails logs the values, a token among them.
		crds, objects, err := chart.RenderKlusterletChart(klog.NewContext(ctx, logr.Discard()), config, kubeconfig.KlusterletNamespace)
		if err != nil {
			return nil, fmt.Errorf("rendering the klusterlet: %w", err)
		}
		result := &kubeconfig.Plan{Hub: kubeconfig.HubIdentityOf([]byte(config.BootstrapHubKubeConfig))}
		for _, manifest := range append(crds, objects...) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(manifest, object); err != nil {
				return nil, fmt.Errorf("decoding a manifest of the klusterlet: %w", err)
			}
			// What is in a Secret is nobody's business here.
			if object.GetKind() == "Secret" {
				unstructured.RemoveNestedField(object.Object, "data")
			}
			result.Objects = append(result.Objects, object)
		}
		return result, nil
	}
}
