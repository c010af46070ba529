// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// DefaultNodeName is the name of the node when Options names none.
	DefaultNodeName = "podrunner"
	// stopGrace is what the processes get when the runner stops: enough for an agent to release its lease,
	// which a successor would otherwise wait for.
	stopGrace = 10 * time.Second
)

// Options configures a Runner.
type Options struct {
	// Config reaches the cluster as an administrator. Required. Its Host is also what the pods' processes connect to.
	Config *rest.Config
	// CAData is the PEM bundle that the pods' processes verify the API server with. Default: that of Config.
	CAData []byte
	// BinDir holds the binaries registration and registration-operator. Required.
	BinDir string
	// Dir holds the pods' files and logs. Default: a new temporary directory, which Stop removes with
	// everything in it. Of a directory that the caller names, the logs stay.
	Dir string
	// NodeName is the name of the node to play. Default: DefaultNodeName.
	NodeName string
	// Logger reports what happens to pods. The processes' own output goes to one file per container below
	// LogDir. Default: discarded.
	Logger logr.Logger
	// UnpullableImages reports the images that can't be pulled. It is asked again every half second, for as long
	// as a container waits. Default: every image can be had.
	UnpullableImages func(image string) bool
}

// Runner is a node that was started.
type Runner struct {
	options    Options
	log        logr.Logger
	client     kubernetes.Interface
	server     string
	version    string
	dir        string
	ownsDir    bool
	podLister  corev1listers.PodLister
	secrets    corev1listers.SecretLister
	configMaps corev1listers.ConfigMapLister
	queue      workqueue.TypedRateLimitingInterface[types.NamespacedName]
	factory    informers.SharedInformerFactory
	ctx        context.Context //nolint:containedctx // The life of the runner itself; Stop ends it.
	cancel     context.CancelFunc
	loops      sync.WaitGroup
	stopOnce   sync.Once
	stopErr    error

	// The queue's only worker owns these.
	pods    map[types.NamespacedName]*pod
	ignored map[types.UID]struct{}
}

// Start registers the node and begins to run pods. It returns once the node is Ready. The context bounds only
// the start: Stop ends the runner.
func Start(ctx context.Context, o Options) (*Runner, error) {
	if o.Config == nil {
		return nil, errors.New("a config is required")
	}
	if o.NodeName == "" {
		o.NodeName = DefaultNodeName
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	for path := range binaries {
		name := filepath.Join(o.BinDir, filepath.Base(path))
		if _, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("agent binary: %w", err)
		}
	}
	config := rest.CopyConfig(o.Config)
	// A node of its own must not wait for client-side throttling.
	config.QPS, config.Burst = 100, 200
	if len(o.CAData) == 0 {
		if err := rest.LoadTLSFiles(config); err != nil {
			return nil, fmt.Errorf("load TLS files: %w", err)
		}
		o.CAData = config.CAData
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("derive API server address: %w", err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("get API server version: %w", err)
	}

	r := &Runner{
		options: o, log: o.Logger.WithValues("node", o.NodeName), client: client, server: server.String(), version: version.GitVersion,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second)),
		factory: informers.NewSharedInformerFactory(client, 0),
		pods:    map[types.NamespacedName]*pod{},
		ignored: map[types.UID]struct{}{},
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

func (r *Runner) start(ctx context.Context) error {
	if err := r.makeDirs(); err != nil {
		return err
	}
	core := r.factory.Core().V1()
	r.podLister, r.secrets, r.configMaps = core.Pods().Lister(), core.Secrets().Lister(), core.ConfigMaps().Lister()
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			r.queue.Add(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
		}
	}
	if _, err := core.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	core.Secrets().Informer()
	core.ConfigMaps().Informer()

	if err := r.registerNode(ctx); err != nil {
		return err
	}
	r.factory.Start(r.ctx.Done())
	for kind, ok := range r.factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("cache of %s did not fill", kind)
		}
	}
	r.loops.Go(func() { r.heartbeats(r.ctx) })
	r.loops.Go(func() {
		for r.next() {
		}
	})
	return nil
}

func (r *Runner) makeDirs() error {
	r.dir = r.options.Dir
	if r.dir == "" {
		dir, err := os.MkdirTemp("", "podrunner-")
		if err != nil {
			return fmt.Errorf("create directory: %w", err)
		}
		r.dir, r.ownsDir = dir, true
	}
	// Relative paths would mean something else to processes that run elsewhere.
	dir, err := filepath.Abs(r.dir)
	if err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	if r.dir = dir; r.options.BinDir != "" {
		if r.options.BinDir, err = filepath.Abs(r.options.BinDir); err != nil {
			return fmt.Errorf("find binaries: %w", err)
		}
	}
	for _, d := range []string{r.podsDir(), r.LogDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("create directory: %w", err)
		}
	}
	if err := os.WriteFile(r.caFile(), r.options.CAData, 0o600); err != nil {
		return fmt.Errorf("write CA bundle: %w", err)
	}
	return nil
}

// LogDir holds a file <namespace>_<pod>_<container>.log for each container, with all its restarts.
func (r *Runner) LogDir() string { return filepath.Join(r.dir, "logs") }

func (r *Runner) podsDir() string { return filepath.Join(r.dir, "pods") }
func (r *Runner) caFile() string  { return filepath.Join(r.podsDir(), "ca.crt") }

// Stop sends SIGTERM to every process, waits up to ten seconds, kills what is left, and removes the files.
// The objects in the cluster stay; if the API server still answers, the pods say that their containers ended.
// Stopping twice is harmless.
func (r *Runner) Stop() error {
	r.stopOnce.Do(func() {
		r.queue.ShutDown()
		r.cancel()
		r.loops.Wait()
		for _, p := range r.pods {
			<-p.done
		}
		r.factory.Shutdown()
		remove := r.podsDir()
		if r.ownsDir {
			remove = r.dir
		}
		if r.dir != "" {
			if err := os.RemoveAll(remove); err != nil {
				r.stopErr = fmt.Errorf("remove files: %w", err)
			}
		}
	})
	return r.stopErr
}

// next handles one pod. It reports false when the runner stops.
func (r *Runner) next() bool {
	key, stop := r.queue.Get()
	if stop {
		return false
	}
	defer r.queue.Done(key)
	if err := r.reconcile(key); err != nil {
		if r.ctx.Err() == nil {
			r.log.Error(err, "Pod not handled, trying again", "pod", key.String())
		}
		r.queue.AddRateLimited(key)
		return true
	}
	r.queue.Forget(key)
	return true
}

func (r *Runner) reconcile(key types.NamespacedName) error {
	object, err := r.podLister.Pods(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	known := r.pods[key]
	if known != nil && (object == nil || object.UID != known.object.UID) {
		known.abandon()
		delete(r.pods, key)
		// The directory and the log have the old pod's name until it is gone.
		<-known.done
		known = nil
	}
	switch {
	case object == nil:
		return nil
	case known != nil:
		if object.DeletionTimestamp != nil {
			known.delete(graceOf(object))
		}
		return nil
	case object.Spec.NodeName == "" && object.DeletionTimestamp == nil:
		return r.schedule(object)
	case object.Spec.NodeName != r.options.NodeName,
		object.Status.Phase == corev1.PodSucceeded, object.Status.Phase == corev1.PodFailed:
		return nil
	}
	if _, ok := supported(object); !ok && object.DeletionTimestamp == nil {
		r.ignore(object, "it is bound to this node, but can't be played")
		return nil
	}

	p := newPod(r, object.DeepCopy())
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(r.ctx)
	r.pods[key] = p
	if object.DeletionTimestamp != nil {
		// Nothing of it runs here: an earlier runner did not live to see it deleted.
		p.delete(0)
	}
	// The reports outlive the processes, and a stop, for as long as it takes to send the last one.
	r.loops.Go(func() {
		reportCtx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
		defer cancel()
		stop := context.AfterFunc(r.ctx, func() { time.AfterFunc(stopGrace+forcedGrace, cancel) })
		defer stop()
		p.run(ctx, reportCtx)
	})
	return nil
}

func graceOf(object *corev1.Pod) time.Duration {
	if object.DeletionGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return time.Duration(*object.DeletionGracePeriodSeconds) * time.Second
}

// schedule binds a pod to the node if it can run there.
func (r *Runner) schedule(object *corev1.Pod) error {
	if why, ok := supported(object); !ok {
		r.ignore(object, why)
		return nil
	}
	if !labels.SelectorFromSet(object.Spec.NodeSelector).Matches(labels.Set(r.nodeLabels())) {
		r.ignore(object, "its node selector does not match")
		return nil
	}
	err := r.client.CoreV1().Pods(object.Namespace).Bind(r.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: r.options.NodeName},
	}, metav1.CreateOptions{})
	// A conflict means that it is bound or replaced, and the watch says which.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bind pod: %w", err)
	}
	return nil
}

// ignore says once why a pod does not run.
func (r *Runner) ignore(object *corev1.Pod, why string) {
	if _, ok := r.ignored[object.UID]; ok {
		return
	}
	r.ignored[object.UID] = struct{}{}
	r.log.Info("Pod is left alone", "pod", object.Namespace+"/"+object.Name, "reason", why)
}
