// Copyright Contributors to the Open Cluster Management project

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestManifests(t *testing.T) {
	names, err := usedMetrics(manifests+"prometheusrule.yaml", manifests+"dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"import_provider_pending_clusters", "import_provider_stage_duration_seconds_bucket", "workqueue_depth",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not found in %q", want, names)
		}
	}
}

func TestMetricsIn(t *testing.T) {
	cases := []struct {
		name, expr string
		want       []string
		wantErr    string
	}{
		{name: "one", expr: `a_total`, want: []string{"a_total"}},
		{name: "in functions", expr: `sum by (x) (rate(a_total{y="$z"}[5m])) / on (x) max(b)`, want: []string{"a_total", "b"}},
		{name: "in a subquery", expr: `max_over_time(a[1h:5m] offset 1d)`, want: []string{"a"}},
		{name: "a parenthesis is missing", expr: `sum(rate(a_total[5m])`, wantErr: "unclosed left parenthesis"},
		{name: "a range is missing", expr: `rate(a_total)`, wantErr: "expected type range vector"},
		{name: "no such function", expr: `rates(a_total[5m])`, wantErr: "unknown function"},
		{name: "unknown variable", expr: `rate(a_total[$interval])`, wantErr: "parse error"},
		{name: "empty", expr: ``, wantErr: "no expression found"},
		{name: "a constant", expr: `vector(5) > 4`, wantErr: "no metric"},
		{name: "names by a pattern", expr: `{__name__=~"a.*"}`, wantErr: "without their name"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := metricsIn(c.expr)
			switch {
			case c.wantErr == "" && err != nil:
				t.Fatal(err)
			case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
				t.Fatalf("got error %v, want %q", err, c.wantErr)
			case c.wantErr == "" && !slices.Equal(got, c.want):
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRun(t *testing.T) {
	const (
		rules     = "spec: {groups: [{rules: [{alert: A, expr: 'a > 0'}, {alert: B, expr: 'rate(b_total[5m]) > 0'}]}]}"
		dashboard = `{"panels": [{"title": "row", "panels": [{"title": "C",
			"targets": [{"expr": "histogram_quantile(0.9, rate(c_seconds_bucket[$__rate_interval]))"}]}]}]}`
		metrics = "# HELP a help\n# TYPE a gauge\na 1\n# TYPE b_total counter\nb_total 1\n# TYPE c_seconds histogram\n"
	)
	cases := []struct {
		name                      string
		rules, dashboard, metrics string
		wantErr                   string
	}{
		{name: "good", rules: rules, dashboard: dashboard, metrics: metrics},
		{name: "broken rule", rules: strings.Replace(rules, "a >", "a >>", 1), dashboard: dashboard, wantErr: "rules: A: "},
		{name: "broken panel", rules: rules, dashboard: strings.Replace(dashboard, "rate(", "rate((", 1), wantErr: "dashboard: C: "},
		{name: "no rules", rules: "spec: {}", dashboard: dashboard, wantErr: "no rules"},
		{name: "no panels", rules: rules, dashboard: "{}", wantErr: "no expressions"},
		{name: "not served", rules: rules, dashboard: dashboard, metrics: strings.ReplaceAll(metrics, "b_total", "d"), wantErr: "not served: b_total"},
		{name: "nothing served", rules: rules, dashboard: dashboard, metrics: "404 page not found", wantErr: "no metric is served"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) string {
				if text == "" {
					return ""
				}
				file := filepath.Join(dir, name)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return file
			}
			got, err := run(write("rules", c.rules), write("dashboard", c.dashboard), write("metrics", c.metrics))
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("got error %v, want %q", err, c.wantErr)
				}
				return
			}
			if want := []string{"a", "b_total", "c_seconds_bucket"}; err != nil || !slices.Equal(got, want) {
				t.Errorf("got %q and error %v, want %q", got, err, want)
			}
		})
	}
}

func TestUnknownMetrics(t *testing.T) {
	const served = "# TYPE g gauge\n# TYPE c_total counter\n# TYPE h_seconds histogram\n# TYPE s summary\n# HELP x TYPE y gauge\n"
	for name, known := range map[string]bool{
		"g": true, "c_total": true, "h_seconds_bucket": true, "h_seconds_sum": true, "h_seconds_count": true,
		"s": true, "s_sum": true, "s_count": true,
		"h_seconds": false, "g_count": false, "c": false, "c_total_sum": false, "s_bucket": false, "x": false, "TYPE": false,
	} {
		unknown, err := unknownMetrics([]string{name}, served)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(unknown) == 0; got != known {
			t.Errorf("%s: known is %v, want %v", name, got, known)
		}
	}
}
