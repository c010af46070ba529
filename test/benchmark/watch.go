// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/test/importhub"
)

// watcher sees when ManagedClusters are imported, by a watch: a poll would round the times up.
type watcher struct {
	watch watch.Interface
	seen  map[string]time.Time
}

func (s *side) watch(ctx context.Context) (*watcher, error) {
	list, err := s.Clusters.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	w, err := s.Clusters.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, err
	}
	return &watcher{watch: w, seen: map[string]time.Time{}}, nil
}

func (w *watcher) stop() { w.watch.Stop() }

// wait returns when it saw each of the clusters, or with those that it saw when the context ends.
func (w *watcher) wait(ctx context.Context, names []string) (map[string]time.Time, error) {
	for {
		missing := 0
		for _, name := range names {
			if _, ok := w.seen[name]; !ok {
				missing++
			}
		}
		if missing == 0 {
			return w.seen, nil
		}
		select {
		case <-ctx.Done():
			return w.seen, fmt.Errorf("%d of %d clusters are missing: %w", missing, len(names), ctx.Err())
		case event, ok := <-w.watch.ResultChan():
			now := time.Now()
			if !ok || event.Type == watch.Error {
				return nil, errors.New("the watch of ManagedClusters broke off")
			}
			cluster, ok := event.Object.(*clusterv1.ManagedCluster)
			if !ok || !meta.IsStatusConditionTrue(cluster.Status.Conditions, importhub.ConditionImported) {
				continue
			}
			if _, again := w.seen[cluster.Name]; !again {
				w.seen[cluster.Name] = now
			}
		}
	}
}
