// Copyright Contributors to the Open Cluster Management project

package soak

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/fleet"
	"open-cluster-management.io/import-provider/test/importhub"
)

const testCluster = "cluster1"

// story is a ledger of one cluster to which things happen, a second after another.
type story struct {
	t       *testing.T
	ledger  *ledger
	cluster *fleet.Cluster
	said    *clusterv1.ManagedCluster
}

func (s *story) created() {
	s.ledger.begin(s.cluster)
	s.said = &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: testCluster, UID: "1", CreationTimestamp: metav1.Now(), Annotations: map[string]string{},
	}}
}

func (s *story) written() { s.posted(http.StatusCreated) }

func (s *story) refused() { s.posted(http.StatusForbidden) }

func (s *story) posted(code int) {
	time.Sleep(time.Second)
	s.ledger.request(fleet.Request{Cluster: testCluster, Method: http.MethodPost, Path: bootstrapSecrets, Code: code, At: time.Now()})
}

func (s *story) read() {
	time.Sleep(time.Second)
	s.ledger.request(fleet.Request{Cluster: testCluster, Method: http.MethodGet, Path: "/version", Code: http.StatusOK, At: time.Now()})
}

func (s *story) condition(condition string, status metav1.ConditionStatus) {
	time.Sleep(time.Second)
	meta.SetStatusCondition(&s.said.Status.Conditions, metav1.Condition{Type: condition, Status: status, Reason: "Test"})
	s.ledger.see(s.said)
}

func (s *story) imported() { s.condition(importhub.ConditionImported, metav1.ConditionTrue) }

func (s *story) completed() {
	s.said.Annotations[kubeconfig.AnnotationClusterUID] = string(s.cluster.UID())
	s.condition(kubeconfig.ConditionCompleted, metav1.ConditionTrue)
}

func (s *story) annotated(value string) {
	s.said.Annotations[kubeconfig.AnnotationImmediateImport] = value
	s.ledger.see(s.said)
}

func (s *story) asked() {
	if !s.ledger.ask(testCluster) {
		s.t.Error("it may not be asked again")
	}
}

func (s *story) disturbed() { s.ledger.disturb(killing, "") }

func (s *story) rested() { time.Sleep(time.Minute) }

type steps []func(*story)

func TestLedger(t *testing.T) {
	const (
		lost  = "is lost"
		twice = "was imported 2 times"
		again = "was reported imported at"
		asked = "is complete since"
	)
	clusters := fleet.New(fleet.Options{})
	t.Cleanup(clusters.Stop)
	cluster, err := clusters.Add(t.Context(), testCluster, fleet.Healthy)
	if err != nil {
		t.Fatal(err)
	}
	good := steps{(*story).created, (*story).written, (*story).imported, (*story).completed}
	for _, c := range []struct {
		name  string
		steps steps
		// wrong are parts of the violations, in order.
		wrong             []string
		imports, repeated int
	}{
		{name: "an import", steps: good, imports: 1},
		{name: "an import that was disturbed and repeated", imports: 2, repeated: 1,
			steps: steps{(*story).created, (*story).written, (*story).disturbed, (*story).written, (*story).imported, (*story).completed}},
		{name: "an import that was repeated by itself", imports: 2, wrong: []string{twice},
			steps: steps{(*story).created, (*story).written, (*story).written, (*story).imported, (*story).completed}},
		{name: "a disturbance of before", imports: 2, wrong: []string{twice},
			steps: steps{(*story).disturbed, (*story).created, (*story).written, (*story).written, (*story).imported, (*story).completed}},
		{name: "nothing", steps: steps{(*story).created}, wrong: []string{lost}},
		{name: "an import that was not reported", steps: steps{(*story).created, (*story).written, (*story).disturbed}, imports: 1, wrong: []string{lost}},
		{name: "a report without an import", steps: steps{(*story).created, (*story).imported, (*story).completed}, wrong: []string{"nothing was written"}},
		{name: "a cluster that does not join", steps: good[:3], imports: 1, wrong: []string{lost}},
		{name: "an import after the report", steps: append(good[:4:4], steps{(*story).disturbed, (*story).written}...), imports: 2,
			wrong: []string{again, twice}},
		{name: "a report that is taken back", steps: append(good[:4:4],
			func(s *story) { s.condition(importhub.ConditionImported, metav1.ConditionFalse) }), imports: 1, wrong: []string{"is not any more"}},
		{name: "a look before it is complete", steps: steps{(*story).created, (*story).written, (*story).imported, (*story).rested,
			(*story).read, (*story).completed}, imports: 1},
		{name: "a look afterwards", steps: append(good[:4:4], steps{(*story).rested, (*story).read}...), imports: 1, wrong: []string{asked}},
		{name: "one more import that was asked for", imports: 2, steps: append(good[:4:4], steps{(*story).rested, (*story).asked,
			func(s *story) { s.annotated("") }, func(s *story) { s.condition(importhub.ConditionImported, metav1.ConditionFalse) }, (*story).written,
			(*story).imported, func(s *story) { s.annotated(kubeconfig.ImmediateImportCompleted) }}...)},
		{name: "one more import that is not done", imports: 1, wrong: []string{lost},
			steps: append(good[:4:4], steps{(*story).asked, func(s *story) { s.annotated("") }}...)},
		{name: "a request after one that is done", imports: 2, wrong: []string{lost}, steps: append(good[:4:4], steps{(*story).asked, (*story).written,
			func(s *story) { s.annotated(kubeconfig.ImmediateImportCompleted) }, (*story).asked, func(s *story) { s.ledger.see(s.said) }}...)},
		{name: "a write that is refused", steps: append(good[:3:3], steps{(*story).completed, (*story).refused}...), imports: 1, wrong: []string{again}},
		{name: "two more imports", imports: 3, wrong: []string{twice}, steps: append(good[:4:4], steps{(*story).asked, (*story).written, (*story).written,
			func(s *story) { s.annotated(kubeconfig.ImmediateImportCompleted) }}...)},
		{name: "a deletion", steps: steps{(*story).created, (*story).written, func(s *story) { s.ledger.end(testCluster) }, (*story).written}, imports: 1},
		{name: "a deletion of what was imported twice", imports: 2, wrong: []string{twice},
			steps: steps{(*story).created, (*story).written, (*story).written, (*story).imported, func(s *story) { s.ledger.end(testCluster) }}},
		{name: "a deletion and a creation", imports: 2, steps: append(good[:4:4], steps{func(s *story) { s.ledger.end(testCluster) }, (*story).rested,
			(*story).created, func(s *story) { s.said.UID = "2" }, (*story).written, (*story).imported, (*story).completed}...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{t: t, ledger: newLedger(), cluster: cluster}
				for _, step := range c.steps {
					step(s)
				}
				v := s.ledger.judge()
				if len(v.violations) != len(c.wrong) {
					t.Fatalf("violations are %q, want %q", v.violations, c.wrong)
				}
				for i, text := range c.wrong {
					if !strings.Contains(v.violations[i], text) {
						t.Errorf("a violation is %q, want %q", v.violations[i], text)
					}
				}
				if got, want := fmt.Sprint(v.imports, v.repeated), fmt.Sprint(c.imports, c.repeated); got != want {
					t.Errorf("imports and repeated are %s, want %s", got, want)
				}
			})
		})
	}
}
