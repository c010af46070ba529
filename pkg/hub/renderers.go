// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/ocm/pkg/operator/helpers/chart"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer"
	importeroptions "open-cluster-management.io/ocm/pkg/registration/hub/importer/options"
)

// renderers returns OCM's renderers in the order of the options. Where render-auto comes first, a cluster need not
// have a cluster-import-config; where it does not, the Secret is the only source of the hub's address and is required.
func renderers(o *importeroptions.Options, kubeClient kubernetes.Interface, operatorNamespace string) ([]importer.KlusterletConfigRenderer, error) {
	var result []importer.KlusterletConfigRenderer
	for i, name := range o.ImporterRenderers {
		one := *o
		one.ImporterRenderers = []string{name}
		built, err := importeroptions.GetImporterRenderers(&one, kubeClient, operatorNamespace)
		if err != nil {
			return nil, fmt.Errorf("building renderer %s: %w", name, err)
		}
		if name == importeroptions.RenderFromConfigSecret && slices.Contains(o.ImporterRenderers[:i], importeroptions.RenderAuto) {
			for j := range built {
				built[j] = ifSecretExists(built[j])
			}
		}
		result = append(result, built...)
	}
	return result, nil
}

// ifSecretExists keeps the configuration as it is when the renderer's Secret does not exist.
func ifSecretExists(renderer importer.KlusterletConfigRenderer) importer.KlusterletConfigRenderer {
	return func(ctx context.Context, cluster *clusterv1.ManagedCluster, config *chart.KlusterletChartConfig) (*chart.KlusterletChartConfig, error) {
		rendered, err := renderer(ctx, cluster, config)
		if apierrors.IsNotFound(err) {
			return config, nil
		}
		return rendered, err
	}
}
