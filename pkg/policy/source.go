// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// pollInterval is how often the file is read. It is small, and Kubernetes takes up to a minute to bring a change of a
// ConfigMap; to watch it would mean to follow the links that Kubernetes swaps.
const pollInterval = 5 * time.Second

// Source is the policy in a file, which is read again when it changes.
type Source struct {
	path     string
	interval time.Duration
	// seen is what was found last in the place of the file, good or bad. Run alone uses it.
	seen    string
	current atomic.Pointer[Policy]
}

// NewSource reads the policy in a file; with no path it is the default, for ever. The error names the file and the fields.
func NewSource(path string) (*Source, error) {
	s := &Source{path: path, interval: pollInterval}
	if path == "" {
		s.current.Store(Default())
		return s, nil
	}
	registerMetrics()
	seen, p, err := s.read()
	if err != nil {
		return nil, err
	}
	s.seen = seen
	s.current.Store(p)
	upToDate.Set(1)
	return s, nil
}

// Current returns the policy. It is never nil, and the same until it changes.
func (s *Source) Current() *Policy { return s.current.Load() }

// Run reads the file again when it changes, until the context ends. changed is called after each change that is good; a bad
// one is logged once, counted, and leaves the policy as it is. It must not run twice at a time.
//
// Whoever writes the file must replace it in one step, as Kubernetes does, or the first half of it may be taken for all.
func (s *Source) Run(ctx context.Context, changed func()) {
	if s.path == "" {
		<-ctx.Done()
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		seen, p, err := s.read()
		switch {
		case seen == s.seen:
		case err != nil:
			s.seen = seen
			countReload(false)
			klog.FromContext(ctx).Error(err, "New policy cannot be used, the one before stays in force")
		default:
			s.seen = seen
			s.current.Store(p)
			countReload(true)
			klog.FromContext(ctx).Info("Policy changed", "file", s.path)
			changed()
		}
	}, s.interval)
}

// read returns the policy in the file, and what was found: the content, or why there is none.
func (s *Source) read() (seen string, p *Policy, err error) {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return "error: " + err.Error(), nil, fmt.Errorf("reading the policy: %w", err)
	}
	if p, err = Parse(data); err != nil {
		return "content: " + string(data), nil, fmt.Errorf("policy %s: %w", s.path, err)
	}
	return "content: " + string(data), p, nil
}
