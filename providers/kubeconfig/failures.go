// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// attempt is one try to import a cluster with what its Secrets were.
type attempt struct {
	clusterName string
	// secrets is the import Secret, or several, or none.
	secrets []*metav1.PartialObjectMetadata
	// secretKey is that of the first.
	secretKey string
	// input is the same for two attempts that are made with the same Secrets, unchanged, and the same answers of a person
	// on the ManagedCluster.
	input string
}

func newAttempt(cluster *clusterv1.ManagedCluster, candidates []*metav1.PartialObjectMetadata) attempt {
	var input strings.Builder
	for _, candidate := range candidates {
		input.WriteString(stateOf(candidate) + " ")
	}
	for _, key := range []string{AnnotationTakeover, AnnotationClusterUID} {
		fmt.Fprintf(&input, "%q ", cluster.Annotations[key])
	}
	fmt.Fprintf(&input, "%q", cluster.Labels[LabelLocalCluster])
	a := attempt{clusterName: cluster.Name, secrets: candidates, input: input.String()}
	if len(candidates) > 0 {
		a.secretKey = objectKey(candidates[0])
	}
	return a
}

// secret is the import Secret, or the first of several.
func (a attempt) secret() *metav1.PartialObjectMetadata { return a.secrets[0] }

// about begins a text with the import Secret that it is about.
func (a attempt) about(text string) string { return messagePrefix + a.secretKey + ": " + text }

// failures remembers the last failed attempt of each cluster until a better one, so that a cluster is tried no more
// often than its back-off says, whatever wakes the importer in between.
type failures struct {
	lock      sync.Mutex // guards byCluster, for the time of a look-up or a change
	byCluster map[string]failure
}

type failure struct {
	input   string
	problem *problem
	count   int
	until   time.Time
	// err is what the importer sees.
	err error
}

func newFailures() *failures {
	return &failures{byCluster: map[string]failure{}}
}

// pending returns the problem and the error of the last attempt while its back-off lasts and its input has not changed.
func (f *failures) pending(a attempt) (*problem, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	last, ok := f.byCluster[a.clusterName]
	if !ok || last.input != a.input {
		return nil, nil
	}
	remaining := time.Until(last.until)
	if remaining <= 0 {
		return nil, nil
	}
	if host, ok := last.err.(*hostError); ok { //nolint:errorlint // add stored it as it is.
		again := *host
		again.requeue.RequeueTime = remaining
		return last.problem, &again
	}
	return last.problem, last.err
}

// add records a failed attempt. It returns whether the failure differs from the last one of the cluster, and what the
// importer shall see.
func (f *failures) add(a attempt, text string, p *problem) (isNew bool, err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	last := f.byCluster[a.clusterName]
	next := failure{input: a.input, problem: p.withoutCause()}
	if last.input == a.input {
		next.count = last.count
	}
	if !p.asked() {
		next.count++
	}
	retryAfter, failed := outcome(text, p, max(next.count, 1))
	next.err = failed
	next.until = time.Now().Add(retryAfter)
	f.byCluster[a.clusterName] = next
	return last.problem == nil || last.problem.Error() != p.Error() || last.input != a.input, next.err
}

// withReason returns the clusters whose last attempt failed for a reason.
func (f *failures) withReason(reason Reason) []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	var names []string
	for name, last := range f.byCluster {
		if last.problem.reason == reason {
			names = append(names, name)
		}
	}
	return names
}

// retry ends the back-off of the clusters whose last attempt failed for a reason, and returns them. What failed stays known: the
// same failure again is no new one.
func (f *failures) retry(reason Reason) []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	var names []string
	for name, last := range f.byCluster {
		if last.problem.reason == reason {
			last.until = time.Time{}
			f.byCluster[name] = last
			names = append(names, name)
		}
	}
	return names
}

// forget drops the last failed attempt of a cluster and says whether there was one.
func (f *failures) forget(clusterName string) bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	_, failed := f.byCluster[clusterName]
	delete(f.byCluster, clusterName)
	return failed
}
