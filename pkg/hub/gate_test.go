// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	operatorfake "open-cluster-management.io/api/client/operator/clientset/versioned/fake"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

const giveUp = 20 * time.Second

func clusterManager(gates ...operatorv1.FeatureGate) *operatorv1.ClusterManager {
	return &operatorv1.ClusterManager{
		ObjectMeta: metav1.ObjectMeta{Name: DefaultClusterManagerName},
		Spec: operatorv1.ClusterManagerSpec{
			RegistrationConfiguration: &operatorv1.RegistrationHubConfiguration{FeatureGates: gates},
		},
	}
}

var (
	gateOn  = operatorv1.FeatureGate{Feature: "ClusterImporter", Mode: operatorv1.FeatureGateModeTypeEnable}
	gateOff = operatorv1.FeatureGate{Feature: "ClusterImporter", Mode: operatorv1.FeatureGateModeTypeDisable}
)

func TestGateEnabled(t *testing.T) {
	other := operatorv1.FeatureGate{Feature: "ResourceCleanup", Mode: operatorv1.FeatureGateModeTypeEnable}
	cases := []struct {
		name string
		obj  any
		want bool
	}{
		{"no ClusterManager", nil, false},
		{"something else", "x", false},
		{"no configuration", &operatorv1.ClusterManager{}, false},
		{"no gate", clusterManager(), false},
		{"off", clusterManager(gateOff), false},
		{"on", clusterManager(gateOn), true},
		{"another gate", clusterManager(other), false},
		{"on behind another gate", clusterManager(other, gateOn), true},
		{"no mode", clusterManager(operatorv1.FeatureGate{Feature: "ClusterImporter"}), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := gateEnabled(c.obj); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// fakeImporter is an importer whose runs a test follows and ends.
type fakeImporter struct {
	started chan *fakeRun
}

type fakeRun struct {
	ctx    context.Context //nolint:containedctx // the test looks at how the run is ended.
	ready  func()
	finish chan error // ends the run
}

func (f *fakeImporter) run(ctx context.Context, ready func()) error {
	r := &fakeRun{ctx: ctx, ready: ready, finish: make(chan error)}
	f.started <- r
	return <-r.finish
}

type gateTest struct {
	t        *testing.T
	gated    *gatedImporter
	client   *operatorfake.Clientset
	importer *fakeImporter
	cancel   context.CancelFunc
	ended    chan error
	// watched is the field selector of the watch of ClusterManagers.
	watched string
}

func startGated(t *testing.T, override *bool, client *operatorfake.Clientset) *gateTest {
	t.Helper()
	g := &gateTest{t: t, client: client, importer: &fakeImporter{started: make(chan *fakeRun)}, ended: make(chan error, 1)}
	g.gated = &gatedImporter{
		override: override, client: client, clusterManagerName: DefaultClusterManagerName, run: g.importer.run,
	}
	watches := make(chan string, 100)
	client.PrependWatchReactor("clustermanagers", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watcher, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		watches <- action.(clienttesting.WatchAction).GetWatchRestrictions().Fields.String()
		return true, watcher, err
	})
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(t.Context())
	t.Cleanup(g.cancel)
	go func() { g.ended <- g.gated.Start(ctx) }()
	if override == nil {
		// The fake does not repeat a change between a list and the watch after it.
		g.watched = receive(t, "watch", watches)
	}
	return g
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(giveUp):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

func (g *gateTest) nextRun() *fakeRun {
	g.t.Helper()
	return receive(g.t, "run", g.importer.started)
}

func (g *gateTest) update(gates ...operatorv1.FeatureGate) {
	g.t.Helper()
	if _, err := g.client.OperatorV1().ClusterManagers().Update(g.t.Context(), clusterManager(gates...), metav1.UpdateOptions{}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateTest) expectEnd(want error) {
	g.t.Helper()
	if got := receive(g.t, "end", g.ended); !errors.Is(got, want) {
		g.t.Errorf("Start ends with %v, want %v", got, want)
	}
	if err := g.gated.ready(); err != nil {
		g.t.Errorf("after the end: %v", err)
	}
}

func TestGateTurnsTheImporterOnAndOff(t *testing.T) {
	g := startGated(t, nil, operatorfake.NewSimpleClientset(clusterManager(gateOn)))
	first := g.nextRun()
	if err := g.gated.ready(); err == nil {
		t.Error("ready before the importer works")
	}
	first.ready()
	if err := g.gated.ready(); err != nil {
		t.Errorf("works, and is not ready: %v", err)
	}
	g.update(gateOff)
	receive(t, "end of the context of the run", first.ctx.Done())
	// On again before the run has ended: the next waits for it.
	g.update(gateOn)
	select {
	case <-g.importer.started:
		t.Fatal("two importers run")
	case <-time.After(50 * time.Millisecond):
	}
	first.finish <- nil
	second := g.nextRun()
	if err := second.ctx.Err(); err != nil {
		t.Errorf("the second run has ended: %v", err)
	}
	if err := g.gated.ready(); err == nil {
		t.Error("ready before the importer works again")
	}
	second.ready()
	// A change of another gate is no change.
	g.update(gateOn, operatorv1.FeatureGate{Feature: "ResourceCleanup", Mode: operatorv1.FeatureGateModeTypeEnable})
	// A ClusterManager that is deleted turns it off.
	if err := g.client.OperatorV1().ClusterManagers().Delete(t.Context(), DefaultClusterManagerName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	receive(t, "end of the context of the run", second.ctx.Done())
	second.finish <- nil
	g.cancel()
	g.expectEnd(nil)
}

func TestGateThatIsOff(t *testing.T) {
	g := startGated(t, nil, operatorfake.NewSimpleClientset(clusterManager(gateOff)))
	if g.watched != "metadata.name=cluster-manager" {
		t.Errorf("watches %q", g.watched)
	}
	if err := g.gated.ready(); err != nil {
		t.Errorf("off, and not ready: %v", err)
	}
	g.update(gateOn)
	run := g.nextRun()
	g.cancel()
	receive(t, "end of the context of the run", run.ctx.Done())
	select {
	case err := <-g.ended:
		t.Errorf("Start does not wait for the importer: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	run.finish <- nil
	g.expectEnd(nil)
}

func TestImporterThatFailsEndsStart(t *testing.T) {
	failed := errors.New("failed")
	t.Run("gate", func(t *testing.T) {
		g := startGated(t, nil, operatorfake.NewSimpleClientset(clusterManager(gateOn)))
		g.nextRun().finish <- failed
		g.expectEnd(failed)
	})
	t.Run("while it is turned off", func(t *testing.T) {
		g := startGated(t, nil, operatorfake.NewSimpleClientset(clusterManager(gateOn)))
		run := g.nextRun()
		g.update(gateOff)
		receive(t, "end of the context of the run", run.ctx.Done())
		run.finish <- failed
		g.expectEnd(failed)
	})
	t.Run("override", func(t *testing.T) {
		g := startGated(t, ptr.To(true), operatorfake.NewSimpleClientset())
		g.nextRun().finish <- failed
		g.expectEnd(failed)
	})
}

func TestGateOverride(t *testing.T) {
	t.Run("on", func(t *testing.T) {
		g := startGated(t, ptr.To(true), operatorfake.NewSimpleClientset(clusterManager(gateOff)))
		run := g.nextRun()
		if err := g.gated.ready(); err == nil {
			t.Error("ready before the importer works")
		}
		run.ready()
		if err := g.gated.ready(); err != nil {
			t.Errorf("works, and is not ready: %v", err)
		}
		g.cancel()
		receive(t, "end of the context of the run", run.ctx.Done())
		run.finish <- nil
		g.expectEnd(nil)
		if actions := g.client.Actions(); len(actions) > 0 {
			t.Errorf("the ClusterManager is read: %v", actions)
		}
	})
	t.Run("off", func(t *testing.T) {
		g := startGated(t, ptr.To(false), operatorfake.NewSimpleClientset(clusterManager(gateOn)))
		select {
		case <-g.importer.started:
			t.Fatal("the importer runs")
		case err := <-g.ended:
			t.Fatalf("Start ends with %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if err := g.gated.ready(); err != nil {
			t.Errorf("off, and not ready: %v", err)
		}
		g.cancel()
		g.expectEnd(nil)
	})
}
