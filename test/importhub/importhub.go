// Copyright Contributors to the Open Cluster Management project

// Package importhub starts a hub with OCM's API and the programs that import clusters into it, which are the import-controller
// or upstream's importer, and gives them clusters.
//
//	hub, err := importhub.Start(ctx, importhub.Options{ControlPlane: harness.Options{Name: "hub"}, Dir: dir})
//	defer hub.Stop()
//	err = hub.InstallImportController(ctx)
//	importer, err := hub.StartImportController(ctx, component.Options{BinDir: bin})
//	err = hub.CreateCredential(ctx, "cluster1", kubeconfig)
//	err = hub.CreateCluster(ctx, "cluster1")
//
// A hub is used by one goroutine while its programs start and stop.
package importhub

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"

	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

// Options say how to start a hub.
type Options struct {
	// ControlPlane says how to start etcd and the API server. Required: Name, BinDir.
	ControlPlane harness.Options
	// Dir receives the kubeconfigs and logs of the programs that run on the hub, <name>-<program>.kubeconfig and .log. Required to
	// start one.
	Dir string
	// Client changes the config of Kube, Dynamic and Clusters. Default: the administrator's, without a limit of requests.
	Client func(*rest.Config)
}

// Hub is a hub with OCM's API.
type Hub struct {
	*harness.ControlPlane
	// Kube, Dynamic and Clusters are for the program that started the hub.
	Kube     kubernetes.Interface
	Dynamic  dynamic.Interface
	Clusters clusterclient.ManagedClusterInterface
	// Upstream says that StartUpstream started the importer.
	Upstream bool

	options          Options
	importController *component.Process
	stops            []func() error
}

// Start starts a hub on which nothing runs. The context bounds the start alone; Stop ends the hub.
func Start(ctx context.Context, o Options) (*Hub, error) {
	plane, err := harness.Start(ctx, o.ControlPlane)
	if err != nil {
		return nil, err
	}
	h := &Hub{ControlPlane: plane, options: o, stops: []func() error{plane.Stop}}
	if err := h.connect(); err != nil {
		return nil, errors.Join(err, h.Stop())
	}
	if err := ocmhub.Install(ctx, h.Config(), ocmhub.InstallOptions{APIServerURL: h.URL(), CAData: h.CAData()}); err != nil {
		return nil, errors.Join(fmt.Errorf("installing OCM: %w", err), h.Stop())
	}
	return h, nil
}

func (h *Hub) connect() error {
	config := h.Config()
	config.QPS = -1
	if h.options.Client != nil {
		h.options.Client(config)
	}
	clusters, err := clusterclient.NewForConfig(config)
	if err != nil {
		return err
	}
	h.Clusters = clusters.ManagedClusters()
	if h.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	h.Kube, err = kubernetes.NewForConfig(config)
	return err
}

// Stop ends what was started, the last first, and the hub in the end. It does nothing for nil: a hub that did not start.
func (h *Hub) Stop() error {
	if h == nil {
		return nil
	}
	var errs []error
	for _, stop := range slices.Backward(h.stops) {
		errs = append(errs, stop())
	}
	h.stops = nil
	return errors.Join(errs...)
}

// path is that of a file of the hub.
func (h *Hub) path(name string) string {
	return filepath.Join(h.options.Dir, h.options.ControlPlane.Name+"-"+name)
}

// InstallImportController installs what the import-controller needs. OCM's feature gate is left as it is: see
// ocmhub.SetClusterImporterGate.
func (h *Hub) InstallImportController(ctx context.Context) error {
	return component.InstallImportController(ctx, h.ControlPlane, h.options.ControlPlane.BinDir, h.path("import-controller.kubeconfig"))
}

// StartImportController starts the import-controller, which InstallImportController has installed. Kubeconfig and LogFile are
// those of the hub.
func (h *Hub) StartImportController(ctx context.Context, o component.Options) (*component.Process, error) {
	o.Kubeconfig, o.LogFile = h.path("import-controller.kubeconfig"), h.path("import-controller.log")
	var err error
	if h.importController, err = component.Start(ctx, o); err != nil {
		return nil, err
	}
	h.stops = append(h.stops, h.StopImportController)
	return h.importController, nil
}

// StopImportController ends the import-controller, which may be started again.
func (h *Hub) StopImportController() error {
	if !h.importController.Stop() {
		return errors.New("the import-controller did not end by itself")
	}
	return nil
}

// StartRegistration starts OCM's registration controller, or the program that takes its place, under its ServiceAccount.
// Kubeconfig and LogFile are those of the hub.
func (h *Hub) StartRegistration(ctx context.Context, o ocmhub.ControllerOptions) (*ocmhub.Process, error) {
	o.Kubeconfig, o.LogFile = h.path("registration.kubeconfig"), h.path("registration.log")
	err := component.ServiceAccountKubeconfig(ctx, h.ControlPlane, o.Kubeconfig, ocmhub.HubNamespace, ocmhub.ControllerServiceAccount)
	if err != nil {
		return nil, err
	}
	controller, err := ocmhub.StartController(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("starting the registration controller: %w", err)
	}
	h.stops = append(h.stops, controller.Stop)
	return controller, nil
}

// StartUpstream starts OCM's registration controller, which binDir holds, with upstream's importer and its only provider, that
// of Cluster API.
func (h *Hub) StartUpstream(ctx context.Context, binDir string) (*ocmhub.Process, error) {
	h.Upstream = true
	if err := ocmhub.InstallCAPI(ctx, h.Config()); err != nil {
		return nil, err
	}
	// The right to read kubeconfig Secrets, which upstream leaves to the administrator.
	if err := component.Install(ctx, h.ControlPlane, h.options.ControlPlane.BinDir, "capi"); err != nil {
		return nil, err
	}
	return h.StartRegistration(ctx, ocmhub.ControllerOptions{
		BinDir: binDir, FeatureGates: []string{"ClusterImporter=true"}, Args: []string{"--import-renderers=render-auto"},
	})
}
