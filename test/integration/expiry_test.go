// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/harness"
)

// expiresAt is the end of a message about a credential that works.
func expiresAt(secret *corev1.Secret, subject string, end time.Time) string {
	return failureNote(secret, "the preflight passed; its "+subject+" expires at "+end.UTC().Format(time.RFC3339))
}

var _ = Describe("A credential that expires", Ordered, ContinueOnFailure, func() {
	var (
		c     *controller
		spoke *spokeCluster
	)
	const (
		clientCertificate = "client certificate"
		expired           = "the client certificate is expired; " + nextExpired
	)

	BeforeAll(func(ctx SpecContext) {
		c = startController(ctx)
		spoke = spokes[0]
	})
	BeforeEach(func(ctx SpecContext) { spoke.clean(ctx) })

	preflight := func(name string) func(context.Context) (*metav1.Condition, error) {
		return ourCondition(name, kubeconfig.ConditionPreflightPassed)
	}
	expectEvents := func(ctx context.Context, secret *corev1.Secret, reason, note string) {
		GinkgoHelper()
		Eventually(recordedEvents(secret.Name)).WithContext(ctx).Should(ContainElements(
			secretEvent(secret, corev1.EventTypeWarning, reason, note),
			clusterEvent(secret.Name, corev1.EventTypeWarning, reason, note)))
	}
	expiryMetric := func(name string) func(context.Context) float64 {
		return func(ctx context.Context) float64 {
			return c.series(ctx, fmt.Sprintf("import_provider_credential_expiry_timestamp_seconds{managed_cluster=%q}", name))
		}
	}
	// certificate is a kubeconfig with an administrator's certificate.
	certificate := func(begin, end time.Time) []byte {
		GinkgoHelper()
		cert, key, err := spoke.IssueClientCert("expiring", []string{"system:masters"}, begin, end)
		Expect(err).NotTo(HaveOccurred())
		return harness.CertKubeconfig(spoke.URL(), spoke.CAData(), cert, key)
	}

	It("is said to expire, then to have expired, also long after the import, until another takes its place", func(ctx SpecContext) {
		name := newName("expiring")
		now := time.Now().Truncate(time.Second)
		// The last fifth begins after 6 s and lasts for 15 s, ample for the import before.
		begin, end := now.Add(-54*time.Second), now.Add(21*time.Second)
		secret := kubeconfigSecret(name, certificate(begin, end))
		createSecret(ctx, secret)
		createCluster(ctx, name)
		expectImported(ctx, name)
		note := expiresAt(secret, clientCertificate, end)
		Eventually(expiryMetric(name)).WithContext(ctx).Should(BeEquivalentTo(end.Unix()))

		Eventually(preflight(name)).WithContext(ctx).Should(
			beOurs(kubeconfig.ConditionPreflightPassed, metav1.ConditionTrue, "CredentialExpiring", note))
		expectEvents(ctx, secret, "CredentialExpiring", note)

		Eventually(preflight(name)).WithContext(ctx).WithTimeout(40 * time.Second).Should(
			beOurs(kubeconfig.ConditionPreflightPassed, metav1.ConditionFalse, "CredentialExpired", failureNote(secret, expired)))
		expectEvents(ctx, secret, "CredentialExpired", failureNote(secret, expired))
		Expect(condition(name)(ctx)).To(haveSucceeded(), "the importer's own condition says what was imported")

		updateSecret(ctx, secret, setKubeconfig(certificate(begin, end.Add(time.Hour))))
		Eventually(preflight(name)).WithContext(ctx).Should(And(
			HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", "CredentialChanged")))
		annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
		Eventually(preflight(name)).WithContext(ctx).Should(beOurs(kubeconfig.ConditionPreflightPassed, metav1.ConditionTrue,
			"PreflightPassed", expiresAt(secret, clientCertificate, end.Add(time.Hour))))
		expectImported(ctx, name)
		Eventually(expiryMetric(name)).WithContext(ctx).Should(BeEquivalentTo(end.Add(time.Hour).Unix()))

		deleteCluster(ctx, name)
		Eventually(expiryMetric(name)).WithContext(ctx).Should(BeZero(), "the series goes with the cluster")
	})

	It("is refused when its Secret is read after the import and cannot be used", func(ctx SpecContext) {
		name := newName("expiring")
		importNow(ctx, name, spoke)
		secret := kubeconfigSecret(name, nil)
		updateSecret(ctx, secret, setKubeconfig([]byte("{}")))
		Eventually(preflight(name)).WithContext(ctx).Should(beOurs(kubeconfig.ConditionPreflightPassed, metav1.ConditionFalse,
			"KubeconfigInvalid", failureNote(secret, "credential resolver kubeconfig: data key kubeconfig: contexts is missing: "+
				"add a context that names a cluster and a user")))
	})

	It("is refused as a token that is expired, not yet valid, or revoked", func(ctx SpecContext) {
		token := func(claims string) []byte {
			encode := base64.RawURLEncoding.EncodeToString
			jwt := encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte(sentinel))
			return harness.TokenKubeconfig(spoke.URL(), spoke.CAData(), jwt)
		}
		now := time.Now().Unix()
		for text, config := range map[string][]byte{
			"CredentialExpired: the token is expired; " + nextExpired: token(fmt.Sprintf(`{"exp":%d,"iat":%d}`, now-120, now-3600)),
			"CredentialNotYetValid: the token is not yet valid; " + nextExpired + ", or compare the clocks": token(
				fmt.Sprintf(`{"exp":%d,"nbf":%d}`, now+7200, now+3600)),
		} {
			name := newName("token")
			secret := kubeconfigSecret(name, config)
			createSecret(ctx, secret)
			createCluster(ctx, name)
			expectPreflightFailed(ctx, c, name, secret, text, "")
			deleteCluster(ctx, name)
		}

		name := newName("token")
		account, revoke := spoke.importerToken(ctx, importerRules())
		_ = revoke
		secret := tokenSecret(name, spoke, account)
		createSecret(ctx, secret)
		Expect(spoke.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).
			DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
		createCluster(ctx, name)
		expectPreflightFailed(ctx, c, name, secret,
			"Unauthorized: the cluster's API server does not accept the credential; "+nextUnauthorized, "")
		account, _ = spoke.importerToken(ctx, importerRules())
		updateSecret(ctx, secret, func(secret *corev1.Secret) { secret.Data["token"] = []byte(account) })
		expectImported(ctx, name)
		Expect(preflight(name)(ctx)).To(HaveField("Message", ContainSubstring("its token expires at ")))
	})

	// The last one: it starts a component of its own.
	It("is known again after a restart, without a request to the cluster", func(ctx SpecContext) {
		name := newName("expiring")
		end := time.Now().Truncate(time.Second).Add(time.Hour)
		importNow(ctx, name, spoke)
		secret := kubeconfigSecret(name, nil)
		server := newFakeServer(answerStatus(503))
		cert, key, err := spoke.IssueClientCert("expiring", nil, end.Add(-2*time.Hour), end)
		Expect(err).NotTo(HaveOccurred())
		updateSecret(ctx, secret, setKubeconfig(harness.CertKubeconfig(server.server.URL, server.ca(), cert, key)))
		joinCluster(ctx, name)
		before := server.requests.Load()
		c.Kill()
		c = startController(ctx)
		Eventually(expiryMetric(name)).WithContext(ctx).Should(BeEquivalentTo(end.Unix()))
		Expect(server.requests.Load()).To(Equal(before))
	})
})
