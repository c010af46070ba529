// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	operatorinformers "open-cluster-management.io/api/client/operator/informers/externalversions"
	ocmfeature "open-cluster-management.io/api/feature"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	operatorhelpers "open-cluster-management.io/ocm/pkg/operator/helpers"
)

// gatedImporter runs the importer while the ClusterImporter feature gate is on.
type gatedImporter struct {
	// override decides instead of the ClusterManager when it is not nil.
	override *bool
	// client reads the ClusterManager of that name.
	client             operatorclient.Interface
	clusterManagerName string
	// run runs the importer until its context ends, and calls ready when it works.
	run func(ctx context.Context, ready func()) error

	// starting is true from the moment that the gate is seen on to the moment that the importer works.
	starting atomic.Bool
}

// ready is a check: an error while the importer should work and does not yet.
func (g *gatedImporter) ready() error {
	if g.starting.Load() {
		return fmt.Errorf("the importer is starting")
	}
	return nil
}

// Start runs until the context ends or the importer fails. It returns when the importer has ended.
func (g *gatedImporter) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	if g.override != nil {
		logger.Info("Feature gate ClusterImporter is set by --feature-gates", "enabled", *g.override)
		if !*g.override {
			<-ctx.Done()
			return nil
		}
		return g.runImporter(ctx)
	}
	changes, err := g.watch(ctx)
	if err != nil {
		return err
	}
	var current *importerRun // nil while the gate is off
	for {
		select {
		case <-ctx.Done():
			return current.stop()
		case <-current.ended():
			return current.stop()
		case enabled := <-changes:
			if enabled == (current != nil) {
				continue
			}
			logger.Info("Feature gate ClusterImporter changed", "clusterManager", g.clusterManagerName, "enabled", enabled)
			if enabled {
				current = g.startImporter(ctx)
				continue
			}
			if err := current.stop(); err != nil {
				return err
			}
			current = nil
		}
	}
}

// importerRun is one run of the importer. A nil run has ended without an error and ends never.
type importerRun struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // to be read after done
}

func (g *gatedImporter) startImporter(ctx context.Context) *importerRun {
	ctx, cancel := context.WithCancel(ctx)
	r := &importerRun{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = g.runImporter(ctx)
	}()
	return r
}

func (r *importerRun) ended() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.done
}

func (r *importerRun) stop() error {
	if r == nil {
		return nil
	}
	r.cancel()
	<-r.done
	return r.err
}

func (g *gatedImporter) runImporter(ctx context.Context) error {
	g.starting.Store(true)
	defer g.starting.Store(false)
	return g.run(ctx, func() { g.starting.Store(false) })
}

// watch sends the state of the gate whenever it may have changed. The channel holds the latest state only.
func (g *gatedImporter) watch(ctx context.Context) (<-chan bool, error) {
	logger := klog.FromContext(ctx)
	changes := make(chan bool, 1)
	// Handlers of one informer are called one after another, so that the drain and the send need no lock.
	send := func(enabled bool) {
		select {
		case <-changes:
		default:
		}
		changes <- enabled
	}
	factory := operatorinformers.NewSharedInformerFactoryWithOptions(g.client, 0,
		operatorinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, g.clusterManagerName).String()
		}))
	informer := factory.Operator().V1().ClusterManagers().Informer()
	var absent atomic.Bool
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			if !absent.Swap(true) {
				logger.Info("The hub has no ClusterManager API, so the feature gate ClusterImporter is off; " +
					"set --feature-gates=ClusterImporter=true to turn it on")
			}
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		return nil, fmt.Errorf("watching ClusterManager %s: %w", g.clusterManagerName, err)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { send(gateEnabled(obj)) },
		UpdateFunc: func(_, obj any) { send(gateEnabled(obj)) },
		DeleteFunc: func(any) { send(gateEnabled(nil)) },
	}); err != nil {
		return nil, fmt.Errorf("watching ClusterManager %s: %w", g.clusterManagerName, err)
	}
	factory.Start(ctx.Done())
	return changes, nil
}

// gateEnabled reads the gate as the hub's operator does: the default unless the ClusterManager names it.
func gateEnabled(obj any) bool {
	var gates []operatorv1.FeatureGate
	if clusterManager, ok := obj.(*operatorv1.ClusterManager); ok && clusterManager.Spec.RegistrationConfiguration != nil {
		gates = clusterManager.Spec.RegistrationConfiguration.FeatureGates
	}
	return operatorhelpers.FeatureGateEnabled(gates, ocmfeature.DefaultHubRegistrationFeatureGates, ocmfeature.ClusterImporter)
}
