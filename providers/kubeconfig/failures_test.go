// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestOutcomeBackOff(t *testing.T) {
	pending := &problem{reason: ReasonUnreachable}
	cases := []struct {
		name     string
		problem  *problem
		failures int
		want     time.Duration
	}{
		{"first", pending, 1, 5 * time.Second},
		{"second", pending, 2, 10 * time.Second},
		{"third", pending, 3, 20 * time.Second},
		{"sixth", pending, 6, 160 * time.Second},
		{"seventh", pending, 7, 5 * time.Minute},
		{"many", pending, 1000, 5 * time.Minute},
		{"very many", pending, 1 << 40, 5 * time.Minute},
		{"invalid", &problem{invalid: true}, 1, 15 * time.Minute},
		{"invalid does not grow", &problem{invalid: true}, 9, 15 * time.Minute},
		{"invalid wins over a time", &problem{invalid: true, after: time.Second}, 1, 15 * time.Minute},
		{"a time", &problem{after: time.Minute}, 9, time.Minute},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			spread := map[time.Duration]bool{}
			for range 20 {
				retry, err := outcome("text", c.problem, c.failures)
				got, ok := requeue(err)
				if !ok || got != retry || err.Error() != "text" {
					t.Fatalf("got %v with %s (%t), retry %s", err, got, ok, retry)
				}
				if got < c.want || got > c.want+c.want/5 {
					t.Errorf("got %s, want %s and at most a fifth more", got, c.want)
				}
				spread[got] = true
			}
			if len(spread) < 2 {
				t.Error("clusters that fail together are tried together again")
			}
		})
	}
	t.Run("unexpected", func(t *testing.T) {
		retry, err := outcome("text", &problem{unexpected: true}, 3)
		if _, ok := requeue(err); ok || retry != 0 || err.Error() != "text" {
			t.Errorf("got %#v, %s", err, retry)
		}
	})
}

func TestHostErrorTextHasNoTime(t *testing.T) {
	_, err := outcome("import Secret a/b: Unreachable", &problem{}, 1)
	if regexp.MustCompile(`\d+(s|ms|m)\b`).MatchString(err.Error()) {
		t.Errorf("a duration changes with each attempt: %s", err)
	}
	if _, ok := errors.AsType[*problem](err); ok {
		t.Error("it is taken for another kind of error")
	}
	requeue, _ := requeue(err)
	if requeue == 0 {
		t.Error("no time")
	}
}

func TestProblemText(t *testing.T) {
	cause := errors.New(sentinel)
	p := &problem{reason: ReasonUnauthorized, detail: "detail", cause: cause}
	if got, want := p.Error(), "Unauthorized: detail; "+nextSteps[ReasonUnauthorized]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(p, cause) {
		t.Error("the cause is lost")
	}
	p = &problem{reason: ReasonCredentialInvalid, detail: "detail"}
	if got := p.Error(); got != "CredentialInvalid: detail" || strings.HasSuffix(got, "; ") {
		t.Errorf("got %q", got)
	}
}

func TestFailures(t *testing.T) {
	f := newFailures()
	one := attempt{clusterName: testCluster, input: "1"}
	p := &problem{reason: ReasonUnreachable}
	if err := f.pending(one); err != nil {
		t.Errorf("pending before a failure: %v", err)
	}
	for i, c := range []struct {
		attempt attempt
		text    string
		isNew   bool
		retry   time.Duration
	}{
		{one, "a", true, firstRetry},
		{one, "a", false, 2 * firstRetry},
		{one, "b", true, 4 * firstRetry},
		{attempt{clusterName: testCluster, input: "2"}, "b", true, firstRetry},
		{attempt{clusterName: testCluster, input: "2"}, "b", false, 2 * firstRetry},
		{attempt{clusterName: "cluster2", input: "2"}, "b", true, firstRetry},
	} {
		isNew, err := f.add(c.attempt, c.text, p)
		if isNew != c.isNew {
			t.Errorf("step %d: new is %t", i, isNew)
		}
		expectRetry(t, err, c.retry)
	}
	if err := f.pending(one); err != nil {
		t.Errorf("pending with another input: %v", err)
	}
	two := attempt{clusterName: testCluster, input: "2"}
	err := f.pending(two)
	if err == nil || err.Error() != "b" {
		t.Fatalf("got %v", err)
	}
	// The importer is told the rest of the time, not the whole of it again.
	failure := f.byCluster[testCluster]
	failure.until = time.Now().Add(time.Second)
	f.byCluster[testCluster] = failure
	if rest, ok := requeue(f.pending(two)); !ok || rest > time.Second || rest <= 0 {
		t.Errorf("rest is %s", rest)
	}
	f.forget(testCluster)
	if err := f.pending(two); err != nil {
		t.Errorf("pending after it was forgotten: %v", err)
	}
	if len(f.byCluster) != 1 {
		t.Errorf("%d clusters are remembered", len(f.byCluster))
	}
}
