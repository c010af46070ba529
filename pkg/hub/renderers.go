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

	"open-cluster-management.io/import-provider/providers/kubeconfig"
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

// hubIdentity renders the configuration of a cluster's klusterlet to see which hub it will know, whatever renderer says so.
func hubIdentity(renderers []importer.KlusterletConfigRenderer) func(context.Context, *clusterv1.ManagedCluster) (kubeconfig.HubIdentity, error) {
	return func(ctx context.Context, cluster *clusterv1.ManagedCluster) (kubeconfig.HubIdentity, error) {
		config := &chart.KlusterletChartConfig{}
		for _, renderer := range renderers {
			var err error
			if config, err = renderer(ctx, cluster, config); err != nil {
				return kubeconfig.HubIdentity{}, fmt.Errorf("rendering the configuration of the klusterlet: %w", err)
			}
		}
		return kubeconfig.HubIdentityOf([]byte(config.BootstrapHubKubeConfig)), nil
	}
}
