// Copyright Contributors to the Open Cluster Management project

package soak

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"open-cluster-management.io/import-provider/test/benchmark/usage"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/process"
)

const (
	// restartDelay is from the end of a replica to its next start.
	restartDelay = 500 * time.Millisecond
	// leaderLimit is well above a lease and the start of a process.
	leaderLimit = 90 * time.Second
	leaderPoll  = 100 * time.Millisecond
)

// replica is one import-controller, which is started again whenever it ends, as the kubelet does.
type replica struct {
	options component.Options
	debug   string
	stop    context.CancelFunc
	done    chan struct{}

	lock    sync.Mutex // guards what follows, for the time of a change
	running *component.Process
	// expected is the process whose end was asked for.
	expected *component.Process
	// exits are the ends that nobody asked for.
	exits int
	err   error
}

// startReplica starts a replica and returns at once.
func (s *soak) startReplica(name string) (*replica, error) {
	debug, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &replica{debug: debug, stop: stop, done: make(chan struct{}), options: component.Options{
		BinDir: s.options.Dir, Kubeconfig: s.kubeconfig, LogFile: filepath.Join(s.options.LogDir, name+".log"), Args: s.options.Args,
		Env: []string{usage.AddressVariable + "=" + debug},
		// The other one is at work.
		NotReady: true,
	}}
	go r.run(ctx)
	return r, nil
}

func (r *replica) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		// Without an API server it ends at once.
		if p, err := component.Start(ctx, r.options); err == nil {
			r.set(p)
			select {
			case <-p.Done():
				r.ended(p)
			case <-ctx.Done():
				if !p.Stop() {
					r.fail(fmt.Errorf("the process did not end by itself, %s", r.options.LogFile))
				}
				r.set(nil)
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

func (r *replica) set(p *component.Process) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.running = p
}

func (r *replica) ended(p *component.Process) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.running = nil
	if r.expected != p {
		r.exits++
	}
}

func (r *replica) fail(err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.err = err
}

// current is the running process, nil between two.
func (r *replica) current() *component.Process {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.running
}

// end kills a process, or asks it to end.
func (r *replica) end(p *component.Process, kill bool) {
	r.lock.Lock()
	r.expected = p
	r.lock.Unlock()
	if kill {
		p.Kill()
	} else if !p.Stop() {
		r.fail(fmt.Errorf("the process did not end by itself, %s", r.options.LogFile))
	}
}

// leads asks a process whether it is the leader.
func leads(ctx context.Context, p *component.Process) bool {
	body, err := usage.Get(ctx, strings.TrimPrefix(strings.TrimSuffix(p.URL("/metrics"), "/metrics"), "http://"), "/metrics")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "leader_election_master_status{") && strings.HasSuffix(line, "} 1\n") {
			return true
		}
	}
	return false
}

// leader waits for a leader and returns it.
func (s *soak) leader(ctx context.Context) (*replica, *component.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderLimit)
	defer cancel()
	for {
		for _, r := range s.replicas {
			if p := r.current(); p != nil && leads(ctx, p) {
				return r, p, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("no replica leads: %w", ctx.Err())
		case <-time.After(leaderPoll):
		}
	}
}
