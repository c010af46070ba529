// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/cloud/gcp"
	"open-cluster-management.io/import-provider/test/component"
)

// startTrusting starts the component with some CAs in the place of the public authorities.
func startTrusting(ctx context.Context, file string, cas ...[]byte) *controller {
	GinkgoHelper()
	return launch(ctx, component.Options{Args: quick, Env: []string{"SSL_CERT_FILE=" + writeFile(file, slices.Concat(cas...))}})
}

// withoutCA is a kubeconfig of an administrator of the cluster that leaves out who signs the serving certificate.
func (s *spokeCluster) withoutCA() []byte {
	GinkgoHelper()
	admin := s.Config()
	return editKubeconfig(s.URL(), nil, func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		user.Token, user.ClientCertificateData, user.ClientKeyData = "", admin.CertData, admin.KeyData
	})
}

// kubetokenSecret is a Secret with what one of the type auto-import/kubetoken has.
func (s *spokeCluster) kubetokenSecret(ctx context.Context, name string) *corev1.Secret {
	GinkgoHelper()
	token, _ := s.importerToken(ctx, []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}})
	secret := tokenSecret(name, s, token)
	delete(secret.Data, "ca.crt")
	return secret
}

var _ = Describe("A Secret without a CA", func() {
	// What both specs are about, by the name of the entry.
	secrets := map[string]func(ctx context.Context, name string) *corev1.Secret{
		"a kubeconfig": func(_ context.Context, name string) *corev1.Secret {
			return kubeconfigSecret(name, spokes[0].withoutCA())
		},
		"server and token": func(ctx context.Context, name string) *corev1.Secret {
			return spokes[0].kubetokenSecret(ctx, name)
		},
	}

	Context("of a cluster with a certificate of a public authority", Ordered, ContinueOnFailure, func() {
		var c *controller
		BeforeAll(func(ctx SpecContext) { c = startTrusting(ctx, "public-ca.pem", hub.CAData(), spokes[0].CAData()) })

		DescribeTable("imports it:", func(ctx SpecContext, kind string) {
			spokes[0].clean(ctx)
			name := newName("public")
			secret := secrets[kind](ctx, name)
			createSecret(ctx, secret)
			createCluster(ctx, name)
			expectImported(ctx, name)
			spokes[0].expectKlusterlet(ctx, name)
			expectNoLeak(ctx, c, secretValues(secret)...)
		},
			Entry(nil, "a kubeconfig"),
			Entry(nil, "server and token"),
		)

		It("a CA that is there counts alone", func(ctx SpecContext) {
			name := newName("public")
			secret := kubeconfigSecret(name, editKubeconfig(spokes[0].URL(), hub.CAData(), func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {}))
			createSecret(ctx, secret)
			createCluster(ctx, name)
			Eventually(ourCondition(name, kubeconfig.ConditionPreflightPassed)).WithContext(ctx).Should(HaveField("Reason", "TLSUntrusted"))
		})
	})

	Context("of a cluster with a certificate of its own", Ordered, ContinueOnFailure, func() {
		var c *controller
		// It reaches the hub by a CA of its kubeconfig, which clusters have no part in.
		BeforeAll(func(ctx SpecContext) { c = startTrusting(ctx, "another-ca.pem", spokes[1].CAData()) })

		DescribeTable("is asked for it:", func(ctx SpecContext, kind string) {
			spokes[0].clean(ctx)
			name := newName("private")
			secret := secrets[kind](ctx, name)
			createSecret(ctx, secret)
			createCluster(ctx, name)
			expectPreflightFailed(ctx, c, name, secret,
				"TLSUntrusted: the serving certificate is not signed by the CA of the credential or, without one, by a public authority; "+nextTLS, "")
			expectNoLeak(ctx, c, secretValues(secret)...)

			updateSecret(ctx, secret, func(secret *corev1.Secret) {
				if _, found := secret.Data["kubeconfig"]; found {
					secret.Data["kubeconfig"] = spokes[0].Kubeconfig()
				} else {
					secret.Data["ca.crt"] = spokes[0].CAData()
				}
			})
			expectImported(ctx, name)
			spokes[0].expectKlusterlet(ctx, name)
		},
			Entry(nil, "a kubeconfig"),
			Entry(nil, "server and token"),
		)
	})
})

// secretValues are what must not be shown.
func secretValues(secret *corev1.Secret) []string {
	var values []string
	for _, key := range []string{"token", "kubeconfig"} {
		if value := strings.TrimSpace(string(secret.Data[key])); value != "" {
			values = append(values, value)
		}
	}
	return values
}

// The DNS endpoint of a cluster of Google Cloud is a name of Google's with a public certificate; here it is the name of this machine.
var _ = Describe("A cluster of Google Cloud with a DNS endpoint alone", Ordered, ContinueOnFailure, func() {
	const args = "--impersonate_service_account=" + cloudAccount
	var (
		c     *controller
		cloud *gcp.Cloud
		dns   string
	)

	BeforeAll(func(ctx SpecContext) {
		var policy string
		var env []string
		cloud, policy, env = startCloud(ctx, spokes[0])
		cluster := cloud.Clusters[cloudResource]
		dns = strings.Replace(cluster.Endpoint, "127.0.0.1", "localhost", 1)
		cluster.IPClosed, cluster.DNSOpen, cluster.DNSEndpoint = true, true, dns
		cloud.Clusters[cloudResource] = cluster
		trusted := writeFile("dns-endpoint-ca.pem", slices.Concat(cloud.CA(), spokes[0].CAData()))
		c = launch(ctx, component.Options{Args: quick, Policy: profilePolicy(policy), Env: append(env, "SSL_CERT_FILE="+trusted)})
	})

	DescribeTable("is imported by", func(ctx SpecContext, data func() map[string][]byte) {
		spokes[0].clean(ctx)
		name := newName("dns")
		createSecret(ctx, importSecret(name, data()))
		createCluster(ctx, name)
		expectImported(ctx, name)
		spokes[0].expectKlusterlet(ctx, name)
		expectNoLeak(ctx, c, cloud.Issue(cloudAccount))
	},
		Entry("the kubeconfig that gcloud wrote", func() map[string][]byte {
			return map[string][]byte{"kubeconfig": gcloudKubeconfig("https://"+dns, nil, args)}
		}),
		Entry("its name", func() map[string][]byte {
			return map[string][]byte{credential.DocumentKey: []byte(
				"gke: {project: team-a-1234, location: europe-west1, cluster: production, serviceAccount: " + cloudAccount + "}")}
		}),
	)

	DescribeTable("is refused with", func(ctx SpecContext, server func(elsewhere string) string, ca func() []byte, text string) {
		connected := atomic.Bool{}
		elsewhere := "https://" + listenTCPFunc(ctx, func() { connected.Store(true) })
		name := newName("dns")
		createSecret(ctx, kubeconfigSecret(name, gcloudKubeconfig(server(elsewhere), ca(), args)))
		createCluster(ctx, name)
		Eventually(ourCondition(name, kubeconfig.ConditionPreflightPassed)).WithContext(ctx).Should(And(
			HaveField("Reason", "PolicyDenied"), HaveField("Message", ContainSubstring(text))))
		Expect(connected.Load()).To(BeFalse(), "somebody else was connected to")
		expectNoLeak(ctx, c, cloud.Issue(cloudAccount))
	},
		Entry("a CA in the kubeconfig", func(string) string { return "https://" + dns }, func() []byte { return spokes[0].CAData() },
			"the server or the CA is not that of the cluster"),
		Entry("another server", func(elsewhere string) string { return elsewhere }, func() []byte { return nil }, "no CA is given"),
		Entry("its IP endpoint and no CA", func(string) string { return spokes[0].URL() }, func() []byte { return nil }, "no CA is given"),
	)
})
