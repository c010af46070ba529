// Copyright Contributors to the Open Cluster Management project

package soak

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/fleet"
	"open-cluster-management.io/import-provider/test/importhub"
)

const (
	reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	// bootstrapSecrets and bootstrapSecret are what each import writes once: the Secret has a new token each time.
	bootstrapSecrets = "/api/v1/namespaces/" + kubeconfig.KlusterletNamespace + "/secrets"
	bootstrapSecret  = "bootstrap-hub-kubeconfig"

	// lookGrace is for a look at a klusterlet that began before the cluster was known to have joined.
	lookGrace = 10 * time.Second
	// maxViolations is how many texts are kept; the number goes on.
	maxViolations = 50
)

// round is one import that was asked for: by the creation of a ManagedCluster, or by its annotation.
type round struct {
	asked time.Time
	// again says that it was asked for by the annotation.
	again bool
	// writes is how often the cluster got a bootstrap Secret: how often it was imported.
	writes int
	// disturbances are what happened to the hub, to us, to the cluster or to its Secret until the import was reported.
	disturbances []string
	// reported is when the hub was seen to say that the import is done.
	reported time.Time
}

// life is a ManagedCluster from its creation to its deletion.
type life struct {
	cluster *fleet.Cluster
	uid     types.UID
	deleted bool
	rounds  []*round
	// completed is when the ManagedCluster was seen to be complete, with the identity of the cluster.
	completed time.Time
	joining   bool
}

func (l *life) round() *round { return l.rounds[len(l.rounds)-1] }

func (l *life) importing() bool { return l.round().reported.IsZero() }

// ledger has what was asked for, what the hub said and what the clusters saw, and judges it:
//
//   - Every ManagedCluster that exists at the end is imported and complete, and its cluster has the klusterlet.
//   - What was asked for once is imported once. An import that was disturbed before it was reported may be repeated; that is
//     counted.
//   - A cluster that was reported imported is not written to, whatever happens, unless it is asked for.
//   - A cluster that is complete is not asked anything.
type ledger struct {
	lock sync.Mutex // guards what follows, for the time of a look-up or a change
	// lives are the present ones, by name.
	lives map[string]*life
	// past are the imports of lives that have ended.
	past       []*round
	violations []string
	violated   int
}

func newLedger() *ledger { return &ledger{lives: map[string]*life{}} }

func (g *ledger) violate(format string, args ...any) {
	g.violated++
	if len(g.violations) < maxViolations {
		g.violations = append(g.violations, fmt.Sprintf(format, args...))
	}
}

// begin notes a ManagedCluster that is about to be created.
func (g *ledger) begin(cluster *fleet.Cluster) {
	g.lock.Lock()
	defer g.lock.Unlock()
	first := &round{asked: time.Now()}
	if before := g.lives[cluster.Name()]; before != nil && before.importing() {
		first.disturbances = append(first.disturbances, "an import of the time before may end")
	}
	g.lives[cluster.Name()] = &life{cluster: cluster, rounds: []*round{first}}
}

// end notes a ManagedCluster that is about to be deleted.
func (g *ledger) end(name string) {
	g.lock.Lock()
	defer g.lock.Unlock()
	l := g.lives[name]
	l.deleted = true
	g.past = append(g.past, l.rounds...)
}

// ask notes that one more import is about to be asked for, and says whether it may be: not before the last one was reported.
func (g *ledger) ask(name string) bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	l := g.lives[name]
	if l == nil || l.deleted || l.importing() || l.completed.IsZero() {
		return false
	}
	l.rounds = append(l.rounds, &round{asked: time.Now(), again: true})
	return true
}

// disturb notes what may make an import of a cluster start anew. Without a name it is of all clusters.
func (g *ledger) disturb(what, name string) {
	g.lock.Lock()
	defer g.lock.Unlock()
	for of, l := range g.lives {
		if (name == "" || name == of) && !l.deleted && l.importing() {
			l.round().disturbances = append(l.round().disturbances, what)
		}
	}
}

// request notes what a cluster was asked. It is called after the answer.
func (g *ledger) request(r fleet.Request) {
	g.lock.Lock()
	defer g.lock.Unlock()
	l := g.lives[r.Cluster]
	if l == nil || l.deleted || r.At.Before(l.rounds[0].asked) {
		return
	}
	what := fmt.Sprintf("%s %s", r.Method, r.Path)
	if !l.completed.IsZero() && !l.importing() && r.At.After(l.completed.Add(lookGrace)) && r.At.After(l.round().reported.Add(lookGrace)) {
		g.violate("%s is complete since %s and was asked %s at %s", r.Cluster, stamp(l.completed), what, stamp(r.At))
	}
	if r.Method == http.MethodGet || r.Path == reviewPath {
		return
	}
	if !l.importing() && r.At.After(l.round().reported) {
		g.violate("%s was reported imported at %s and was written to at %s: %s", r.Cluster, stamp(l.round().reported), stamp(r.At), what)
	}
	if isBootstrap(r) {
		l.round().writes++
	}
}

func isBootstrap(r fleet.Request) bool {
	return r.Code >= 200 && r.Code < 300 &&
		(r.Method == http.MethodPost && r.Path == bootstrapSecrets || strings.TrimPrefix(r.Path, bootstrapSecrets+"/") == bootstrapSecret)
}

// see notes what the hub says of a ManagedCluster, and says whether its agents have to join now.
func (g *ledger) see(cluster *clusterv1.ManagedCluster) (join bool) {
	now := time.Now()
	g.lock.Lock()
	defer g.lock.Unlock()
	l := g.lives[cluster.Name]
	if l == nil || l.deleted || l.uid != "" && l.uid != cluster.UID || cluster.CreationTimestamp.Add(time.Second).Before(l.rounds[0].asked) {
		return false
	}
	l.uid = cluster.UID
	imported := meta.IsStatusConditionTrue(cluster.Status.Conditions, importhub.ConditionImported)
	asked, annotated := cluster.Annotations[kubeconfig.AnnotationImmediateImport]
	latest := l.round()
	// The annotation of the last but one import says that it is done until the new one is asked for.
	done := !latest.again && !annotated || latest.again && annotated && asked == kubeconfig.ImmediateImportCompleted && latest.writes > 0
	switch {
	case imported && done && l.importing():
		latest.reported = now
	case !imported && !l.importing():
		g.violate("%s was reported imported at %s and is not any more at %s", cluster.Name, stamp(latest.reported), stamp(now))
	}
	if meta.IsStatusConditionTrue(cluster.Status.Conditions, kubeconfig.ConditionCompleted) {
		if cluster.Annotations[kubeconfig.AnnotationClusterUID] == string(l.cluster.UID()) && l.completed.IsZero() {
			l.completed = now
		}
		return false
	}
	join = imported && !l.joining
	l.joining = l.joining || imported
	return join
}

// waiting are the names of the ManagedClusters that are not imported and complete yet.
func (g *ledger) waiting() []string {
	g.lock.Lock()
	defer g.lock.Unlock()
	var names []string
	for name, l := range g.lives {
		if !l.deleted && (l.importing() || l.completed.IsZero()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// present are the clusters whose ManagedCluster exists, sorted.
func (g *ledger) present() []*fleet.Cluster {
	g.lock.Lock()
	defer g.lock.Unlock()
	var clusters []*fleet.Cluster
	for _, l := range g.lives {
		if !l.deleted {
			clusters = append(clusters, l.cluster)
		}
	}
	slices.SortFunc(clusters, func(a, b *fleet.Cluster) int { return strings.Compare(a.Name(), b.Name()) })
	return clusters
}

// verdict is what the ledger says at the end.
type verdict struct {
	// asked are imports that were asked for and not cut off by a deletion; imports those that clusters saw; repeated those
	// that clusters saw more than once, because they were disturbed.
	asked, imports, repeated, lost int
	// durations are in seconds, sorted, from the creation of the ManagedCluster until the hub was seen to say that it is imported.
	durations  []float64
	violations []string
	violated   int
}

// judge looks at all imports.
func (g *ledger) judge() verdict {
	g.lock.Lock()
	defer g.lock.Unlock()
	var v verdict
	one := func(name string, r *round, mayBeOpen bool) {
		v.imports += r.writes
		if r.reported.IsZero() {
			if !mayBeOpen {
				v.lost++
				g.violate("%s is lost: asked for at %s, imported %d times and never reported (%v)", name, stamp(r.asked), r.writes, r.disturbances)
			}
			return
		}
		v.asked++
		if !r.again {
			v.durations = append(v.durations, r.reported.Sub(r.asked).Seconds())
		}
		switch {
		case r.writes == 0:
			g.violate("%s was reported imported at %s, and nothing was written to it", name, stamp(r.reported))
		case r.writes > 1 && len(r.disturbances) == 0:
			g.violate("%s was imported %d times from %s to %s, and nothing disturbed it", name, r.writes, stamp(r.asked), stamp(r.reported))
		case r.writes > 1:
			v.repeated += r.writes - 1
		}
	}
	for name, l := range g.lives {
		if l.deleted {
			continue
		}
		for _, r := range l.rounds {
			one(name, r, false)
		}
		if !l.importing() && l.completed.IsZero() {
			v.lost++
			g.violate("%s is lost: it is imported since %s and never became complete", name, stamp(l.round().reported))
		}
	}
	for _, r := range g.past {
		one("a ManagedCluster that was deleted", r, true)
	}
	slices.Sort(v.durations)
	v.violations, v.violated = g.violations, g.violated
	return v
}

func stamp(t time.Time) string { return t.Format("15:04:05.000") }
