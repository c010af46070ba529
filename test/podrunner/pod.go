// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// forcedGrace is what a process gets whose pod object is gone already.
const forcedGrace = 2 * time.Second

// pod runs one pod that is bound to our node.
type pod struct {
	object     *corev1.Pod
	client     kubernetes.Interface
	dir        string
	volumes    *volumes
	containers []*container
	log        logr.Logger

	// cancel begins the end of the containers; done is closed when nothing of the pod is left here.
	cancel context.CancelFunc
	done   chan struct{}
	// changed holds one token when the status must be reported.
	changed chan struct{}

	mu         sync.Mutex
	grace      time.Duration
	gone       bool // the object no longer exists
	terminate  bool // the object is to be deleted once the containers have ended
	conditions map[corev1.PodConditionType]corev1.PodCondition
}

// newPod prepares a pod; run runs it.
func newPod(r *Runner, object *corev1.Pod) *pod {
	dir := filepath.Join(r.podsDir(), string(object.UID))
	p := &pod{
		object: object, client: r.client, dir: dir, done: make(chan struct{}), changed: make(chan struct{}, 1),
		log:   r.log.WithValues("pod", object.Namespace+"/"+object.Name),
		grace: stopGrace, conditions: map[corev1.PodConditionType]corev1.PodCondition{},
		volumes: &volumes{
			pod: object, dir: filepath.Join(dir, "volumes"), client: r.client, secrets: r.secrets, configMaps: r.configMaps,
			dirs: map[string]*atomicDir{}, tokens: map[string]boundToken{},
		},
	}
	for _, c := range object.Status.Conditions {
		p.conditions[c.Type] = c
	}
	for i := range object.Spec.Containers {
		spec := &object.Spec.Containers[i]
		c := newContainer(object, spec)
		c.layout = layout{
			binDir: r.options.BinDir, dir: filepath.Join(dir, "containers", spec.Name),
			server: r.server, caFile: r.caFile(), volumes: p.volumes,
		}
		c.logFile = filepath.Join(r.LogDir(), strings.Join([]string{object.Namespace, object.Name, spec.Name}, "_")+".log")
		c.log = p.log.WithValues("container", spec.Name)
		c.pullable = func(image string) bool {
			return r.options.UnpullableImages == nil || !r.options.UnpullableImages(image)
		}
		c.changed = p.touch
		c.grace = p.currentGrace
		p.containers = append(p.containers, c)
	}
	return p
}

func (p *pod) touch() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *pod) currentGrace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grace
}

// delete ends the containers with the grace period of the deletion and then removes the object.
func (p *pod) delete(grace time.Duration) {
	p.mu.Lock()
	p.terminate, p.grace = true, grace
	p.mu.Unlock()
	p.cancel()
}

// abandon ends the containers of a pod whose object is gone.
func (p *pod) abandon() {
	p.mu.Lock()
	p.gone, p.grace = true, forcedGrace
	p.mu.Unlock()
	p.cancel()
}

// run returns once ctx ended or the pod was deleted, the processes are gone, and the directory is removed.
// ctx must be the one that p.cancel cancels; reports are sent with reportCtx, which outlives it.
func (p *pod) run(ctx, reportCtx context.Context) {
	defer close(p.done)
	if err := p.makeDirs(); err != nil {
		// Nothing can run without a place to run in. The pod stays Pending.
		p.log.Error(err, "Pod can't run")
		<-ctx.Done()
	} else {
		p.log.Info("Pod starts")
		p.runContainers(ctx, reportCtx)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.log.Error(err, "Pod directory stays behind")
	}

	p.mu.Lock()
	terminate := p.terminate && !p.gone
	p.mu.Unlock()
	if terminate {
		p.removeObject(reportCtx)
	}
	p.log.Info("Pod ended")
}

func (p *pod) makeDirs() error {
	for _, c := range p.containers {
		if err := os.MkdirAll(c.layout.dir, 0o700); err != nil {
			return fmt.Errorf("create container directory: %w", err)
		}
	}
	return os.MkdirAll(p.volumes.dir, 0o700)
}

func (p *pod) runContainers(ctx, reportCtx context.Context) {
	var running, helpers sync.WaitGroup
	for _, c := range p.containers {
		running.Go(func() { c.run(ctx) })
	}
	helperCtx, stopHelpers := context.WithCancel(reportCtx)
	helpers.Go(func() { p.reportLoop(helperCtx) })
	helpers.Go(func() {
		for sleep(ctx, volumeSyncPeriod) {
			// A secret that vanished keeps its last files, as with a kubelet.
			if err := p.volumes.sync(ctx); err != nil && !errors.Is(err, errNotReady) && ctx.Err() == nil {
				p.log.Error(err, "Volumes are not up to date")
			}
		}
	})
	p.touch()
	running.Wait()
	// Containers that came to rest by their restart policy leave a pod that still exists.
	<-ctx.Done()
	stopHelpers()
	helpers.Wait()
	// The last words: containers terminated.
	if err := p.report(reportCtx); err != nil {
		p.log.V(1).Info("Final status not reported", "error", err.Error())
	}
}

// reportLoop sends the status after each change, and again later when the API server does not answer.
func (p *pod) reportLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		if err := p.report(ctx); err != nil && ctx.Err() == nil {
			p.log.V(1).Info("Status not reported, trying again", "error", err.Error())
			if !sleep(ctx, time.Second) {
				return
			}
			p.touch()
		}
	}
}

// report patches the pod's status. The UID in the patch keeps it from reaching a namesake. A strategic merge
// would keep the reason of a condition that no longer has one.
func (p *pod) report(ctx context.Context) error {
	status := p.status()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.object.UID},
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	_, err = p.client.CoreV1().Pods(p.object.Namespace).
		Patch(ctx, p.object.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// status derives the pod's status from its containers.
func (p *pod) status() corev1.PodStatus {
	status := corev1.PodStatus{
		Phase:     corev1.PodPending,
		HostIP:    loopback,
		HostIPs:   []corev1.HostIP{{IP: loopback}},
		StartTime: &p.object.CreationTimestamp,
		QOSClass:  p.object.Status.QOSClass,
	}
	ready, ranAll, ended, failed := true, true, 0, false
	for _, c := range p.containers {
		s := c.snapshot()
		status.ContainerStatuses = append(status.ContainerStatuses, s)
		ready = ready && s.Ready
		ranAll = ranAll && (s.ContainerID != "")
		if s.State.Terminated != nil && p.object.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			ended++
			failed = failed || s.State.Terminated.ExitCode != 0
		}
	}
	switch {
	case ended == len(p.containers) && failed:
		status.Phase = corev1.PodFailed
	case ended == len(p.containers):
		status.Phase = corev1.PodSucceeded
	case ranAll:
		status.Phase = corev1.PodRunning
	}
	if ranAll {
		status.PodIP, status.PodIPs = loopback, []corev1.PodIP{{IP: loopback}}
	}
	readyReason := ""
	if !ready {
		readyReason = "ContainersNotReady"
	}
	status.Conditions = []corev1.PodCondition{
		p.condition(corev1.PodScheduled, true, ""),
		p.condition(corev1.PodInitialized, true, ""),
		p.condition(corev1.ContainersReady, ready, readyReason),
		p.condition(corev1.PodReady, ready, readyReason),
	}
	return status
}

// condition keeps the transition time while the status stays.
func (p *pod) condition(t corev1.PodConditionType, value bool, reason string) corev1.PodCondition {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := corev1.ConditionFalse
	if value {
		status = corev1.ConditionTrue
	}
	c := corev1.PodCondition{Type: t, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
	if old, ok := p.conditions[t]; ok && old.Status == status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	p.conditions[t] = c
	return c
}

// removeObject tells the API server that the containers have ended, which deletes the pod.
func (p *pod) removeObject(ctx context.Context) {
	options := *metav1.NewDeleteOptions(0)
	options.Preconditions = &metav1.Preconditions{UID: &p.object.UID}
	for {
		err := p.client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name, options)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || ctx.Err() != nil {
			return
		}
		p.log.V(1).Info("Pod not removed, trying again", "error", err.Error())
		if !sleep(ctx, time.Second) {
			return
		}
	}
}
