// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"open-cluster-management.io/import-provider/test/harness"
)

// settleTime lets API servers finish what they still do when they are ready.
const settleTime = 1500 * time.Millisecond

// startSpokes starts managed clusters that never saw OCM, all at once.
func startSpokes(ctx context.Context, binDir string, n int) ([]*harness.ControlPlane, error) {
	spokes := make([]*harness.ControlPlane, n)
	g, gctx := errgroup.WithContext(ctx)
	for i := range spokes {
		g.Go(func() (err error) {
			spokes[i], err = harness.Start(gctx, harness.Options{Name: fmt.Sprintf("spoke%d", i), BinDir: binDir})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, stopSpokes(spokes))
	}
	select {
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), stopSpokes(spokes))
	case <-time.After(settleTime):
		return spokes, nil
	}
}

func stopSpokes(spokes []*harness.ControlPlane) error {
	var g errgroup.Group
	for _, spoke := range spokes {
		if spoke != nil {
			g.Go(spoke.Stop)
		}
	}
	return g.Wait()
}

// hungServer accepts connections and never says a word.
type hungServer struct {
	listener net.Listener
	lock     sync.Mutex // guards conns
	conns    []net.Conn
}

func startHungServer(ctx context.Context) (*hungServer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the hung server: %w", err)
	}
	h := &hungServer{listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.lock.Lock()
			h.conns = append(h.conns, conn)
			h.lock.Unlock()
		}
	}()
	return h, nil
}

// stop closes all connections, which frees a client that waits without a bound.
func (h *hungServer) stop() {
	_ = h.listener.Close()
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, conn := range h.conns {
		_ = conn.Close()
	}
}

func (h *hungServer) url() string { return "https://" + h.listener.Addr().String() }
