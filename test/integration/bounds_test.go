// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/harness"
)

// visits are what a cluster sees of the provider.
type visits struct {
	lock sync.Mutex // guards the fields below, for the time of a look-up or a change
	// connections is when each TCP connection came.
	connections []time.Time
	// attempts is when each first request of an attempt came, to servers of the test alone.
	attempts []time.Time
}

// proxy counts the connections to a server and returns the URL to use in its place.
func (v *visits) proxy(ctx context.Context, server string) string {
	GinkgoHelper()
	return proxyTCP(ctx, server, func() {
		v.lock.Lock()
		defer v.lock.Unlock()
		v.connections = append(v.connections, time.Now())
	})
}

// server starts a server of the test and returns a kubeconfig for it.
func (v *visits) server(ctx context.Context, handler http.HandlerFunc, certificate *tls.Certificate) []byte {
	GinkgoHelper()
	f := newFakeServerWithCertificate(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == preflightPath {
			v.lock.Lock()
			v.attempts = append(v.attempts, time.Now())
			v.lock.Unlock()
		}
		handler(w, r)
	}, certificate)
	return harness.TokenKubeconfig(v.proxy(ctx, f.server.URL), f.ca(), sentinel)
}

// admin is a kubeconfig of a control plane's administrator.
func (v *visits) admin(ctx context.Context, plane *harness.ControlPlane) []byte {
	GinkgoHelper()
	config := plane.Config()
	return harness.CertKubeconfig(v.proxy(ctx, plane.URL()), config.CAData, config.CertData, config.KeyData)
}

// certified is a kubeconfig of a user of the first spoke, with a client certificate.
func (v *visits) certified(ctx context.Context, user string, notBefore, notAfter time.Duration) []byte {
	GinkgoHelper()
	cert, key, err := spokes[0].IssueClientCert(user, nil, time.Now().Add(notBefore), time.Now().Add(notAfter))
	Expect(err).NotTo(HaveOccurred())
	return harness.CertKubeconfig(v.proxy(ctx, spokes[0].URL()), spokes[0].CAData(), cert, key)
}

func (v *visits) counts() (connections, attempts int) {
	v.lock.Lock()
	defer v.lock.Unlock()
	return len(v.connections), len(v.attempts)
}

// gaps are the times between a connection and the next.
func (v *visits) gaps() []time.Duration {
	v.lock.Lock()
	defer v.lock.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(v.connections); i++ {
		gaps = append(gaps, v.connections[i].Sub(v.connections[i-1]))
	}
	return gaps
}

// pace is how often an import that fails may be tried. Jitter makes the times longer, by up to a fifth, and never shorter.
type pace struct {
	// gap is the least time between an attempt and the next one, for the gaps from 0 on. A failure that is tried again on
	// a change alone, after 15 min at the latest, has none.
	gap func(i int) time.Duration
	// extra are attempts that need not wait for the gap.
	extra int
	// least is how many attempts there are in a minute, whatever an attempt takes: a pace that nothing keeps is no pace.
	least int
}

var (
	once = pace{least: 1}
	// backingOff makes the attempts at least 0, 5, 15, 35 and 75 s after the first. The third comes after 6 s, 12 s and two
	// attempts of up to 4 s each.
	backingOff = pace{gap: func(i int) time.Duration { return 5 * time.Second << i }, least: 3}
	// onRequest is that of a server that asks for 20 s each time: the third attempt comes after 48 s at the latest.
	onRequest = pace{gap: func(int) time.Duration { return 20 * time.Second }, least: 3}
	// byImporter is that of the importer's queue, which starts at 5 ms and doubles it (workqueue's
	// DefaultTypedControllerRateLimiter): the 14th attempt comes after 41 s, the 15th after 82 s. What wakes the importer
	// does so without a wait: the ManagedCluster was created, and its status was patched.
	byImporter = pace{gap: func(i int) time.Duration { return 5 * time.Millisecond << i }, extra: 2, least: 5}
)

// most is how many attempts there may be in a time since the first.
func (p pace) most(elapsed time.Duration) int {
	count := 1 + p.extra
	if p.gap == nil {
		return count
	}
	for i, at := 0, p.gap(0); at <= elapsed; at += p.gap(i) {
		count++
		i++
	}
	return count
}

// boundedCase is an import that fails in one way for a minute.
type boundedCase struct {
	name string
	// reason is that of our condition, or of the importer's when the preflight passed.
	reason string
	pace   pace
	// alone is set where the provider has no reason to connect to the cluster, or can't.
	alone bool
	// secret makes the import Secret of the cluster, and what goes with it. It returns nil when there is none.
	secret func(ctx context.Context, cluster string, v *visits) *corev1.Secret
	// passed is set where the import fails after the preflight.
	passed bool
}

// boundedBy is a case's Secret that holds what build returns.
func boundedBy(build func(ctx context.Context, v *visits) []byte) func(context.Context, string, *visits) *corev1.Secret {
	return func(ctx context.Context, cluster string, v *visits) *corev1.Secret {
		return kubeconfigSecret(cluster, build(ctx, v))
	}
}

// boundedServer is a case's Secret for a server of the test.
func boundedServer(handler http.HandlerFunc) func(context.Context, string, *visits) *corev1.Secret {
	return boundedBy(func(ctx context.Context, v *visits) []byte { return v.server(ctx, handler, nil) })
}

// answerNothing holds a request until its connection is closed, which a server does not see before it has read the body.
func answerNothing(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// answerRetryAfter refuses, with what a client shall wait for in seconds, or without it.
func answerRetryAfter(code int, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		respond(w, code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code))
	}
}

// importAndForget leaves a cluster with the klusterlet of a ManagedCluster that is gone.
func importAndForget(ctx context.Context, spoke *spokeCluster) {
	GinkgoHelper()
	name := newName("forgotten")
	importNow(ctx, name, spoke)
	deleteSecret(ctx, kubeconfigSecret(name, nil))
	deleteCluster(ctx, name)
}

// boundedCases are one import for each reason of ConditionPreflightPassed that can be caused. A component that is built
// from here has no resolver that answers CredentialPending or TokenMintFailed.
//
// The second spoke has a klusterlet of another hub, the third one that is being deleted, and the first is imported.
func boundedCases() []boundedCase {
	const hour = time.Hour
	token := func(server string, ca []byte) []byte { return harness.TokenKubeconfig(server, ca, sentinel) }
	changed := func(key, value string) func(context.Context, string, *visits) *corev1.Secret {
		return func(ctx context.Context, cluster string, v *visits) *corev1.Secret {
			secret := kubeconfigSecret(cluster, v.admin(ctx, spokes[0].ControlPlane))
			secret.Annotations[key] = value
			return secret
		}
	}
	return []boundedCase{
		{name: "the Secret is gone", reason: "SecretNotFound", pace: pace{extra: -1}, alone: true,
			secret: func(context.Context, string, *visits) *corev1.Secret { return nil }},
		{name: "two Secrets", reason: "SecretAmbiguous", pace: once, alone: true,
			secret: func(ctx context.Context, cluster string, v *visits) *corev1.Secret {
				second := kubeconfigSecret(cluster, v.admin(ctx, spokes[0].ControlPlane))
				second.Name += secondSuffix
				createSecret(ctx, second)
				return kubeconfigSecret(cluster, v.admin(ctx, spokes[0].ControlPlane))
			}},
		{name: "a Secret of another cluster", reason: "SecretMisplaced", pace: once, alone: true,
			secret: func(ctx context.Context, cluster string, v *visits) *corev1.Secret {
				secret := kubeconfigSecret(cluster, v.admin(ctx, spokes[0].ControlPlane))
				secret.Namespace, secret.Name = cluster, kubeconfig.SecretName
				secret.Annotations[kubeconfig.AnnotationManagedCluster] = "another"
				return secret
			}},
		{name: "an empty kubeconfig", reason: "KubeconfigInvalid", pace: once, alone: true,
			secret: boundedBy(func(context.Context, *visits) []byte { return nil })},
		{name: "a password", reason: "FieldForbidden", pace: once, alone: true,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte {
				return editKubeconfig(v.proxy(ctx, spokes[0].URL()), spokes[0].CAData(), func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
					user.Username, user.Password = sentinel, sentinel
				})
			})},
		{name: "a data key that does not exist", reason: "CredentialInvalid", pace: once, alone: true,
			secret: changed(credential.AnnotationKubeconfigKey, "other")},
		{name: "a resolver that does not exist", reason: "PolicyDenied", pace: once, alone: true,
			secret: changed(credential.AnnotationCredentialResolver, "other")},
		{name: "an expired certificate", reason: "CredentialExpired", pace: once, alone: true,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte { return v.certified(ctx, "expired", -2*hour, -hour) })},
		{name: "an early certificate", reason: "CredentialNotYetValid", pace: backingOff, alone: true,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte { return v.certified(ctx, "early", hour, 2*hour) })},
		{name: "no address", reason: "NameNotResolved", pace: backingOff, alone: true,
			secret: boundedBy(func(context.Context, *visits) []byte { return token("https://host.invalid:6443", spokes[0].CAData()) })},
		{name: "refused", reason: "Unreachable", pace: backingOff, alone: true,
			secret: boundedBy(func(_ context.Context, _ *visits) []byte {
				return token("https://"+closedPort(), spokes[0].CAData())
			})},
		{name: "no handshake", reason: "Unreachable", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte {
				return token(v.proxy(ctx, listenTCP(ctx)), spokes[0].CAData())
			})},
		{name: "no answer", reason: "Unreachable", pace: backingOff, secret: boundedServer(answerNothing)},
		{name: "another CA", reason: "TLSUntrusted", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte {
				return token(v.proxy(ctx, spokes[0].URL()), hub.CAData())
			})},
		{name: "another name", reason: "TLSNameMismatch", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte {
				now := time.Now()
				return v.server(ctx, answerUnknownKind, servingCertificate("other.example.com", now.Add(-hour), now.Add(hour)))
			})},
		{name: "no TLS", reason: "TLSFailed", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte {
				return token(v.proxy(ctx, plainServer().Listener.Addr().String()), spokes[0].CAData())
			})},
		{name: "503", reason: "ServerFailed", pace: backingOff, secret: boundedServer(answerRetryAfter(http.StatusServiceUnavailable, ""))},
		{name: "429, after 20 s", reason: "ServerFailed", pace: onRequest,
			secret: boundedServer(answerRetryAfter(http.StatusTooManyRequests, "20"))},
		{name: "503, after an hour", reason: "ServerFailed", pace: once,
			secret: boundedServer(answerRetryAfter(http.StatusServiceUnavailable, "3600"))},
		{name: "an answer without end", reason: "ServerFailed", pace: backingOff, secret: boundedServer(answerEndless)},
		{name: "HTML", reason: "NotKubernetes", pace: backingOff, secret: boundedServer(answerHTML)},
		{name: "an unknown token", reason: "Unauthorized", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte {
				return token(v.proxy(ctx, spokes[0].URL()), spokes[0].CAData())
			})},
		{name: "an old version", reason: "ClusterTooOld", pace: backingOff, secret: boundedServer(answerVersion("v1.15.0"))},
		{name: "no permissions", reason: "Forbidden", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte { return v.certified(ctx, newName("bounded"), -hour, hour) })},
		{name: "the hub", reason: "HubAsSpoke", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte { return v.admin(ctx, hub) })},
		{name: "another cluster than before", reason: "ClusterSwapped", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte { return v.admin(ctx, spokes[0].ControlPlane) })},
		{name: "a second name", reason: "DuplicateCluster", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte { return v.admin(ctx, spokes[0].ControlPlane) })},
		{name: "another hub's klusterlet", reason: "OwnedByAnotherHub", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte { return v.admin(ctx, spokes[1].ControlPlane) })},
		{name: "a klusterlet that is being deleted", reason: "Leftovers", pace: backingOff,
			secret: boundedBy(func(ctx context.Context, v *visits) []byte { return v.admin(ctx, spokes[2].ControlPlane) })},
		{name: "a klusterlet, and no values to compare it with", reason: "HubReadFailed", pace: byImporter,
			secret: func(ctx context.Context, cluster string, v *visits) *corev1.Secret {
				importConfig(ctx, cluster, "{")
				f := asAnotherCluster(spokes[1], newName("uid"))
				return kubeconfigSecret(cluster, token(v.proxy(ctx, f.server.URL), f.ca()))
			}},

		{name: "values that are none", reason: reasonRenderFailed, pace: byImporter, passed: true,
			secret: func(ctx context.Context, cluster string, v *visits) *corev1.Secret {
				importConfig(ctx, cluster, "{")
				return kubeconfigSecret(cluster, v.server(ctx, afterPreflight(answerStatus(http.StatusForbidden)), nil))
			}},
		{name: "403 later", reason: reasonImportFailed, pace: byImporter, passed: true,
			secret: boundedServer(afterPreflight(answerStatus(http.StatusForbidden)))},
		{name: "no answer later", reason: reasonImportFailed, pace: byImporter, passed: true,
			secret: boundedServer(afterPreflight(answerNothing))},
	}
}

// secondSuffix is of the name of a second Secret for one cluster.
const secondSuffix = "-second"

// measured is what one case did.
type measured struct {
	connections, attempts, patches int
}

var _ = Describe("Nothing retries faster than its back-off", Ordered, ContinueOnFailure, func() {
	const (
		window     = time.Minute
		wakes      = 3
		maxPatches = 2
		// atOnce is what a change that an import waits for may take.
		atOnce = 2 * time.Second
	)
	var (
		c        *controller
		cases    = boundedCases()
		clusters = make([]string, len(cases))
		seen     = make([]*visits, len(cases))
		created  time.Time
		first    string
		// firstSeen is what the cluster that was imported first sees.
		firstSeen     = &visits{}
		firstDeployed time.Time
	)
	indexOf := func(reason string) int {
		return slices.IndexFunc(cases, func(c boundedCase) bool { return c.reason == reason })
	}

	BeforeAll(func(ctx SpecContext) {
		for _, spoke := range spokes {
			DeferCleanup(spoke.clean)
		}
		c = startController(ctx)
		importAndForget(ctx, spokes[1])
		spokes[1].joinHub(ctx, "hub-kubeconfig-secret", otherHub, spokes[1].CAData())

		importAndForget(ctx, spokes[2])
		klusterlets := spokes[2].operator.OperatorV1().Klusterlets()
		klusterlet := spokes[2].klusterlet(ctx)
		klusterlet.Finalizers = []string{"operator.open-cluster-management.io/klusterlet-cleanup"}
		_, err := klusterlets.Update(ctx, klusterlet, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(klusterlets.Delete(ctx, klusterletName, metav1.DeleteOptions{})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			klusterlet := spokes[2].klusterlet(ctx)
			klusterlet.Finalizers = nil
			_, err := klusterlets.Update(ctx, klusterlet, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		})

		spokes[0].clean(ctx)
		first = newName("first")
		createSecret(ctx, kubeconfigSecret(first, firstSeen.admin(ctx, spokes[0].ControlPlane)))
		createCluster(ctx, first)
		firstDeployed = time.Now()
		expectImported(ctx, first)

		created = time.Now()
		for i, one := range cases {
			clusters[i], seen[i] = newName("bounded"), &visits{}
			secret := one.secret(ctx, clusters[i], seen[i])
			if secret != nil {
				createSecret(ctx, secret)
			}
			switch one.reason {
			case "ClusterSwapped":
				createCluster(ctx, clusters[i], kubeconfig.AnnotationClusterUID, "another")
			default:
				createCluster(ctx, clusters[i])
			}
			if secret == nil {
				// As after an attempt, and the end of the component and of the Secret.
				setClusterConditions(ctx, clusters[i], metav1.Condition{
					Type: kubeconfig.ConditionPreflightPassed, Status: metav1.ConditionFalse, Reason: "Unreachable",
				})
			}
		}
		for i, one := range cases {
			conditionType := kubeconfig.ConditionPreflightPassed
			if one.passed {
				conditionType = imported
			}
			Eventually(ourCondition(clusters[i], conditionType)).WithContext(ctx).Should(And(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", one.reason)), one.name)
		}
	})

	// measure counts what there was of each case so far. Attempts that no server sees are those that the component counted
	// for their reason and the servers have not seen.
	measure := func(ctx context.Context, g Gomega) []measured {
		g.Expect(c.series(ctx, "import_provider_in_flight")).To(BeZero())
		rest := map[string]int{}
		for _, one := range cases {
			if !one.passed && one.reason != "SecretNotFound" {
				rest[one.reason] = int(c.series(ctx, fmt.Sprintf("import_provider_failures_total{reason=%q}", one.reason)))
			}
		}
		results := make([]measured, len(cases))
		for i := range cases {
			connections, attempts := seen[i].counts()
			results[i] = measured{connections: connections, attempts: max(connections, attempts), patches: history.count(clusters[i])}
			if !cases[i].passed && !cases[i].alone {
				rest[cases[i].reason] -= results[i].attempts
			}
		}
		for i := range cases {
			if cases[i].alone {
				results[i].attempts = rest[cases[i].reason]
				delete(rest, cases[i].reason)
			}
		}
		// What is left is attempts that no server saw, or connections that were no attempts.
		g.Expect(rest).To(HaveEach(BeZero()))
		return results
	}

	It("in a minute, whatever its reason", func(ctx SpecContext) {
		before := history.snapshot()
		// own are the changes of ManagedClusters that are not the component's.
		own := make([]int, len(cases))
		changed := func() map[string]int {
			counts := map[string]int{}
			for i, one := range cases {
				if n := history.count(clusters[i]) - before[clusters[i]] - own[i]; n > 0 {
					counts[one.name] = n
				}
			}
			if n := history.count(first) - before[first]; n > 0 {
				counts["imported, and does not join"] = n
			}
			return counts
		}
		for i := range wakes {
			for j, one := range cases {
				// Each change of a ManagedCluster wakes the importer, and is an attempt where its own back-off is the only one.
				if one.pace.extra <= 0 {
					own[j]++
					annotateCluster(ctx, clusters[j], "test", strconv.Itoa(i))
				}
			}
			Consistently(changed).WithTimeout(window/wakes).WithPolling(time.Second).Should(BeEmpty(), "patches after the first condition")
		}
		Expect(c.running()).To(BeTrue())

		var results []measured
		var elapsed time.Duration
		Eventually(func(g Gomega, ctx context.Context) {
			results = measure(ctx, g)
			elapsed = time.Since(created)
		}).WithContext(ctx).Should(Succeed())

		table := tabwriter.NewWriter(GinkgoWriter, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "in %s\treason\tattempts\tat most\tconnections\tgaps\tpatches\n", elapsed.Round(time.Second))
		for i, one := range cases {
			var gaps []string
			for _, gap := range seen[i].gaps() {
				gaps = append(gaps, gap.Round(10*time.Millisecond).String())
			}
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\t%d\n", one.name, one.reason, results[i].attempts, one.pace.most(elapsed),
				results[i].connections, strings.Join(gaps, " "), results[i].patches-own[i])
		}
		Expect(table.Flush()).To(Succeed())

		for i, one := range cases {
			result := results[i]
			Expect(result.attempts).To(And(BeNumerically("<=", one.pace.most(elapsed)), BeNumerically(">=", one.pace.least)),
				"attempts of: %s", one.name)
			if one.alone {
				Expect(result.connections).To(BeZero(), "connections of: %s", one.name)
			} else {
				Expect(result.connections).To(Equal(result.attempts), "connections of: %s", one.name)
			}
			// Gaps are exact where nothing may come in between.
			for j, gap := range seen[i].gaps() {
				if one.pace.extra == 0 {
					Expect(gap).To(BeNumerically(">=", one.pace.gap(j)), "gap %d of: %s", j, one.name)
				}
			}
			if one.reason == "SecretNotFound" {
				own[i]++
			}
			Expect(result.patches-own[i]).To(And(BeNumerically(">", 0), BeNumerically("<=", maxPatches)), "patches of: %s", one.name)
		}
	})

	It("when a klusterlet does not join, which is looked at", func() {
		// The looks come at least 10, 20, 30, 50 and 90 s after the condition says that the klusterlet is deployed, which it
		// says in whole seconds.
		elapsed := time.Since(firstDeployed)
		most := 1
		for _, at := range []time.Duration{9 * time.Second, 19 * time.Second, 29 * time.Second, 49 * time.Second, 89 * time.Second} {
			if at <= elapsed {
				most++
			}
		}
		connections, _ := firstSeen.counts()
		GinkgoWriter.Printf("an import and looks in %s: %d, at most %d; gaps %s\n", elapsed, connections, most, firstSeen.gaps())
		Expect(connections).To(And(BeNumerically(">=", 3), BeNumerically("<=", most)))
	})

	It("and says each thing once", func(ctx SpecContext) {
		list, err := hubKube.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		counts := map[event]int{}
		for i := range list.Items {
			item := &list.Items[i]
			about := item.InvolvedObject
			if slices.Contains(clusters, strings.TrimSuffix(about.Name, secondSuffix)) || slices.Contains(clusters, about.Namespace) {
				counts[event{about.Kind, about.Namespace, about.Name, item.Type, item.Reason, item.Message}] += int(item.Count)
			}
		}
		for i, one := range cases {
			said := map[string]bool{}
			for about := range counts {
				if about.kind == "ManagedCluster" && about.name == clusters[i] {
					said[about.reason] = true
				}
			}
			switch {
			case one.passed:
				Expect(said).To(Equal(map[string]bool{"PreflightPassed": true}), one.name)
			case one.reason == "SecretNotFound":
				Expect(said).To(BeEmpty(), one.name)
			default:
				Expect(said).To(Equal(map[string]bool{one.reason: true}), one.name)
			}
		}
		maps.DeleteFunc(counts, func(_ event, count int) bool { return count == 1 })
		Expect(counts).To(BeEmpty())
	})

	It("but tries at once when an annotation allows to take the klusterlet over", func(ctx SpecContext) {
		owned := indexOf("OwnedByAnotherHub")
		before, _ := seen[owned].counts()
		annotateCluster(ctx, clusters[owned], kubeconfig.AnnotationTakeover, otherHub)
		Eventually(func() int { connections, _ := seen[owned].counts(); return connections }).WithTimeout(atOnce).
			Should(BeNumerically(">", before))
		expectImported(ctx, clusters[owned])
	})

	It("but tries at once when the ManagedCluster that had the cluster is deleted", func(ctx SpecContext) {
		duplicate := clusters[indexOf("DuplicateCluster")]
		deleteCluster(ctx, first)
		// Its klusterlet is still there.
		Eventually(ourCondition(duplicate, kubeconfig.ConditionPreflightPassed)).WithContext(ctx).WithTimeout(atOnce).
			Should(HaveField("Reason", "OwnedByAnotherHub"))
	})
})
