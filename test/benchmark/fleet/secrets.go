// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/fleet"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/importhub"
)

// betweenTries is well above the first retry, so that none is due when the Secrets are mended.
const betweenTries = 20 * time.Second

// mend measures how long it takes until the clusters of many Secrets that are mended at once are tried again.
func (b *bench) mend(ctx context.Context) (err error) {
	clusters, err := b.startSpokes(ctx, b.fixed, 0)
	if err != nil {
		return err
	}
	defer clusters.Stop()
	h, err := b.startOurs(ctx)
	defer func() { err = errors.Join(err, h.Stop()) }()
	if err != nil {
		return err
	}
	figures.Progress("%d Secrets with tokens that are not accepted", b.fixed)
	if err := forEach(ctx, clusters.healthy, func(ctx context.Context, cluster *fleet.Cluster) error {
		config := harness.TokenKubeconfig(cluster.URL(), cluster.CAData(), "not-accepted")
		return errors.Join(h.CreateCredential(ctx, cluster.Name(), config), h.CreateCluster(ctx, cluster.Name()))
	}); err != nil {
		return fmt.Errorf("creating Secrets: %w", err)
	}
	failedCtx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := poll(failedCtx, time.Second, func() (bool, error) {
		list, err := h.Clusters.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if !meta.IsStatusConditionFalse(list.Items[i].Status.Conditions, kubeconfig.ConditionPreflightPassed) {
				return false, nil
			}
		}
		return len(list.Items) == b.fixed, nil
	}); err != nil {
		return fmt.Errorf("waiting for clusters to fail: %w", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(betweenTries):
	}

	secrets := h.Kube.CoreV1().Secrets(component.ImportNamespace)
	var lock sync.Mutex
	mended := map[string]time.Time{}
	started := time.Now()
	if err := forEach(ctx, clusters.healthy, func(ctx context.Context, cluster *fleet.Cluster) error {
		_, err := secrets.Update(ctx, importhub.ImportSecret(cluster.Name(), cluster.Kubeconfig()), metav1.UpdateOptions{})
		lock.Lock()
		defer lock.Unlock()
		mended[cluster.Name()] = time.Now()
		return err
	}); err != nil {
		return fmt.Errorf("mending Secrets: %w", err)
	}
	written := time.Since(started)
	retriedCtx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := poll(retriedCtx, 20*time.Millisecond, func() (bool, error) {
		clusters.lock.Lock()
		defer clusters.lock.Unlock()
		return len(clusters.firstOK) == b.fixed, nil
	}); err != nil {
		return fmt.Errorf("waiting for clusters to be tried again: %w", err)
	}
	var waits []float64
	var last time.Time
	for name, at := range clusters.firstOK {
		waits = append(waits, at.Sub(mended[name]).Seconds())
		if at.After(last) {
			last = at
		}
	}
	slices.Sort(waits)
	n := fmt.Sprintf("mended-%d", b.fixed)
	b.report.figure(n+"-written", written.Seconds(), "s")
	b.report.figure(n+"-retried-p50", waits[len(waits)/2], "s")
	b.report.figure(n+"-retried-last", last.Sub(started).Seconds(), "s")
	b.report.goal(fmt.Sprintf("%d Secrets that are mended at once are all tried again within 2 s", b.fixed),
		n+"-retried-last", last.Sub(started).Seconds(), atMost, 2)
	return nil
}

// idle measures what an import Secret costs that nobody needs.
func (b *bench) idle(ctx context.Context) (err error) {
	h, err := b.startOurs(ctx)
	defer func() { err = errors.Join(err, h.Stop()) }()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if _, err := h.quiet(ctx); err != nil {
		return err
	}
	before, err := h.level(ctx, true)
	if err != nil {
		return err
	}
	figures.Progress("%d Secrets without a cluster", b.idleSecrets)
	// One kubeconfig for all: it is not read.
	clusters, err := b.startSpokes(ctx, 1, 0)
	if err != nil {
		return err
	}
	defer clusters.Stop()
	config := clusters.healthy[0].Kubeconfig()
	names := make([]string, b.idleSecrets)
	for i := range names {
		names[i] = fmt.Sprintf("idle-%05d", i)
	}
	if err := forEach(ctx, names, func(ctx context.Context, name string) error {
		return h.CreateCredential(ctx, name, config)
	}); err != nil {
		return fmt.Errorf("creating Secrets: %w", err)
	}
	if _, err := h.quiet(ctx); err != nil {
		return err
	}
	after, err := h.level(ctx, true)
	if err != nil {
		return err
	}
	n := float64(b.idleSecrets)
	heap := (after.Heap - before.Heap) / n / kib
	b.report.figure("idle-heap-per-secret", heap, "KiB")
	b.report.figure("idle-rss-per-secret", (after.RSS-before.RSS)/n/kib, "KiB")
	b.report.goal("an idle import Secret takes at most 3 KiB", "idle-heap-per-secret", heap, atMost, 3)
	return nil
}
