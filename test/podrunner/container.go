// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/import-provider/test/process"
)

const (
	backOffMin = time.Second
	backOffMax = 10 * time.Second
	// retryDelay is how long a container waits for its image or volumes before it looks again.
	retryDelay = 500 * time.Millisecond
	// startProbePeriod is how often a container is probed until it is ready for the first time. A kubelet waits
	// for whole periods (10 s by default); a test has better things to do, and the answer is no less real.
	startProbePeriod = 200 * time.Millisecond
	// volumeSyncPeriod is how old the files of a secret may be.
	volumeSyncPeriod = 2 * time.Second
)

// container runs one container of a pod: it starts the process again whenever it ends.
type container struct {
	pod     *corev1.Pod
	spec    *corev1.Container
	layout  layout
	logFile string
	log     logr.Logger
	// pullable reports whether the image can be had.
	pullable func(image string) bool
	// changed is called after every change of the status.
	changed func()
	// grace is how long the process gets after SIGTERM. It is read once run's context ends.
	grace func() time.Duration
	http  *http.Client

	mu     sync.Mutex
	status corev1.ContainerStatus
}

func newContainer(pod *corev1.Pod, spec *corev1.Container) *container {
	c := &container{pod: pod, spec: spec}
	c.status = corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, Started: ptr.To(false),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}
	// A pod that an earlier runner left behind goes on counting.
	for _, old := range pod.Status.ContainerStatuses {
		if old.Name == spec.Name && old.ContainerID != "" {
			c.status.RestartCount = old.RestartCount + 1
		}
	}
	c.http = &http.Client{
		// A kubelet does not verify the certificate of a probe either.
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // See above.
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// snapshot is the status to report.
func (c *container) snapshot() corev1.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.status.DeepCopy()
}

func (c *container) update(f func(*corev1.ContainerStatus)) {
	c.mu.Lock()
	f(&c.status)
	c.mu.Unlock()
	c.changed()
}

func (c *container) waiting(reason, message string) {
	c.update(func(s *corev1.ContainerStatus) {
		s.Ready, s.Started = false, ptr.To(false)
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

// run returns when ctx ends and the process is gone, or when the restart policy lets the container rest.
func (c *container) run(ctx context.Context) {
	backOff := backOffMin
	for ctx.Err() == nil {
		if !c.prepare(ctx) {
			return
		}
		started := time.Now()
		code, err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.log.Error(err, "Container did not start")
			c.waiting("CreateContainerError", err.Error())
		} else {
			c.log.Info("Container exited", "exitCode", code, "after", time.Since(started).Round(time.Millisecond).String())
			if c.pod.Spec.RestartPolicy == corev1.RestartPolicyNever ||
				(c.pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && code == 0) {
				return
			}
			c.update(func(s *corev1.ContainerStatus) {
				s.LastTerminationState = s.State
				s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
					Reason: "CrashLoopBackOff", Message: fmt.Sprintf("restarting after %s", backOff),
				}}
			})
		}
		// An agent that ends well wants to be started again at once: it does so when its bootstrap kubeconfig changes.
		if err == nil && (code == 0 || time.Since(started) > backOffMax) {
			backOff = backOffMin
		}
		if !sleep(ctx, backOff) {
			return
		}
		backOff = min(2*backOff, backOffMax)
		if err == nil {
			c.update(func(s *corev1.ContainerStatus) { s.RestartCount++ })
		}
	}
}

// prepare waits for the image and the volumes. It reports false when ctx ended first.
func (c *container) prepare(ctx context.Context) bool {
	for {
		if !c.pullable(c.spec.Image) {
			c.waiting("ErrImagePull", fmt.Sprintf("image %s can't be pulled", c.spec.Image))
		} else {
			err := c.layout.volumes.sync(ctx)
			if err == nil {
				return true
			}
			c.waiting("ContainerCreating", err.Error())
			if !errors.Is(err, errNotReady) && ctx.Err() == nil {
				c.log.Error(err, "Volumes are not ready")
			}
		}
		if !sleep(ctx, retryDelay) {
			return false
		}
	}
}

// runOnce starts the process and returns its exit code once it is gone.
func (c *container) runOnce(ctx context.Context) (int, error) {
	cmd, err := newCommand(c.pod, c.spec, c.layout)
	if err != nil {
		return 0, err
	}
	output, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open log: %w", err)
	}
	// The child has a descriptor of its own.
	defer func() { _ = output.Close() }()
	startedAt := metav1.Now()
	fmt.Fprintf(output, "--- %s: start of %s with %q\n", startedAt.UTC().Format(time.RFC3339), filepath.Base(cmd.path), cmd.args)
	p, err := process.Start(process.Options{Path: cmd.path, Args: cmd.args, Env: cmd.env, Dir: c.layout.dir, Output: output})
	if err != nil {
		return 0, err
	}
	id := fmt.Sprintf("process://%d", p.PID())
	c.log.Info("Container started", "pid", p.PID(), "address", cmd.address)
	c.update(func(s *corev1.ContainerStatus) {
		s.ContainerID, s.ImageID = id, c.spec.Image
		// Without a startup probe a container counts as started when it runs.
		s.Started = ptr.To(c.spec.StartupProbe == nil)
		s.Ready = c.spec.ReadinessProbe == nil && c.spec.StartupProbe == nil
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: startedAt}}
	})

	reason := c.watch(ctx, p, cmd.address)
	if reason != "" {
		// A readiness that is still true would send work to a process that was told to go.
		c.update(func(s *corev1.ContainerStatus) { s.Ready = false })
		grace := c.grace()
		if ctx.Err() == nil {
			grace = time.Duration(ptr.Deref(c.pod.Spec.TerminationGracePeriodSeconds, 30)) * time.Second
		}
		if !p.Stop(grace) {
			c.log.Info("Container killed after its grace period", "grace", grace.String())
		}
	}
	fmt.Fprintf(output, "--- %s: exit code %d %s\n", time.Now().UTC().Format(time.RFC3339), p.ExitCode(), reason)
	c.update(func(s *corev1.ContainerStatus) {
		s.Ready, s.Started = false, ptr.To(false)
		t := &corev1.ContainerStateTerminated{
			ExitCode: int32(p.ExitCode()), Reason: "Error", Message: reason, //nolint:gosec // At most 255.
			StartedAt: startedAt, FinishedAt: metav1.Now(), ContainerID: id,
		}
		if t.ExitCode == 0 {
			t.Reason = "Completed"
		}
		s.State = corev1.ContainerState{Terminated: t}
	})
	return p.ExitCode(), nil
}

// watch probes the process and returns why it must be stopped, or "" when it ended by itself.
func (c *container) watch(ctx context.Context, p *process.Process, address string) string {
	startup := newProber(c.spec.StartupProbe)
	readiness := newProber(c.spec.ReadinessProbe)
	liveness := newProber(c.spec.LivenessProbe)
	// Before the first success probes are quick, and a failure says nothing.
	if readiness != nil {
		readiness.next = time.Now().Add(startProbePeriod)
		readiness.quick = true
	}
	ticker := time.NewTicker(startProbePeriod / 2)
	defer ticker.Stop()
	for {
		select {
		case <-p.Done():
			return ""
		case <-ctx.Done():
			return "pod deleted"
		case <-ticker.C:
		}
		if startup != nil {
			switch startup.poll(ctx, c.http, address) {
			case probePassed:
				startup = nil
				c.update(func(s *corev1.ContainerStatus) {
					s.Started = ptr.To(true)
					s.Ready = readiness == nil
				})
			case probeFailed:
				return "startup probe failed"
			case probeUndecided:
			}
			continue
		}
		if liveness.poll(ctx, c.http, address) == probeFailed {
			return "liveness probe failed"
		}
		switch readiness.poll(ctx, c.http, address) {
		case probePassed:
			c.setReady(true)
		case probeFailed:
			c.setReady(false)
		case probeUndecided:
		}
	}
}

func (c *container) setReady(ready bool) {
	if c.snapshot().Ready != ready {
		c.update(func(s *corev1.ContainerStatus) { s.Ready = ready })
	}
}

type probeResult int

const (
	probeUndecided probeResult = iota
	probePassed
	probeFailed
)

// prober applies the thresholds of one probe. A nil prober is never decided.
type prober struct {
	spec               *corev1.Probe
	next               time.Time
	quick              bool
	passed, failedTurn int32
}

func newProber(spec *corev1.Probe) *prober {
	// Only HTTP probes are played: OCM's agents have no others.
	if spec == nil || spec.HTTPGet == nil {
		return nil
	}
	return &prober{spec: spec, next: time.Now().Add(time.Duration(spec.InitialDelaySeconds) * time.Second)}
}

// poll probes when it is time to, and reports passed or failed once the threshold is reached.
func (p *prober) poll(ctx context.Context, client *http.Client, address string) probeResult {
	if p == nil || time.Now().Before(p.next) {
		return probeUndecided
	}
	ok := p.get(ctx, client, address)
	if ok {
		p.quick = false
		p.passed, p.failedTurn = p.passed+1, 0
	} else {
		p.passed, p.failedTurn = 0, p.failedTurn+1
	}
	period := time.Duration(max(p.spec.PeriodSeconds, 1)) * time.Second
	if p.quick {
		period = startProbePeriod
	}
	p.next = time.Now().Add(period)
	switch {
	case p.passed >= max(p.spec.SuccessThreshold, 1):
		return probePassed
	case p.failedTurn >= max(p.spec.FailureThreshold, 1):
		return probeFailed
	default:
		return probeUndecided
	}
}

// get asks the process itself, at the address that took the place of the port in the pod spec.
func (p *prober) get(ctx context.Context, client *http.Client, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.spec.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	scheme := "http"
	if p.spec.HTTPGet.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+p.spec.HTTPGet.Path, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode >= 200 && resp.StatusCode < 400
}

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
