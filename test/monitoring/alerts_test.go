// Copyright Contributors to the Open Cluster Management project

package main

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/annotations"
)

// now is when alerts are evaluated.
var now = time.Unix(1_000_000, 0)

// TestAlerts evaluates the expressions of the alerts with Prometheus' engine, without their time in "for".
func TestAlerts(t *testing.T) {
	const (
		pending = "import_provider_oldest_pending_timestamp_seconds"
		expiry  = "import_provider_credential_expiry_timestamp_seconds"
		depth   = `workqueue_depth{name="managed-cluster-importer",pod="a"}`
		worked  = `workqueue_work_duration_seconds_count{name="managed-cluster-importer",pod="a"}`
		// up is served by the replica that imports; without it ImportControllerDown fires.
		up = "import_provider_completed_clusters 0"
	)
	rules, err := readRules(manifests + "prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		// series have one sample a minute, the last of them now.
		series []string
		// want are alerts with their severity and what is not constant of their labels.
		want []string
	}{
		{name: "nothing to do", series: []string{up}},
		{name: "no replica imports", want: []string{"ImportControllerDown critical"}},
		{name: "pending for 29 minutes", series: []string{up, pending + " 998260"}},
		{name: "pending for 31 minutes", series: []string{up, pending + " 998140"}, want: []string{"ImportPendingTooLong warning"}},
		{
			name:   "pending for 31 minutes at one of two replicas",
			series: []string{up, pending + `{pod="a"} 998140`, pending + `{pod="b"} 999999`},
			want:   []string{"ImportPendingTooLong warning"},
		},
		{name: "policy in force", series: []string{up, `import_provider_policy_up_to_date{pod="a"} 1`}},
		{
			name:   "policy not in force at one of two replicas",
			series: []string{up, `import_provider_policy_up_to_date{pod="a"} 1`, `import_provider_policy_up_to_date{pod="b"} 0`},
			want:   []string{"ImportPolicyNotInForce warning"},
		},
		{
			name: "causes on the hub",
			series: []string{up, `import_provider_pending_clusters{reason="Unreachable"} 5`,
				`import_provider_pending_clusters{reason="HubReadFailed",pod="a"} 1`, `import_provider_pending_clusters{reason="HubReadFailed",pod="b"} 1`,
				`import_provider_pending_clusters{reason="TokenMintFailed"} 1`},
			want: []string{"ImportFailsOnHub warning HubReadFailed", "ImportFailsOnHub warning TokenMintFailed"},
		},
		{
			name: "credentials that expire",
			series: []string{up, expiry + `{managed_cluster="in-8-days"} 1691200`, expiry + `{managed_cluster="in-6-days"} 1518400`,
				expiry + `{managed_cluster="in-1-day"} 1086400`, expiry + `{managed_cluster="in-1-hour",pod="a"} 1003600`,
				expiry + `{managed_cluster="in-1-hour",pod="b"} 1003600`, expiry + `{managed_cluster="now"} 1000000`,
				expiry + `{managed_cluster="an-hour-ago"} 996400`},
			want: []string{"ImportCredentialExpired critical an-hour-ago", "ImportCredentialExpired critical now",
				"ImportCredentialExpiring critical in-1-hour",
				"ImportCredentialExpiring warning in-1-day", "ImportCredentialExpiring warning in-6-days"},
		},
		{
			name:   "the queue is worked on",
			series: []string{up, depth + " 3x30", worked + " 0+1x30"},
		},
		{
			name:   "the queue was empty",
			series: []string{up, depth + " 0 3x20 0 3x5", worked + " 7x30"},
		},
		{
			name:   "the queue is stuck",
			series: []string{up, depth + " 3x30", worked + " 7x30", `workqueue_depth{name="other",pod="a"} 3x30`, `workqueue_work_duration_seconds_count{name="other",pod="a"} 7x30`},
			want:   []string{"ImportQueueStuck critical"},
		},
	}
	fired := map[string]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			stored := store(t, c.series)
			var got []string
			for _, rule := range rules {
				for _, alert := range evaluate(t, stored, rule.Expr) {
					words := []string{rule.Alert, rule.Labels["severity"]}
					for _, label := range []string{"managed_cluster", "reason"} {
						if value := alert.Metric.Get(label); value != "" {
							words = append(words, value)
						}
					}
					got = append(got, strings.Join(words, " "))
					fired[rule.Alert+rule.Labels["severity"]] = true
					checkAnnotations(t, rule, alert)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	for _, rule := range rules {
		if !fired[rule.Alert+rule.Labels["severity"]] {
			t.Errorf("%s fires in no case", rule.Alert)
		}
	}
}

// checkAnnotations renders summary and description of an alert as Prometheus does.
func checkAnnotations(t *testing.T, rule rule, alert promql.Sample) {
	t.Helper()
	for _, name := range []string{"summary", "description"} {
		text := "{{$labels := .Labels}}{{$value := .Value}}" + rule.Annotations[name]
		data := template.AlertTemplateData(alert.Metric.Map(), nil, "", alert)
		rendered, err := template.NewTemplateExpander(t.Context(), text, rule.Alert, data, model.TimeFromUnix(now.Unix()), nil, &url.URL{},
			[]string{"missingkey=error"}).Expand()
		switch {
		case err != nil:
			t.Errorf("%s of %s: %v", name, rule.Alert, err)
		case rendered == "":
			t.Errorf("%s has no %s", rule.Alert, name)
		case name == "description" && !strings.Contains(rendered, "kubectl "):
			t.Errorf("description of %s says no next step: %s", rule.Alert, rendered)
		}
	}
}

func evaluate(t *testing.T, stored storage.Queryable, expr string) promql.Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	query, err := engine.NewInstantQuery(t.Context(), stored, nil, expr, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(query.Close)
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return vector
}

// store returns a database with series in the notation of promtool's tests.
func store(t *testing.T, descriptions []string) storage.Queryable {
	t.Helper()
	var all []promql.Series
	for _, description := range descriptions {
		metric, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(description)
		if err != nil {
			t.Fatalf("%s: %v", description, err)
		}
		series := promql.Series{Metric: metric}
		for i, value := range values {
			at := now.Add(-time.Duration(len(values)-1-i) * time.Minute)
			series.Floats = append(series.Floats, promql.FPoint{T: at.UnixMilli(), F: value.Value})
		}
		all = append(all, series)
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			selected := &seriesSet{}
			for _, series := range all {
				if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Metric.Get(m.Name)) }) {
					selected.rest = append(selected.rest, series)
				}
			}
			return selected
		},
	}}
}

// seriesSet goes over series.
type seriesSet struct {
	current promql.Series
	rest    []promql.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.current, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.current) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
