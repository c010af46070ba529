// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/benchmark/usage"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/fleet"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
	"open-cluster-management.io/import-provider/test/process"
)

const conditionImported = "ManagedClusterImportSucceeded"

var capiClusters = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "clusters"}

// importer is a program that imports clusters: the import-controller, or the registration controller of upstream.
type importer interface {
	PID() int
}

// hub is a hub and the program that imports its clusters.
type hub struct {
	upstream bool
	plane    *harness.ControlPlane
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	clusters clusterclient.ManagedClusterInterface
	importer importer
	// start starts the import-controller, again after stop; debug is the address of its debug port.
	start func(ctx context.Context) error
	debug string
	stops []func() error
	// own are the requests of the benchmark itself.
	own *requestCounter
}

// newHub starts a hub with OCM's API and nothing that runs.
func (b *bench) newHub(ctx context.Context) (*hub, error) {
	plane, err := harness.Start(ctx, harness.Options{Name: "hub", BinDir: b.controlPlaneBin, LogDir: b.logDir})
	if err != nil {
		return nil, err
	}
	h := &hub{plane: plane, stops: []func() error{plane.Stop}, own: &requestCounter{counts: map[string]float64{}}}
	if err := ocmhub.Install(ctx, plane.Config(), ocmhub.InstallOptions{APIServerURL: plane.URL(), CAData: plane.CAData()}); err != nil {
		return h, err
	}
	config := plane.Config()
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return h.own.count(next) })
	if h.kube, err = kubernetes.NewForConfig(config); err != nil {
		return h, err
	}
	if h.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return h, err
	}
	clusters, err := clusterclient.NewForConfig(config)
	if err != nil {
		return h, err
	}
	h.clusters = clusters.ManagedClusters()
	return h, nil
}

// startOurs starts a hub with the import-controller, which has its default flags but for those of the benchmark.
func (b *bench) startOurs(ctx context.Context, env ...string) (*hub, error) {
	h, err := b.newHub(ctx)
	if err != nil {
		return h, err
	}
	if err := ocmhub.SetClusterImporterGate(ctx, h.plane.Config(), true); err != nil {
		return h, err
	}
	if err := component.Install(ctx, h.plane, b.controlPlaneBin, "import-controller"); err != nil {
		return h, err
	}
	path := filepath.Join(b.logDir, "import-controller.kubeconfig")
	if err := component.ServiceAccountKubeconfig(ctx, h.plane, path, component.Namespace, component.ServiceAccount); err != nil {
		return h, err
	}
	if h.debug, err = process.FreeAddress(); err != nil {
		return h, err
	}
	o := component.Options{
		BinDir: b.binDir, Kubeconfig: path, LogFile: filepath.Join(b.logDir, "import-controller.log"),
		Env: append(env, usage.AddressVariable+"="+h.debug), Args: strings.Fields(b.args),
	}
	if b.workers > 0 {
		o.Args = append(o.Args, fmt.Sprintf("--import-workers=%d", b.workers))
	}
	var running *component.Process
	h.start = func(ctx context.Context) (err error) {
		if running, err = component.Start(ctx, o); err == nil {
			h.importer = running
		}
		return err
	}
	if err := h.start(ctx); err != nil {
		return h, err
	}
	h.stops = append(h.stops, func() error {
		if !running.Stop() {
			return errors.New("the import-controller did not end by itself")
		}
		return nil
	})
	return h, nil
}

// startUpstream starts a hub with upstream's importer and its provider, for clusters of Cluster API.
func (b *bench) startUpstream(ctx context.Context, clusters *fleet.Fleet) (*hub, error) {
	h, err := b.newHub(ctx)
	if err != nil {
		return h, err
	}
	h.upstream = true
	if err := ocmhub.InstallCAPI(ctx, h.plane.Config()); err != nil {
		return h, err
	}
	// The right to read kubeconfig Secrets, which upstream leaves to the administrator.
	if err := component.Install(ctx, h.plane, b.controlPlaneBin, "capi"); err != nil {
		return h, err
	}
	o := ocmhub.ControllerOptions{
		BinDir: b.agentBin, Kubeconfig: filepath.Join(b.logDir, "registration.kubeconfig"), LogFile: filepath.Join(b.logDir, "registration.log"),
		FeatureGates: []string{"ClusterImporter=true"}, Args: []string{"--import-renderers=render-auto"},
	}
	err = component.ServiceAccountKubeconfig(ctx, h.plane, o.Kubeconfig, ocmhub.HubNamespace, ocmhub.ControllerServiceAccount)
	if err != nil {
		return h, err
	}
	controller, err := ocmhub.StartController(ctx, o)
	if err != nil {
		return h, err
	}
	h.importer = controller
	h.stops = append(h.stops, controller.Stop)
	return h, h.warmUp(ctx, clusters)
}

// warmUp waits until upstream's importer has tried a cluster: it does not tell when it is at work.
func (h *hub) warmUp(ctx context.Context, clusters *fleet.Fleet) error {
	cluster, err := clusters.Add(ctx, "warm-up", fleet.Refuses)
	if err != nil {
		return err
	}
	if err := h.createCredential(ctx, cluster.Name(), cluster.Kubeconfig()); err != nil {
		return err
	}
	if err := h.createCluster(ctx, cluster.Name()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := poll(ctx, 100*time.Millisecond, func() (bool, error) {
		tried, err := h.clusters.Get(ctx, cluster.Name(), metav1.GetOptions{})
		return err == nil && meta.FindStatusCondition(tried.Status.Conditions, conditionImported) != nil, err
	}); err != nil {
		return fmt.Errorf("upstream's importer does not try: %w", err)
	}
	return h.clusters.Delete(ctx, cluster.Name(), metav1.DeleteOptions{})
}

func (h *hub) stop() error {
	if h == nil {
		return nil
	}
	var errs []error
	for _, stop := range slices.Backward(h.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// createCluster creates the ManagedCluster, accepted as in manifests/samples.
func (h *hub) createCluster(ctx context.Context, name string) error {
	_, err := h.clusters.Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}, metav1.CreateOptions{})
	return err
}

// createCredential creates what leads the importer to a cluster, all but the ManagedCluster.
func (h *hub) createCredential(ctx context.Context, name string, config []byte) error {
	if h.upstream {
		return h.createCAPICluster(ctx, name, config)
	}
	_, err := h.kube.CoreV1().Secrets(component.ImportNamespace).Create(ctx, importSecret(name, config), metav1.CreateOptions{})
	return err
}

func importSecret(name string, config []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: component.ImportNamespace, Name: name,
			Annotations: map[string]string{kubeconfig.AnnotationManagedCluster: name},
		},
		Data: map[string][]byte{"kubeconfig": config},
	}
}

func (h *hub) createCAPICluster(ctx context.Context, name string, config []byte) error {
	_, err := h.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	clusters := h.dynamic.Resource(capiClusters).Namespace(name)
	cluster, err := clusters.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": capiClusters.GroupVersion().String(), "kind": "Cluster",
		"metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	cluster.Object["status"] = map[string]any{"phase": "Provisioned"}
	if _, err := clusters.UpdateStatus(ctx, cluster, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err = h.kube.CoreV1().Secrets(name).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + "-kubeconfig"},
		Data:       map[string][]byte{"value": config},
	}, metav1.CreateOptions{})
	return err
}

// requestCounter counts requests by what they are about, as the metric of an API server does.
type requestCounter struct {
	lock   sync.Mutex // guards counts, for the time of a change
	counts map[string]float64
}

func (c *requestCounter) count(next http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		what := r.Method + " " + parts[len(parts)-1]
		// The names of the benchmark's objects begin with those of their runs; a name is followed by a subresource or nothing.
		switch {
		case parts[len(parts)-1] == "status":
			what = r.Method + " " + parts[len(parts)-3] + "/status"
		case r.Method != http.MethodPost && len(parts) > 1:
			what = r.Method + " " + parts[len(parts)-2]
		}
		c.lock.Lock()
		c.counts[what]++
		c.lock.Unlock()
		return next.RoundTrip(r)
	})
}

func (c *requestCounter) snapshot() map[string]float64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	return maps.Clone(c.counts)
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
