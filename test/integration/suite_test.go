// Copyright Contributors to the Open Cluster Management project

// Package integration tests the import provider as users run it: the import-controller binary, as the ServiceAccount
// and with the RBAC of manifests/, on a real hub, importing real clusters. Hub and clusters are always different
// servers. What no real API server does is done by servers of the tests.
//
// No klusterlet operator runs on the clusters: an import ends when the klusterlet is deployed. Joining is test/e2e.
package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"

	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

const (
	// timeout is for what happens within a second on a quiet machine.
	timeout  = 20 * time.Second
	interval = 20 * time.Millisecond

	spokeCount = 3
)

var (
	hub         *harness.ControlPlane
	hubKube     kubernetes.Interface
	hubDynamic  dynamic.Interface
	hubClusters clusterclientset.Interface
	// history knows every change of every ManagedCluster.
	history *clusterHistory

	spokes [spokeCount]*spokeCluster

	// workDir holds the binary, kubeconfigs and logs. It is left when the suite failed.
	workDir string
	// controllerKubeconfig has a token of the component's ServiceAccount and nothing else.
	controllerKubeconfig string
	controlPlaneBinaries string
)

func TestIntegration(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(timeout)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(interval)
	SetDefaultConsistentlyPollingInterval(interval)
	RunSpecs(t, "Integration")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	workDir, err = os.MkdirTemp("", "integration-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() || suiteFailed {
			GinkgoWriter.Println("logs:", workDir)
			return
		}
		Expect(os.RemoveAll(workDir)).To(Succeed())
	})
	controlPlaneBinaries, err = binaries.ControlPlane(ctx, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())

	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return component.Build(groupCtx, workDir) })
	group.Go(func() (err error) {
		hub, err = startControlPlane(groupCtx, "hub")
		return err
	})
	for i := range spokes {
		group.Go(func() error {
			controlPlane, err := startControlPlane(groupCtx, "spoke"+string(rune('1'+i)))
			if err != nil {
				return err
			}
			spokes[i], err = newSpoke(controlPlane)
			return err
		})
	}
	DeferCleanup(func() {
		if hub != nil {
			Expect(hub.Stop()).To(Succeed())
		}
		for _, spoke := range spokes {
			if spoke != nil {
				Expect(spoke.Stop()).To(Succeed())
			}
		}
	})
	Expect(group.Wait()).To(Succeed())

	hubKube, err = kubernetes.NewForConfig(hub.Config())
	Expect(err).NotTo(HaveOccurred())
	hubDynamic, err = dynamic.NewForConfig(hub.Config())
	Expect(err).NotTo(HaveOccurred())
	hubClusters, err = clusterclientset.NewForConfig(hub.Config())
	Expect(err).NotTo(HaveOccurred())
	Expect(ocmhub.Install(ctx, hub.Config(), ocmhub.InstallOptions{APIServerURL: hub.URL(), CAData: hub.CAData()})).To(Succeed())
	Expect(ocmhub.SetClusterImporterGate(ctx, hub.Config(), true)).To(Succeed())
	controllerKubeconfig = filepath.Join(workDir, "kubeconfig")
	Expect(component.InstallImportController(ctx, hub, controlPlaneBinaries, controllerKubeconfig)).To(Succeed())

	historyCtx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	history, err = watchClusters(historyCtx, hubClusters)
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(5*time.Minute))

func startControlPlane(ctx context.Context, name string) (*harness.ControlPlane, error) {
	return harness.Start(ctx, harness.Options{Name: name, BinDir: controlPlaneBinaries, LogDir: filepath.Join(workDir, "logs")})
}

var suiteFailed bool

var _ = ReportAfterEach(func(report SpecReport) {
	suiteFailed = suiteFailed || report.Failed()
})
