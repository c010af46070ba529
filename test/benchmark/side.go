// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

const (
	conditionImported = "ManagedClusterImportSucceeded"
	// importLimit is far above what the slowest import takes. Beyond it something does not work.
	importLimit = 3 * time.Minute
)

var capiClusters = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "clusters"}

// side is a hub and the programs that import its clusters.
type side struct {
	name     string
	hub      *harness.ControlPlane
	kube     kubernetes.Interface
	clusters clusterclient.ManagedClusterInterface
	// registration is OCM's controller, which has upstream's importer or not.
	registration *ocmhub.Process
	// importer is the import-controller; nil on upstream's side.
	importer *component.Process
	// credential creates what leads the importer to the cluster, all but the ManagedCluster.
	credential func(ctx context.Context, name string, kubeconfig []byte) error
	stops      []func() error
}

// newHub starts a hub with OCM's API and nothing that runs.
func newHub(ctx context.Context, name, binDir string) (*side, error) {
	hub, err := harness.Start(ctx, harness.Options{Name: name, ControllerManager: true, BinDir: binDir})
	if err != nil {
		return nil, err
	}
	s := &side{name: name, hub: hub, stops: []func() error{hub.Stop}}
	if err := ocmhub.Install(ctx, hub.Config(), ocmhub.InstallOptions{APIServerURL: hub.URL(), CAData: hub.CAData()}); err != nil {
		return s, err
	}
	if s.kube, err = kubernetes.NewForConfig(hub.Config()); err != nil {
		return s, err
	}
	clusters, err := clusterclient.NewForConfig(hub.Config())
	if err != nil {
		return s, err
	}
	s.clusters = clusters.ManagedClusters()
	return s, nil
}

// startOurs starts a hub as our users have it: OCM's registration controller with its importer off, and the
// import-controller with its default flags beside it.
func startOurs(ctx context.Context, dir, controlPlaneBin, agentBin, binDir string) (*side, error) {
	s, err := newHub(ctx, "ours", controlPlaneBin)
	if err != nil {
		return s, err
	}
	s.credential = s.importSecret
	if err := s.startRegistration(ctx, dir, ocmhub.ControllerOptions{BinDir: agentBin}); err != nil {
		return s, err
	}
	if err := ocmhub.SetClusterImporterGate(ctx, s.hub.Config(), true); err != nil {
		return s, err
	}
	if err := component.Install(ctx, s.hub, controlPlaneBin, "import-controller"); err != nil {
		return s, err
	}
	path := filepath.Join(dir, "import-controller.kubeconfig")
	if err := component.ServiceAccountKubeconfig(ctx, s.hub, path, component.Namespace, component.ServiceAccount); err != nil {
		return s, err
	}
	s.importer, err = component.Start(ctx, component.Options{
		BinDir: binDir, Kubeconfig: path, LogFile: filepath.Join(dir, "import-controller.log"),
	})
	if err != nil {
		return s, err
	}
	s.stops = append(s.stops, func() error {
		if !s.importer.Stop() {
			return errors.New("the import-controller did not end by itself")
		}
		return nil
	})
	return s, s.works(ctx)
}

// startUpstream starts a hub with upstream's importer and its provider, for clusters of Cluster API.
func startUpstream(ctx context.Context, dir, controlPlaneBin, agentBin string) (*side, error) {
	s, err := newHub(ctx, "upstream", controlPlaneBin)
	if err != nil {
		return s, err
	}
	s.credential = s.capiCluster
	if err := ocmhub.InstallCAPI(ctx, s.hub.Config()); err != nil {
		return s, err
	}
	// The right to read kubeconfig Secrets, which upstream leaves to the administrator.
	if err := component.Install(ctx, s.hub, controlPlaneBin, "capi"); err != nil {
		return s, err
	}
	if err := s.startRegistration(ctx, dir, ocmhub.ControllerOptions{
		BinDir: agentBin, FeatureGates: []string{"ClusterImporter=true"}, Args: []string{"--import-renderers=render-auto"},
	}); err != nil {
		return s, err
	}
	return s, s.works(ctx)
}

// startRegistration starts the registration controller under its ServiceAccount.
func (s *side) startRegistration(ctx context.Context, dir string, o ocmhub.ControllerOptions) error {
	o.Kubeconfig = filepath.Join(dir, s.name+"-registration.kubeconfig")
	o.LogFile = filepath.Join(dir, s.name+"-registration.log")
	err := component.ServiceAccountKubeconfig(ctx, s.hub, o.Kubeconfig, ocmhub.HubNamespace, ocmhub.ControllerServiceAccount)
	if err != nil {
		return err
	}
	if s.registration, err = ocmhub.StartController(ctx, o); err != nil {
		return err
	}
	s.stops = append(s.stops, s.registration.Stop)
	return nil
}

func (s *side) stop() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, stop := range slices.Backward(s.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// works waits until the importer has tried a cluster that refuses connections: neither program tells when its
// importer is at work.
func (s *side) works(ctx context.Context) error {
	const name = "warm-up"
	certPEM, keyPEM, err := s.hub.IssueClientCert(name, nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		return err
	}
	// Nothing listens on the discard port.
	config := harness.CertKubeconfig("https://127.0.0.1:9", s.hub.CAData(), certPEM, keyPEM)
	if err := s.credential(ctx, name, config); err != nil {
		return err
	}
	tried, err := s.watch(ctx, func(c *clusterv1.ManagedCluster) bool {
		return meta.FindStatusCondition(c.Status.Conditions, conditionImported) != nil
	})
	if err != nil {
		return err
	}
	defer tried.stop()
	if err := s.create(ctx, name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importLimit)
	defer cancel()
	if _, err := tried.wait(ctx, []string{name}); err != nil {
		return fmt.Errorf("%s: the importer does not try: %w", s.name, err)
	}
	return s.forget(ctx, name)
}

// create creates the ManagedCluster, accepted as in manifests/samples.
func (s *side) create(ctx context.Context, name string) error {
	_, err := s.clusters.Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}, metav1.CreateOptions{})
	return err
}

// forget takes a cluster that was not imported out of the importer's sight.
func (s *side) forget(ctx context.Context, name string) error {
	return s.clusters.Delete(ctx, name, metav1.DeleteOptions{})
}

func (s *side) importSecret(ctx context.Context, name string, config []byte) error {
	return s.secret(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: component.ImportNamespace, Name: name,
			Annotations: map[string]string{kubeconfig.AnnotationManagedCluster: name},
		},
		Data: map[string][]byte{"kubeconfig": config},
	})
}

func (s *side) capiCluster(ctx context.Context, name string, config []byte) error {
	_, err := s.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	client, err := dynamic.NewForConfig(s.hub.Config())
	if err != nil {
		return err
	}
	clusters := client.Resource(capiClusters).Namespace(name)
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
	return s.secret(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + "-kubeconfig"},
		Data:       map[string][]byte{"value": config},
	})
}

func (s *side) secret(ctx context.Context, secret *corev1.Secret) error {
	_, err := s.kube.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}
