// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/policy"
)

type fakeMetricsSource struct {
	clusters []*clusterv1.ManagedCluster
	expiry   map[string]time.Time
}

func (s *fakeMetricsSource) managedClusters() []*clusterv1.ManagedCluster { return s.clusters }
func (s *fakeMetricsSource) expiryTimes() map[string]time.Time            { return s.expiry }

// measuredCluster returns a cluster that was created at second 100.
func measuredCluster(name string, conditions ...metav1.Condition) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(100, 0)},
		Status:     clusterv1.ManagedClusterStatus{Conditions: conditions},
	}
}

// conditionSince returns a condition that has its status since a time in seconds.
func conditionSince(seconds int64, conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, LastTransitionTime: metav1.Unix(seconds, 0)}
}

func TestStateMetrics(t *testing.T) {
	const (
		pendingText = `# HELP import_provider_pending_clusters [ALPHA] ManagedClusters whose import is not complete, by the reason of the condition that says so.
# TYPE import_provider_pending_clusters gauge
`
		completedText = `# HELP import_provider_completed_clusters [ALPHA] ManagedClusters whose klusterlet has joined and become available.
# TYPE import_provider_completed_clusters gauge
`
		oldestText = `# HELP import_provider_oldest_pending_timestamp_seconds [ALPHA] Unix time since when the import that is pending longest is pending. Absent when none is.
# TYPE import_provider_oldest_pending_timestamp_seconds gauge
`
		expiryText = `# HELP import_provider_credential_expiry_timestamp_seconds [ALPHA] Unix time at which the credential in the import Secret of a ManagedCluster expires.
# TYPE import_provider_credential_expiry_timestamp_seconds gauge
`
	)
	failed := func(seconds int64, reason Reason) metav1.Condition {
		return conditionSince(seconds, ConditionPreflightPassed, metav1.ConditionFalse, string(reason))
	}
	passed := conditionSince(200, ConditionPreflightPassed, metav1.ConditionTrue, string(ReasonPreflightPassed))
	completed := conditionSince(300, ConditionCompleted, metav1.ConditionTrue, string(ReasonCompleted))
	deleted := measuredCluster("a", failed(200, ReasonUnreachable))
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(300, 0)}

	cases := []struct {
		name   string
		source *fakeMetricsSource
		want   string
	}{
		{name: "no source"},
		{
			name:   "no cluster",
			source: &fakeMetricsSource{},
			want:   completedText + "import_provider_completed_clusters 0\n",
		},
		{
			name: "by reason of the condition that makes it pending",
			source: &fakeMetricsSource{clusters: []*clusterv1.ManagedCluster{
				measuredCluster("a", failed(500, ReasonUnreachable)),
				measuredCluster("b", failed(400, ReasonUnreachable),
					conditionSince(150, ConditionCompleted, metav1.ConditionFalse, string(ReasonNotJoined))),
				measuredCluster("c", passed, conditionSince(300, ConditionCompleted, metav1.ConditionFalse, string(ReasonCSRNotApproved))),
				measuredCluster("d", conditionSince(450, ConditionPreflightPassed, metav1.ConditionUnknown, string(ReasonCredentialChanged))),
				measuredCluster("e", passed, completed),
				measuredCluster("f", completed, passed),
			}},
			want: pendingText + `import_provider_pending_clusters{reason="CSRNotApproved"} 1
import_provider_pending_clusters{reason="CredentialChanged"} 1
import_provider_pending_clusters{reason="Unreachable"} 2
` + completedText + "import_provider_completed_clusters 2\n" +
				oldestText + "import_provider_oldest_pending_timestamp_seconds 300\n",
		},
		{
			name: "reasons of others are one",
			source: &fakeMetricsSource{clusters: []*clusterv1.ManagedCluster{
				measuredCluster("a", failed(500, "s3nt1nel")),
				measuredCluster("b", failed(500, "")),
				measuredCluster("c", passed, conditionSince(500, ConditionCompleted, metav1.ConditionFalse, "s3nt1nel-2")),
				measuredCluster("d", failed(500, ReasonLeftovers)),
			}},
			want: pendingText + `import_provider_pending_clusters{reason="Leftovers"} 1
import_provider_pending_clusters{reason="Unknown"} 3
` + completedText + "import_provider_completed_clusters 0\n" +
				oldestText + "import_provider_oldest_pending_timestamp_seconds 500\n",
		},
		{
			name: "conditions of others alone are no import",
			source: &fakeMetricsSource{clusters: []*clusterv1.ManagedCluster{
				measuredCluster("a"),
				measuredCluster("b", conditionSince(200, conditionImported, metav1.ConditionFalse, "s3nt1nel")),
				measuredCluster("c", completed),
			}},
			want: completedText + "import_provider_completed_clusters 0\n",
		},
		{
			name: "one condition is lost",
			source: &fakeMetricsSource{clusters: []*clusterv1.ManagedCluster{
				measuredCluster("a", passed),
			}},
			want: pendingText + "import_provider_pending_clusters{reason=\"Unknown\"} 1\n" +
				completedText + "import_provider_completed_clusters 0\n" +
				oldestText + "import_provider_oldest_pending_timestamp_seconds 200\n",
		},
		{
			name: "no import is older than its cluster",
			source: &fakeMetricsSource{clusters: []*clusterv1.ManagedCluster{
				measuredCluster("a", failed(0, ReasonUnreachable)),
			}},
			want: pendingText + "import_provider_pending_clusters{reason=\"Unreachable\"} 1\n" +
				completedText + "import_provider_completed_clusters 0\n" +
				oldestText + "import_provider_oldest_pending_timestamp_seconds 100\n",
		},
		{
			name: "expiries of clusters that exist, where known",
			source: &fakeMetricsSource{
				clusters: []*clusterv1.ManagedCluster{measuredCluster("a", passed, completed), measuredCluster("b"), measuredCluster("c"), measuredCluster("d")},
				expiry:   map[string]time.Time{"a": time.Unix(7000, 0), "b": time.Unix(5000, 0), "c": {}, "gone": time.Unix(6000, 0)},
			},
			want: completedText + "import_provider_completed_clusters 1\n" +
				expiryText + `import_provider_credential_expiry_timestamp_seconds{managed_cluster="a"} 7000
import_provider_credential_expiry_timestamp_seconds{managed_cluster="b"} 5000
`,
		},
		{
			name: "a cluster that is being deleted is not imported",
			source: &fakeMetricsSource{
				clusters: []*clusterv1.ManagedCluster{deleted},
				expiry:   map[string]time.Time{"a": time.Unix(7000, 0)},
			},
			want: completedText + "import_provider_completed_clusters 0\n",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var current atomic.Pointer[metricsSource]
			if c.source != nil {
				source := metricsSource(c.source)
				current.Store(&source)
			}
			if err := testutil.CustomCollectAndCompare(&stateCollector{source: &current}, strings.NewReader(c.want)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStateMetricsFollow checks that series go away with what they are of, and come back with a new source.
func TestStateMetricsFollow(t *testing.T) {
	t.Cleanup(func() { setMetricsSource(nil) })
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(&stateCollector{source: &currentSource})
	expect := func(want ...string) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(gatheredValues(t, registry))); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}

	source := &fakeMetricsSource{
		clusters: []*clusterv1.ManagedCluster{
			measuredCluster("a", conditionSince(200, ConditionPreflightPassed, metav1.ConditionFalse, string(ReasonUnreachable))),
		},
		expiry: map[string]time.Time{"a": time.Unix(7000, 0)},
	}
	setMetricsSource(source)
	all := []string{"completed_clusters", "credential_expiry_timestamp_seconds managed_cluster=a",
		"oldest_pending_timestamp_seconds", "pending_clusters reason=Unreachable"}
	expect(all...)
	setMetricsSource(&fakeMetricsSource{expiry: source.expiry})
	expect("completed_clusters")
	setMetricsSource(nil)
	expect()
	setMetricsSource(source)
	expect(all...)
}

// TestReasonLabels checks that a reason which is added is not counted as Unknown.
func TestReasonLabels(t *testing.T) {
	declared, _ := declaredReasons(t)
	for name, reason := range declared {
		if got := reasonLabel(reason); got != string(reason) {
			t.Errorf("%s is counted as %s", name, got)
		}
	}
}

func TestCounts(t *testing.T) {
	registerMetrics()
	cases := []struct {
		name  string
		count func()
		// want are the series that change, with the difference.
		want map[string]float64
	}{
		{
			name:  "attempt that passes",
			count: func() { countAttempt(ReasonPreflightPassed) },
			want:  map[string]float64{"attempts_total result=passed": 1},
		},
		{
			name:  "attempt that fails",
			count: func() { countAttempt(ReasonUnreachable) },
			want:  map[string]float64{"attempts_total result=failed": 1, "failures_total reason=Unreachable": 1},
		},
		{
			name:  "stage",
			count: func() { observeDuration(stageApply, 90*time.Second) },
			want: map[string]float64{"stage_duration_seconds stage=apply": 1, "stage_duration_seconds sum stage=apply": 90,
				"stage_duration_seconds le=120 stage=apply": 1, "stage_duration_seconds le=300 stage=apply": 1},
		},
		{
			name:  "import that runs",
			count: importsInFlight.Inc,
			want:  map[string]float64{"in_flight": 1},
		},
		{
			name:  "import that ends",
			count: importsInFlight.Dec,
			want:  map[string]float64{"in_flight": -1},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := gatheredValues(t, legacyregistry.DefaultGatherer)
			c.count()
			got := map[string]float64{}
			for series, value := range gatheredValues(t, legacyregistry.DefaultGatherer) {
				if difference := value - before[series]; difference != 0 {
					got[series] = difference
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObserveStage(t *testing.T) {
	registerMetrics()
	const count, sum = "stage_duration_seconds stage=plan", "stage_duration_seconds sum stage=plan"
	before := gatheredValues(t, legacyregistry.DefaultGatherer)
	done := observeStage(stagePlan)
	if got := gatheredValues(t, legacyregistry.DefaultGatherer)[count] - before[count]; got != 0 {
		t.Errorf("observed %v before it was done", got)
	}
	done()
	after := gatheredValues(t, legacyregistry.DefaultGatherer)
	if got := after[count] - before[count]; got != 1 {
		t.Errorf("observed %v stages, want 1", got)
	}
	if got := after[sum] - before[sum]; got <= 0 {
		t.Errorf("observed %v seconds", got)
	}
}

// gatheredFamilies returns the metrics of this package.
func gatheredFamilies(t *testing.T, gatherer metrics.Gatherer) []*dto.MetricFamily {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(families, func(family *dto.MetricFamily) bool {
		return !strings.HasPrefix(family.GetName(), metricsNamespace+"_")
	})
}

// gatheredValues returns the values of all series by their name without the namespace and their labels; of a histogram
// its count, its sum, and its buckets.
func gatheredValues(t *testing.T, gatherer metrics.Gatherer) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, family := range gatheredFamilies(t, gatherer) {
		name := strings.TrimPrefix(family.GetName(), metricsNamespace+"_")
		for _, metric := range family.GetMetric() {
			var labels string
			for _, label := range metric.GetLabel() {
				labels += " " + label.GetName() + "=" + label.GetValue()
			}
			switch {
			case metric.GetHistogram() != nil:
				values[name+labels] = float64(metric.GetHistogram().GetSampleCount())
				values[name+" sum"+labels] = metric.GetHistogram().GetSampleSum()
				for _, bucket := range metric.GetHistogram().GetBucket() {
					le := " le=" + strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64)
					values[name+le+labels] = float64(bucket.GetCumulativeCount())
				}
			case metric.GetCounter() != nil:
				values[name+labels] = metric.GetCounter().GetValue()
			default:
				values[name+labels] = metric.GetGauge().GetValue()
			}
		}
	}
	return values
}

// TestMetricsDocumented compares what is registered with the table in the documentation.
func TestMetricsDocumented(t *testing.T) {
	registerMetrics()
	t.Cleanup(func() { setMetricsSource(nil) })
	setMetricsSource(&fakeMetricsSource{
		clusters: []*clusterv1.ManagedCluster{
			measuredCluster("a", conditionSince(200, ConditionPreflightPassed, metav1.ConditionFalse, string(ReasonUnreachable))),
		},
		expiry: map[string]time.Time{"a": time.Unix(7000, 0)},
	})
	countAttempt(ReasonUnreachable)
	resolvers, err := credential.NewSet(map[string]credential.Resolver{"kubeconfig": &credentialtest.Fake{}}, credential.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// What it answers does not matter: it is counted.
	_, _ = resolvers.Resolve(t.Context(), credential.Request{Secret: &corev1.Secret{}})
	observeDuration(stageApply, time.Second)
	if _, err := policy.NewSource("../../manifests/samples/import-policy.yaml"); err != nil {
		t.Fatal(err)
	}
	registered := map[string]string{}
	for _, family := range gatheredFamilies(t, legacyregistry.DefaultGatherer) {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+label.GetName()+"`")
		}
		registered["`"+family.GetName()+"`"] = strings.ToLower(family.GetType().String()) + " | " + strings.Join(labels, ", ")
	}

	const file, header = "../../docs/troubleshooting.md", "| metric | type | labels | meaning |\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), header)
	if !found {
		t.Fatalf("%s has no table with the header %q", file, header)
	}
	documented := map[string]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		if !strings.HasPrefix(line, "|") {
			break
		}
		if strings.HasPrefix(line, "|--") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 4 || cells[3] == "" {
			t.Errorf("%s: a row needs four cells and a meaning: %s", file, line)
			continue
		}
		documented[cells[0]] = cells[1] + " | " + cells[2]
	}
	if diff := cmp.Diff(registered, documented); diff != "" {
		t.Errorf("%s has another table than what is registered (-registered +documented):\n%s", file, diff)
	}
}

// TestAlertReasons checks that alerts about single reasons name ones that exist.
func TestAlertReasons(t *testing.T) {
	text, err := os.ReadFile("../../manifests/monitoring/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	matchers := regexp.MustCompile(`reason=~?"([^"]*)"`).FindAllStringSubmatch(string(text), -1)
	if len(matchers) == 0 {
		t.Fatal("no alert is about single reasons any more: delete this test")
	}
	declared, _ := declaredReasons(t)
	reasons := slices.Collect(maps.Values(declared))
	for _, matcher := range matchers {
		for name := range strings.SplitSeq(matcher[1], "|") {
			if !slices.Contains(reasons, Reason(name)) {
				t.Errorf("there is no reason %q", name)
			}
		}
	}
}
