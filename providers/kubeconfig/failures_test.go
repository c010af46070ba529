// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

func TestOutcomeBackOff(t *testing.T) {
	pending := &problem{reason: ReasonUnreachable}
	invalid := &problem{reason: ReasonCredentialInvalid}
	after := func(reason Reason, after time.Duration) *problem { return &problem{reason: reason, after: after} }
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
		{"on change", invalid, 1, 15 * time.Minute},
		{"on change does not grow", invalid, 9, 15 * time.Minute},
		{"a time", after(ReasonCredentialPending, time.Minute), 9, time.Minute},
		{"a time of the cluster", after(ReasonServerFailed, time.Minute), 1, time.Minute},
		{"a shorter time of the cluster", after(ReasonServerFailed, time.Second), 3, 20 * time.Second},
		{"the longest time of the cluster", after(ReasonServerFailed, time.Hour), 1, 5 * time.Minute},
		{"the shortest time", after(ReasonCredentialPending, time.Millisecond), 9, time.Second},
		{"the longest time", after(ReasonCredentialPending, time.Hour), 1, 5 * time.Minute},
		{"no time", after(ReasonCredentialPending, -time.Minute), 1, 5 * time.Second},
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
	for name, p := range map[string]*problem{
		"by the importer":              {reason: ReasonHubReadFailed},
		"by the importer, with a time": after(ReasonHubReadFailed, time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			retry, err := outcome("text", p, 3)
			if _, ok := requeue(err); ok || retry != 0 || err.Error() != "text" {
				t.Errorf("got %#v, %s", err, retry)
			}
		})
	}
}

// When an import is tried again depends on its reason alone.
func TestRetriesOfReasons(t *testing.T) {
	byRetry := map[retry][]Reason{
		retryOnChange: {
			ReasonSecretNotFound, ReasonSecretAmbiguous, ReasonSecretMisplaced, ReasonKubeconfigInvalid, ReasonFieldForbidden,
			ReasonCredentialInvalid, ReasonPolicyDenied, ReasonCredentialExpired,
		},
		retryByImporter: {ReasonHubReadFailed},
	}
	want := map[Reason]retry{}
	for retry, reasons := range byRetry {
		for _, reason := range reasons {
			want[reason] = retry
		}
	}
	for reason, info := range reasonInfos {
		// All else may come right without a change on the hub.
		if info.retry != want[reason] {
			t.Errorf("%s is tried again by rule %d, want %d", reason, info.retry, want[reason])
		}
	}
}

func TestCredentialProblem(t *testing.T) {
	field := func(reason restconfig.Reason) error {
		return &restconfig.FieldError{Field: "users[].user.x", Entry: `"a"`, Reason: reason, NextStep: "mend it"}
	}
	cases := []struct {
		name   string
		err    error
		reason Reason
		detail string
		after  time.Duration
	}{
		{"forbidden field", credential.Invalid(field(restconfig.ReasonForbidden)), ReasonFieldForbidden,
			`users[].user.x of entry "a" is not accepted: mend it`, 0},
		{"denied field", credential.Denied(field(restconfig.ReasonDenied)), ReasonPolicyDenied,
			`users[].user.x of entry "a" is not accepted: mend it`, 0},
		{"missing field", credential.Invalid(field(restconfig.ReasonMissing)), ReasonKubeconfigInvalid,
			`users[].user.x of entry "a" is missing: mend it`, 0},
		{"too large", credential.Invalid(field(restconfig.ReasonTooLarge)), ReasonKubeconfigInvalid,
			`users[].user.x of entry "a" is too large: mend it`, 0},
		{"wrapped field", fmt.Errorf("resolver x: %w", credential.Invalid(fmt.Errorf("key y: %w", field(restconfig.ReasonUnknown)))),
			ReasonKubeconfigInvalid, `resolver x: key y: users[].user.x of entry "a" is not a known key: mend it`, 0},
		{"denied", fmt.Errorf("resolver x: %w", credential.Denied(errors.New("not enabled"))), ReasonPolicyDenied, "resolver x: not enabled", 0},
		{"invalid", credential.Invalid(errors.New("no key; add it")), ReasonCredentialInvalid, "no key; add it", 0},
		{"mint failed", credential.MintFailed(errors.New("refused")), ReasonTokenMintFailed, "refused", 0},
		{"pending", credential.Pending(errors.New("wait"), time.Minute), ReasonCredentialPending, "wait", time.Minute},
		// What is awaited may have been refused for now.
		{"pending for a field", credential.Pending(field(restconfig.ReasonMissing), 0), ReasonCredentialPending,
			`users[].user.x of entry "a" is missing: mend it`, 0},
		{"unclassified", errors.New(sentinel), ReasonTokenMintFailed, "the credential resolver failed; see the logs of the import controller", 0},
		// A resolver may ask another server by a kubeconfig of its own.
		{"unclassified field", field(restconfig.ReasonMissing), ReasonTokenMintFailed, "the credential resolver failed; see the logs of the import controller", 0},
		{"unclassified forbidden field", field(restconfig.ReasonForbidden), ReasonTokenMintFailed, "the credential resolver failed; see the logs of the import controller", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := credentialProblem(c.err)
			if p.reason != c.reason || p.detail != c.detail || p.after != c.after {
				t.Errorf("got  %s: %s after %s\nwant %s: %s after %s", p.reason, p.detail, p.after, c.reason, c.detail, c.after)
			}
			if !errors.Is(p, c.err) {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestHostErrorTextHasNoTime(t *testing.T) {
	_, err := outcome("import Secret a/b: Unreachable", &problem{reason: ReasonUnreachable}, 1)
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
	want := "detail; " + reasonInfos[ReasonUnauthorized].next
	if p.message() != want || p.Error() != "Unauthorized: "+want {
		t.Errorf("got %q and %q, want %q", p.message(), p.Error(), want)
	}
	if !errors.Is(p, cause) {
		t.Error("the cause is lost")
	}
	p = &problem{reason: ReasonCredentialInvalid, detail: "detail"}
	if p.message() != "detail" || p.Error() != "CredentialInvalid: detail" {
		t.Errorf("got %q and %q", p.message(), p.Error())
	}
}

func TestFailures(t *testing.T) {
	f := newFailures()
	one := attempt{clusterName: testCluster, input: "1"}
	two := attempt{clusterName: testCluster, input: "2"}
	a := &problem{reason: ReasonUnreachable, detail: "a", cause: errors.New(sentinel)}
	b := &problem{reason: ReasonUnreachable, detail: "b"}
	if p, err := f.pending(one); p != nil || err != nil {
		t.Errorf("pending before a failure: %v, %v", p, err)
	}
	for i, c := range []struct {
		attempt attempt
		problem *problem
		isNew   bool
		retry   time.Duration
	}{
		{one, a, true, firstRetry},
		{one, a, false, 2 * firstRetry},
		{one, b, true, 4 * firstRetry},
		{one, &problem{reason: ReasonServerFailed, detail: "b"}, true, 8 * firstRetry},
		{two, b, true, firstRetry},
		{two, b, false, 2 * firstRetry},
		{attempt{clusterName: "cluster2", input: "2"}, b, true, firstRetry},
	} {
		isNew, err := f.add(c.attempt, "text of "+c.problem.detail, c.problem)
		if isNew != c.isNew || err.Error() != "text of "+c.problem.detail {
			t.Errorf("step %d: new is %t, error %v", i, isNew, err)
		}
		expectRetry(t, err, c.retry)
	}
	if p, err := f.pending(one); p != nil || err != nil {
		t.Errorf("pending with another input: %v, %v", p, err)
	}
	p, err := f.pending(two)
	if err == nil || err.Error() != "text of b" || p == nil || p.Error() != b.Error() {
		t.Fatalf("got %v, %v", p, err)
	}
	// The importer is told the rest of the time, not the whole of it again.
	elapse := func(rest time.Duration) {
		failure := f.byCluster[testCluster]
		failure.until = time.Now().Add(rest)
		f.byCluster[testCluster] = failure
	}
	elapse(time.Second)
	_, err = f.pending(two)
	if rest, ok := requeue(err); !ok || rest > time.Second || rest <= 0 {
		t.Errorf("rest is %s", rest)
	}
	elapse(0)
	if p, err := f.pending(two); p != nil || err != nil {
		t.Errorf("pending after the back-off: %v, %v", p, err)
	}
	elapse(time.Second)
	f.forget(testCluster)
	if p, err := f.pending(two); p != nil || err != nil {
		t.Errorf("pending after it was forgotten: %v, %v", p, err)
	}
	if len(f.byCluster) != 1 {
		t.Errorf("%d clusters are remembered", len(f.byCluster))
	}
}

// What a problem was made of may hold a credential, and is not kept.
func TestCauseIsNotRemembered(t *testing.T) {
	f := newFailures()
	one := attempt{clusterName: testCluster, input: "1"}
	cause := errors.New(sentinel)
	added := &problem{reason: ReasonUnreachable, cause: cause}
	_, _ = f.add(one, "text", added)
	p, err := f.pending(one)
	if p == nil || p.cause != nil || errors.Is(err, cause) {
		t.Errorf("got %v, %v", p, err)
	}
	if !errors.Is(added, cause) {
		t.Error("the argument is changed")
	}
}

// The importer tries again by itself what nobody expected, as often as it likes.
func TestNothingIsPendingThatTheImporterRetries(t *testing.T) {
	f := newFailures()
	one := attempt{clusterName: testCluster, input: "1"}
	p := &problem{reason: ReasonHubReadFailed}
	for _, want := range []bool{true, false} {
		if isNew, _ := f.add(one, "text", p); isNew != want {
			t.Errorf("new is %t, want %t", isNew, want)
		}
		if p, err := f.pending(one); p != nil || err != nil {
			t.Errorf("pending: %v, %v", p, err)
		}
	}
}

// A resolver that says when to come again is no failure that the back-off grows by.
func TestTimeThatWasAskedForDoesNotGrowTheBackOff(t *testing.T) {
	f := newFailures()
	one := attempt{clusterName: testCluster, input: "1"}
	for i, c := range []struct {
		after, want time.Duration
	}{
		{42 * time.Second, 42 * time.Second},
		{42 * time.Second, 42 * time.Second},
		{0, firstRetry},
		{42 * time.Second, 42 * time.Second},
		{0, 2 * firstRetry},
	} {
		t.Run(fmt.Sprintf("step %d", i), func(t *testing.T) {
			_, err := f.add(one, "text", &problem{reason: ReasonCredentialPending, after: c.after})
			expectRetry(t, err, c.want)
		})
	}
}

// A cluster that asks to come again soon does not keep the back-off from growing.
func TestTimeOfAClusterDoesNotStopTheBackOff(t *testing.T) {
	f := newFailures()
	one := attempt{clusterName: testCluster, input: "1"}
	for _, want := range []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry} {
		_, err := f.add(one, "text", &problem{reason: ReasonServerFailed, after: time.Second})
		expectRetry(t, err, want)
	}
}

func TestFailuresWithReason(t *testing.T) {
	f := newFailures()
	for name, reason := range map[string]Reason{"a": ReasonDuplicateCluster, "b": ReasonUnreachable, "c": ReasonDuplicateCluster, "d": ReasonDuplicateCluster} {
		_, _ = f.add(attempt{clusterName: name}, "text", &problem{reason: reason})
	}
	f.forget("d")
	got := f.withReason(ReasonDuplicateCluster)
	slices.Sort(got)
	if !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got %v", got)
	}
}

// An attempt is made again at once when a person has changed something that it depends on.
func TestAttemptInput(t *testing.T) {
	one := partial(DefaultImportNamespace, testSecret, testCluster)
	two := partial(testCluster, SecretName, testCluster)
	with := func(edits ...func(*clusterv1.ManagedCluster)) string {
		return newAttempt(managedCluster(edits...), []*metav1.PartialObjectMetadata{one}).input
	}
	of := func(secrets ...*metav1.PartialObjectMetadata) string {
		return newAttempt(managedCluster(), secrets).input
	}
	base := of(one)
	same := map[string]string{
		"nothing":               with(),
		"an annotation":         with(annotated("example.com/other", "x")),
		"an annotation of ours": with(annotated(AnnotationImmediateImport, "")),
		"a label":               with(labelled("example.com/other", "x")),
		"a condition":           with(withPreflight(metav1.ConditionFalse, ReasonUnreachable)),
		"the resource version":  with(func(c *clusterv1.ManagedCluster) { c.ResourceVersion, c.Generation = "9", 9 }),
	}
	for what, input := range same {
		if input != base {
			t.Errorf("%s makes another attempt: %s, was %s", what, input, base)
		}
	}
	seen := map[string]string{base: "nothing"}
	for what, input := range map[string]string{
		"the Secret":              of(partial(DefaultImportNamespace, testSecret, testCluster, resourceVersion("2"))),
		"one more Secret":         of(one, two),
		"another Secret":          of(two),
		"takeover":                with(annotated(AnnotationTakeover, testHub)),
		"another takeover":        with(annotated(AnnotationTakeover, testHub+"x")),
		"kube-system-uid":         with(annotated(AnnotationClusterUID, testHub)),
		"both":                    with(annotated(AnnotationTakeover, testHub), annotated(AnnotationClusterUID, testHub)),
		"local-cluster":           with(labelled(LabelLocalCluster, "true")),
		"local-cluster, not":      with(labelled(LabelLocalCluster, "false")),
		"a Secret of another UID": of(partial(DefaultImportNamespace, testSecret, testCluster, func(o *metav1.PartialObjectMetadata) { o.UID = "new" })),
	} {
		if other, found := seen[input]; found {
			t.Errorf("%s is the same input as %s: %s", what, other, input)
		}
		seen[input] = what
	}
}
