// Copyright Contributors to the Open Cluster Management project

package soak

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/fleet"
	"open-cluster-management.io/import-provider/test/importhub"
)

// What happens.
const (
	rotation   = "rotations"
	addition   = "additions"
	deletion   = "deletions"
	death      = "deaths"
	request    = "requests"
	apiRestart = "api-restarts"
	killing    = "kills"
	handover   = "handovers"
	write      = "writes"
)

const (
	// retryEvery is between two tries of a request to the hub, which may be down.
	retryEvery = 200 * time.Millisecond
	// writeEvery is between two writes beside the importer: with some dozens of clusters, one falls into most imports.
	writeEvery = 10 * time.Millisecond
	// minDead and maxDead bound how long a cluster is dead.
	minDead, maxDead = time.Second, 5 * time.Second
)

// dead is how clusters answer that are dead for some time. Another that hangs takes all timeouts, so it is rare.
var dead = []fleet.Behaviour{fleet.Resets, fleet.Unauthorized, fleet.Forbidden, fleet.Throttles, fleet.Resets, fleet.HangsAfterTLS}

// persist does something on the hub until it works, whatever is wrong meanwhile.
func persist(ctx context.Context, do func(ctx context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w (last: %w)", ctx.Err(), err)
		}
		if err := sleep(ctx, retryEvery); err != nil {
			return err
		}
	}
}

func ignore(err error, expected func(error) bool) error {
	if expected(err) {
		return nil
	}
	return err
}

// churn lets things happen for the time of the soak.
func (s *soak) churn(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	until := time.Now().Add(s.options.Duration)
	group.Go(func() error { return s.change(ctx, group, until) })
	group.Go(func() error { return s.fault(ctx, until) })
	group.Go(func() error { return s.writeBeside(ctx, until) })
	if err := group.Wait(); err != nil {
		return fmt.Errorf("churning: %w", err)
	}
	return nil
}

// change changes Secrets, clusters and ManagedClusters.
func (s *soak) change(ctx context.Context, group *errgroup.Group, until time.Time) error {
	changes := []func(context.Context) error{s.rotate, s.rotate, s.rotate, s.addCluster, s.deleteCluster, s.askAgain}
	for time.Now().Before(until) {
		if err := sleep(ctx, s.options.ChangeEvery); err != nil {
			return err
		}
		n := s.random.IntN(len(changes) + 1)
		if n == len(changes) {
			cluster, behaviour := pick(s.random, s.ledger.present()), pick(s.random, dead)
			lasting := minDead + time.Duration(s.random.Int64N(int64(maxDead-minDead)))
			group.Go(func() error { return s.die(ctx, cluster, behaviour, lasting) })
			continue
		}
		if err := changes[n](ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeBeside writes to ManagedClusters as the hub's own controllers do, so that nobody but the API server knows their latest version.
// That is no reason to import one twice.
func (s *soak) writeBeside(ctx context.Context, until time.Time) error {
	for n := 0; time.Now().Before(until); n++ {
		if err := sleep(ctx, writeEvery); err != nil {
			return err
		}
		present := s.ledger.present()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"soak.example.com/written":"%d"}}}`, n)
		// The hub may be down, and the ManagedCluster deleted.
		if _, err := s.hub.Clusters.Patch(ctx, present[n%len(present)].Name(), types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
			s.count(write)
		}
	}
	return nil
}

// rotate gives a cluster another token, and its Secret that one.
func (s *soak) rotate(ctx context.Context) error {
	cluster := pick(s.random, s.ledger.present())
	s.ledger.disturb(rotation, cluster.Name())
	cluster.Rotate()
	err := persist(ctx, func(ctx context.Context) error {
		secret := importhub.ImportSecret(cluster.Name(), cluster.Kubeconfig())
		_, err := s.hub.Kube.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
		return err
	})
	s.ledger.disturb(rotation, cluster.Name())
	s.count(rotation)
	return err
}

// addCluster imports a new cluster, or one that was imported before. It keeps their number about the same.
func (s *soak) addCluster(ctx context.Context) error {
	if len(s.ledger.present()) > s.options.Clusters*5/4 {
		return s.deleteCluster(ctx)
	}
	var cluster *fleet.Cluster
	if len(s.parked) > 0 && s.random.IntN(2) == 0 {
		cluster = pick(s.random, s.parked)
		s.parked = remove(s.parked, cluster)
	} else {
		var err error
		if cluster, err = s.fleet.Add(ctx, fmt.Sprintf("soak-%05d", s.added), fleet.Healthy); err != nil {
			return err
		}
		s.added++
	}
	s.ledger.begin(cluster)
	steps := []func(context.Context) error{
		func(ctx context.Context) error {
			return ignore(s.hub.CreateCredential(ctx, cluster.Name(), cluster.Kubeconfig()), apierrors.IsAlreadyExists)
		},
		func(ctx context.Context) error {
			return ignore(s.hub.CreateCluster(ctx, cluster.Name()), apierrors.IsAlreadyExists)
		},
	}
	s.count(addition)
	return s.inAnyOrder(ctx, steps)
}

// deleteCluster deletes a ManagedCluster and its Secret, whether it is imported or not. The cluster ends or may come again.
func (s *soak) deleteCluster(ctx context.Context) error {
	present := s.ledger.present()
	if len(present) < max(2, s.options.Clusters*3/4) {
		return s.addCluster(ctx)
	}
	cluster := pick(s.random, present)
	s.ledger.end(cluster.Name())
	s.count(deletion)
	err := s.inAnyOrder(ctx, []func(context.Context) error{
		func(ctx context.Context) error {
			err := s.hub.Kube.CoreV1().Secrets(component.ImportNamespace).Delete(ctx, cluster.Name(), metav1.DeleteOptions{})
			return ignore(err, apierrors.IsNotFound)
		},
		func(ctx context.Context) error {
			err := s.hub.Clusters.Delete(ctx, cluster.Name(), metav1.DeleteOptions{})
			return ignore(err, apierrors.IsNotFound)
		},
	})
	if s.random.IntN(2) == 0 {
		s.fleet.Remove(cluster)
	} else {
		s.parked = append(s.parked, cluster)
	}
	return err
}

func (s *soak) inAnyOrder(ctx context.Context, steps []func(context.Context) error) error {
	s.random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		if err := persist(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// askAgain asks for one more import of a cluster that is complete.
func (s *soak) askAgain(ctx context.Context) error {
	cluster := pick(s.random, s.ledger.present())
	if !s.ledger.ask(cluster.Name()) {
		return nil
	}
	s.count(request)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:""}}}`, kubeconfig.AnnotationImmediateImport)
	return persist(ctx, func(ctx context.Context) error {
		_, err := s.hub.Clusters.Patch(ctx, cluster.Name(), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// die makes a cluster dead for some time.
func (s *soak) die(ctx context.Context, cluster *fleet.Cluster, behaviour fleet.Behaviour, lasting time.Duration) error {
	s.ledger.disturb(death, cluster.Name())
	s.count(death)
	cluster.SetBehaviour(behaviour)
	err := sleep(ctx, lasting)
	cluster.SetBehaviour(fleet.Healthy)
	s.ledger.disturb(death, cluster.Name())
	return err
}

// join says of a cluster what a klusterlet that has joined says.
func (s *soak) join(ctx context.Context, cluster *clusterv1.ManagedCluster) {
	if sleep(ctx, joinAfter) != nil {
		return
	}
	// An error is the end of the soak: a cluster that never joins is lost.
	_ = persist(ctx, func(ctx context.Context) error {
		current, err := s.hub.Clusters.Get(ctx, cluster.Name, metav1.GetOptions{})
		if err != nil {
			return ignore(err, apierrors.IsNotFound)
		}
		if current.UID != cluster.UID {
			return nil
		}
		for _, conditionType := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
			meta.SetStatusCondition(&current.Status.Conditions,
				metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: "Soak"})
		}
		_, err = s.hub.Clusters.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// fault restarts the API server and ends leaders, in turns; each at least once, and replicas not in the last part of the time.
func (s *soak) fault(ctx context.Context, until time.Time) error {
	faults := []func(context.Context) error{
		func(ctx context.Context) error { return s.replaceLeader(ctx, true) },
		func(ctx context.Context) error { return s.replaceLeader(ctx, false) },
		s.restartAPIServer,
	}
	calm := until.Add(-time.Duration(float64(s.options.Duration) * (1 - faultsPart)))
	for n := 0; n < len(faults) || time.Now().Before(until); n++ {
		if err := sleep(ctx, s.options.FaultEvery); err != nil {
			return err
		}
		do := faults[n%len(faults)]
		if n >= len(faults) && time.Now().After(calm) {
			do = s.restartAPIServer
		}
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// replaceLeader kills the leader, or asks it to end, and waits for the next.
func (s *soak) replaceLeader(ctx context.Context, kill bool) error {
	r, p, err := s.leader(ctx)
	if err != nil {
		return err
	}
	what := handover
	if kill {
		what = killing
	}
	s.ledger.disturb(what, "")
	started := time.Now()
	r.end(p, kill)
	if _, _, err = s.leader(ctx); err != nil {
		return err
	}
	gap := time.Since(started)
	s.ledger.disturb(what, "")
	s.count(what)
	s.progress("%s: a leader after %s", what, gap.Round(time.Millisecond))
	s.lock.Lock()
	defer s.lock.Unlock()
	s.gaps[what] = max(s.gaps[what], gap)
	return nil
}

// restartAPIServer kills the API server of the hub and starts it again.
func (s *soak) restartAPIServer(ctx context.Context) error {
	s.ledger.disturb(apiRestart, "")
	started := time.Now()
	if err := s.hub.KillAPIServer(); err != nil {
		return err
	}
	if err := s.hub.StartAPIServer(ctx); err != nil {
		return err
	}
	s.count(apiRestart)
	s.progress("%s: back after %s", apiRestart, time.Since(started).Round(time.Millisecond))
	_, _, err := s.leader(ctx)
	s.ledger.disturb(apiRestart, "")
	return err
}
