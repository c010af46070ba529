// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/harness"
)

const (
	nextUnreachable  = "check that the server of the kubeconfig, and its proxy-url if it has one, is right and reachable from the hub"
	nextTLS          = "put the CA that signs the API server's certificate into the Secret, or renew that certificate if it is not valid now"
	nextTLSName      = "use a server name that the certificate is for, or set tls-server-name in the kubeconfig"
	nextGrant        = "grant it the ClusterRole in manifests/managed-cluster"
	nextExpired      = "put a valid credential into the Secret"
	nextUnauthorized = "put a valid credential into the Secret, or give its identity access to the cluster"
)

// grant gives a user of the cluster cluster-wide permissions until the spec, or the container, ends, or the result is
// called.
func (s *spokeCluster) grant(ctx context.Context, user string, rules ...rbacv1.PolicyRule) (revoke func(ctx context.Context)) {
	GinkgoHelper()
	name := "grant-" + newName(user)
	_, err := s.kube.RbacV1().ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	revoke = func(ctx context.Context) {
		GinkgoHelper()
		for _, err := range []error{
			s.kube.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}),
			s.kube.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}),
		} {
			if !apierrors.IsNotFound(err) {
				Expect(err).NotTo(HaveOccurred())
			}
		}
	}
	DeferCleanup(func(ctx SpecContext) { revoke(ctx) })
	return revoke
}

// grantAll corrects an import without a change of its Secret, and does not wait for the retry.
func grantAll(ctx context.Context, user string, secret *corev1.Secret) {
	GinkgoHelper()
	spokes[0].grant(ctx, user, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	annotateCluster(ctx, secret.Name, kubeconfig.AnnotationImmediateImport, "")
}

// fake starts a server of which nothing but the handshake matters.
func fake(certificate *tls.Certificate) *fakeServer {
	return newFakeServerWithCertificate(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusNotFound, notFoundStatus)
	}, certificate)
}

// lacking is the text for a credential that lacks the same verbs of all that an import creates.
func lacking(verbs, klusterletVerbs string) string {
	return "Forbidden: the credential may not " +
		verbs + " clusterrolebindings.rbac.authorization.k8s.io; " + verbs + " clusterroles.rbac.authorization.k8s.io; " +
		verbs + " customresourcedefinitions.apiextensions.k8s.io; " + verbs + " deployments.apps; " +
		klusterletVerbs + " klusterlets.operator.open-cluster-management.io; " +
		verbs + " namespaces; " + verbs + " secrets; " + verbs + " serviceaccounts; " + nextGrant
}

var _ = Describe("Faults", func() {
	now := time.Now()
	token := func(server string, ca []byte) []byte { return harness.TokenKubeconfig(server, ca, sentinel) }

	describeFailures("of the connection and the credential", nil,
		failureCase{
			name:   "another CA",
			secret: withKubeconfig(func(context.Context) []byte { return token(spokes[0].URL(), hub.CAData()) }),
			text:   "TLSUntrusted: the serving certificate is not signed by the CA of the credential or, without one, by a public authority; " + nextTLS,
		},
		failureCase{
			name: "a serving certificate for another name",
			secret: withServer(func() *fakeServer {
				return fake(servingCertificate("other.example.com", now.Add(-time.Hour), now.Add(time.Hour)))
			}),
			text: "TLSNameMismatch: the serving certificate is for other names than the server of the credential; " + nextTLSName,
		},
		failureCase{
			name: "a tls-server-name that is not in the certificate",
			secret: withKubeconfig(func(context.Context) []byte {
				return editKubeconfig(spokes[0].URL(), spokes[0].CAData(),
					func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
						cluster.TLSServerName = "other.example.com"
					})
			}),
			text: "TLSNameMismatch: the serving certificate is for other names than the server of the credential; " + nextTLSName,
		},
		failureCase{
			name: "an expired serving certificate",
			secret: withServer(func() *fakeServer {
				return fake(servingCertificate("127.0.0.1", now.Add(-2*time.Hour), now.Add(-time.Hour)))
			}),
			text: "TLSUntrusted: the serving certificate is expired or not yet valid; " + nextTLS,
		},
		failureCase{
			name: "an expired client certificate",
			secret: withKubeconfig(func(context.Context) []byte {
				return spokes[0].certKubeconfig("expired", now.Add(-2*time.Hour), now.Add(-time.Hour))
			}),
			text: "CredentialExpired: the client certificate is expired; " + nextExpired,
		},
		failureCase{
			name: "a client certificate that is not yet valid",
			secret: withKubeconfig(func(context.Context) []byte {
				return spokes[0].certKubeconfig("early", now.Add(time.Hour), now.Add(2*time.Hour))
			}),
			text: "CredentialNotYetValid: the client certificate is not yet valid; " + nextExpired + ", or compare the clocks",
		},
		failureCase{
			name:   "a token that the cluster does not know",
			secret: withKubeconfig(func(context.Context) []byte { return token(spokes[0].URL(), spokes[0].CAData()) }),
			text:   "Unauthorized: the cluster's API server does not accept the credential; " + nextUnauthorized,
		},
		failureCase{
			name:   "a user without permissions",
			secret: withKubeconfig(func(context.Context) []byte { return spokes[0].userKubeconfig("nobody") }),
			text:   lacking("create, get", "create, get, patch"),
			fix:    func(ctx context.Context, secret *corev1.Secret) { grantAll(ctx, "nobody", secret) },
		},
		failureCase{
			name: "a user that may only read",
			secret: withKubeconfig(func(ctx context.Context) []byte {
				spokes[0].grant(ctx, "reader", rbacv1.PolicyRule{
					APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"},
				})
				return spokes[0].userKubeconfig("reader")
			}),
			text: lacking("create", "create, patch"),
			fix:  func(ctx context.Context, secret *corev1.Secret) { grantAll(ctx, "reader", secret) },
		},
		failureCase{
			name: "a name that does not resolve",
			secret: withKubeconfig(func(context.Context) []byte {
				return token("https://host.invalid:6443", spokes[0].CAData())
			}),
			text: "NameNotResolved: the name of the cluster's API server does not resolve; " +
				"correct the server of the kubeconfig, or make its name resolvable from the hub",
		},
		failureCase{
			name: "a port where nothing listens",
			secret: withKubeconfig(func(_ context.Context) []byte {
				return token("https://"+closedPort(), spokes[0].CAData())
			}),
			text: "Unreachable: the connection is refused; " + nextUnreachable,
		},
		failureCase{
			name: "a server that accepts and says nothing",
			secret: withKubeconfig(func(ctx context.Context) []byte {
				return token("https://"+listenTCP(ctx), spokes[0].CAData())
			}),
			text: "Unreachable: the connection is accepted, the TLS handshake does not finish within its timeout; " + nextUnreachable,
		},
		failureCase{
			name: "a server that shakes hands and says nothing",
			secret: withServer(func() *fakeServer {
				var f *fakeServer
				f = newFakeServer(func(_ http.ResponseWriter, r *http.Request) { f.hang(r) })
				return f
			}),
			text: "Unreachable: the connection is accepted, no answer comes within the timeout; " + nextUnreachable,
		},
		failureCase{
			name: "a server that says nothing after its first answer",
			secret: withServer(func() *fakeServer {
				var f *fakeServer
				f = newFakeServer(afterPreflight(func(_ http.ResponseWriter, r *http.Request) { f.hang(r) }))
				return f
			}),
			importFailed: "Unreachable: the connection is accepted, no answer comes within the timeout; " + nextUnreachable,
		},
		failureCase{
			name: "a server that does not speak TLS",
			secret: withKubeconfig(func(context.Context) []byte {
				return token("https://"+plainServer().Listener.Addr().String(), spokes[0].CAData())
			}),
			text: "TLSFailed: the server does not speak TLS; " +
				"check that the server of the kubeconfig is a Kubernetes API server that accepts this client",
		},
		failureCase{
			name: "a server that closes the connection instead of an answer",
			secret: withServer(func() *fakeServer {
				return newFakeServer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			}),
			text: "Unreachable: the connection is closed before the answer; " + nextUnreachable,
		},
		failureCase{
			name: "a TLS server that wants another client certificate",
			secret: withServer(func() *fakeServer {
				f := newFakeServerWithTLS(func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, "{}") },
					&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}) //nolint:gosec // in TLS 1.3 the refusal comes after the handshake.
				return f
			}),
			text: "TLSFailed: the server refuses the TLS handshake; " +
				"check that the server of the kubeconfig is a Kubernetes API server that accepts this client",
		},
	)
})
