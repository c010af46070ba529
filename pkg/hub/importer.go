// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterinventoryclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers/capi"

	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

// resyncPeriod is that of upstream's hub manager.
const resyncPeriod = 30 * time.Minute

// RunImporter runs the importer on the hub that config leads to until the context ends, and returns when the last
// import has ended. operatorNamespace is where the hub's components run. ready, if not nil, is called when the
// workers start.
func RunImporter(ctx context.Context, config *rest.Config, operatorNamespace string, o *ImporterOptions, ready func()) error {
	if err := setHub(config); err != nil {
		return err
	}
	kubeClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the hub client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the hub metadata client: %w", err)
	}
	clusterClient, err := clusterclientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the hub cluster client: %w", err)
	}
	// A client of their own: events that wait for the limit of requests are lost, and others would wait behind them.
	eventClient, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the hub event client: %w", err)
	}
	recorder, stopRecorder := newEventRecorder(ctx, &corev1client.EventSinkImpl{Interface: eventClient.Events(metav1.NamespaceAll)})
	defer stopRecorder()
	policies, err := policy.NewSource(o.PolicyFile)
	if err != nil {
		return fmt.Errorf("--policy-file: %w", err)
	}
	logPlugins(ctx, policies.Current(), o.PluginDirectory)
	inventoryClient, err := clusterinventoryclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the hub inventory client: %w", err)
	}
	resolvers, err := newResolvers(o, policies.Current, clusterProfiles(inventoryClient))
	if err != nil {
		return err
	}
	klusterletRenderers, err := renderers(o.Renderers, kubeClient, operatorNamespace)
	if err != nil {
		return err
	}

	// The informers are made anew for each run: a provider adds its indexes to them, which can be done once. Nobody reads the
	// managed fields.
	informers := clusterinformers.NewSharedInformerFactoryWithOptions(clusterClient, resyncPeriod,
		clusterinformers.WithTransform(ctrlcache.TransformStripManagedFields()))
	clusters := informers.Cluster().V1().ManagedClusters()
	var importProviders []providers.Interface
	policyChanged := func() {}
	synced := []cache.InformerSynced{clusters.Informer().HasSynced}
	for _, name := range o.Providers {
		switch name {
		case ProviderKubeconfig:
			provider, err := kubeconfig.New(kubeconfig.Options{
				KubeClient:       kubeClient,
				MetadataClient:   metadataClient,
				ClusterClient:    clusterClient,
				ManagedClusters:  clusters,
				Resolvers:        resolvers,
				Policy:           policies.Current,
				Plan:             plan(klusterletRenderers),
				Recorder:         recorder,
				ImportNamespaces: o.ImportNamespaces,
				Connection:       o.Connection,
				// Without Cluster API's provider here, it runs in the hub's own importer.
				DeclineClusterAPI: !slices.Contains(o.Providers, ProviderCAPI),
			})
			if err != nil {
				return fmt.Errorf("building provider %s: %w", name, err)
			}
			synced = append(synced, provider.HasSynced)
			policyChanged = provider.PolicyChanged
			importProviders = append(importProviders, provider)
		case ProviderCAPI:
			importProviders = append(importProviders, capi.NewCAPIProvider(config, clusters))
		default:
			return fmt.Errorf("provider %q does not exist", name)
		}
	}
	controller := importer.NewImporter(klusterletRenderers, importerClient{clusterClient}, clusters, importProviders)

	var running sync.WaitGroup
	defer running.Wait()
	defer informers.Shutdown()
	informers.Start(ctx.Done())
	for _, provider := range importProviders {
		running.Go(func() { provider.Run(ctx) })
	}
	running.Go(func() {
		policies.Run(ctx, func() {
			logPlugins(ctx, policies.Current(), o.PluginDirectory)
			policyChanged()
		})
	})
	// A provider that does not know its Secrets yet would leave a cluster to the next in the list.
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	klog.FromContext(ctx).Info("Importer started", "providers", o.Providers, "workers", o.Workers,
		"importNamespaces", o.ImportNamespaces)
	if ready != nil {
		ready()
	}
	controller.Run(ctx, o.Workers)
	klog.FromContext(ctx).Info("Importer stopped")
	return nil
}
