// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

// fullListener is a port whose queue of connections is full: a further one is neither accepted nor refused.
func fullListener() string {
	GinkgoHelper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(syscall.Close, fd)
	Expect(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})).To(Succeed())
	Expect(syscall.Listen(fd, 0)).To(Succeed())
	name, err := syscall.Getsockname(fd)
	Expect(err).NotTo(HaveOccurred())
	bound, ok := name.(*syscall.SockaddrInet4)
	Expect(ok).To(BeTrue())
	address := fmt.Sprintf("127.0.0.1:%d", bound.Port)
	Eventually(func() error {
		conn, err := (&net.Dialer{Timeout: 500 * time.Millisecond}).DialContext(context.Background(), "tcp", address)
		if err == nil {
			DeferCleanup(conn.Close)
		}
		return err
	}).Should(HaveOccurred())
	return address
}

// bootstrapKubeconfig is the kubeconfig of the hub that an import left on the cluster.
func (s *spokeCluster) bootstrapKubeconfig(ctx context.Context) clientcmdapiv1.Config {
	GinkgoHelper()
	secret, err := s.kube.CoreV1().Secrets(agentNamespace).Get(ctx, bootstrapSecret, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	var config clientcmdapiv1.Config
	Expect(yaml.Unmarshal(secret.Data["kubeconfig"], &config)).To(Succeed())
	return config
}

// tokenSubject is whom a token of a ServiceAccount is for.
func tokenSubject(token string) string {
	GinkgoHelper()
	parts := strings.Split(token, ".")
	Expect(parts).To(HaveLen(3))
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	Expect(err).NotTo(HaveOccurred())
	var claims struct {
		Subject string `json:"sub"`
	}
	Expect(json.Unmarshal(payload, &claims)).To(Succeed())
	return claims.Subject
}

var _ = Describe("Options", func() {
	var spoke *spokeCluster

	BeforeEach(func(ctx SpecContext) {
		spoke = spokes[0]
		spoke.clean(ctx)
	})
	create := func(ctx context.Context, kubeconfig []byte) (string, *corev1.Secret) {
		GinkgoHelper()
		name := newName("option")
		secret := kubeconfigSecret(name, kubeconfig)
		createSecret(ctx, secret)
		createCluster(ctx, name)
		return name, secret
	}

	Context("that bound time", func() {
		// long is a bound that no spec reaches.
		const long = "9m"
		// bounds are all flags; the last of a name counts.
		bounds := []string{
			"--leader-elect=false", "--spoke-dial-timeout=" + long, "--spoke-tls-timeout=" + long, "--spoke-header-timeout=" + long,
			"--spoke-request-timeout=" + long, "--spoke-import-timeout=" + long,
		}
		DescribeTable("end an attempt", func(ctx SpecContext, flag string, server func(ctx context.Context) []byte, text string) {
			const bound = 1500 * time.Millisecond
			launch(ctx, component.Options{Args: append(slices.Clone(bounds), flag+"="+bound.String())})
			kubeconfig := server(ctx)
			started := time.Now()
			name, secret := create(ctx, kubeconfig)
			if text == "" {
				Eventually(condition(name)).WithContext(ctx).Should(beCondition(metav1.ConditionFalse, reasonImportFailed,
					"failed to import the klusterlet. See errors:\nmanaged cluster: ServerFailed: the cluster's API server does not answer within the bounds: "+
						"the requests of this import took too long together; "+nextServerFailed))
			} else {
				Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, text))
			}
			Expect(time.Since(started)).To(BeNumerically(">=", bound))
		},
			Entry("without a connection", "--spoke-dial-timeout", func(context.Context) []byte {
				return harness.TokenKubeconfig("https://"+fullListener(), hub.CAData(), sentinel)
			}, "Unreachable: no connection within the dial timeout; "+nextUnreachable),
			Entry("without a handshake", "--spoke-tls-timeout", func(ctx context.Context) []byte {
				return harness.TokenKubeconfig("https://"+listenTCP(ctx), hub.CAData(), sentinel)
			}, "Unreachable: the connection is accepted, the TLS handshake does not finish within its timeout; "+nextUnreachable),
			Entry("without an answer", "--spoke-header-timeout", func(context.Context) []byte {
				var f *fakeServer
				f = newFakeServer(func(_ http.ResponseWriter, r *http.Request) { f.hang(r) })
				return f.kubeconfig()
			}, "Unreachable: the connection is accepted, no answer comes within the timeout; "+nextUnreachable),
			Entry("without the end of an answer", "--spoke-request-timeout", func(context.Context) []byte {
				var f *fakeServer
				f = newFakeServer(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "{")
					Expect(http.NewResponseController(w).Flush()).To(Succeed())
					f.hang(r)
				})
				return f.kubeconfig()
			}, "Unreachable: the connection is accepted, no answer comes within the timeout; "+nextUnreachable),
			Entry("of slow answers", "--spoke-import-timeout", func(context.Context) []byte {
				// It has no object and creates each that it is sent.
				return newFakeServer(afterPreflight(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					timer := time.NewTimer(400 * time.Millisecond)
					defer timer.Stop()
					select {
					case <-timer.C:
					case <-r.Context().Done():
					}
					if r.Method == http.MethodGet {
						respond(w, http.StatusNotFound, notFoundStatus)
						return
					}
					respond(w, http.StatusCreated, string(body))
				})).kubeconfig()
			}, ""),
		)
	})

	It("--spoke-max-response-bytes bounds an answer", func(ctx SpecContext) {
		const size = 4096
		server := newFakeServer(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == preflightPath {
				respond(w, http.StatusCreated, mayAnything+strings.Repeat(" ", size))
				return
			}
			respond(w, http.StatusForbidden, "{}")
		})
		c := startController(ctx, fmt.Sprintf("--spoke-max-response-bytes=%d", size))
		name, secret := create(ctx, server.kubeconfig())
		Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, tooLarge))
		c.Kill()
		startController(ctx, fmt.Sprintf("--spoke-max-response-bytes=%d", 2*size))
		Eventually(condition(name)).WithContext(ctx).Should(HaveField("Message", ContainSubstring("Forbidden")))
	})

	It("--spoke-api-qps and --spoke-api-burst slow an import down", func(ctx SpecContext) {
		startController(ctx, "--spoke-api-qps=4", "--spoke-api-burst=1")
		started := time.Now()
		name, _ := create(ctx, spoke.Kubeconfig())
		expectImported(ctx, name)
		// One client alone makes a dozen requests, of which the first waits for none.
		Expect(time.Since(started)).To(BeNumerically(">", 2*time.Second))
	})

	It("--import-workers bounds the imports at the same time", func(ctx SpecContext) {
		startController(ctx, "--import-workers=1", "--spoke-tls-timeout=3s")
		accepted := make(chan struct{})
		hung, _ := create(ctx, harness.TokenKubeconfig("https://"+listenTCPFunc(ctx, func() { close(accepted) }), hub.CAData(), sentinel))
		Eventually(accepted).WithContext(ctx).Should(BeClosed())
		healthy, _ := create(ctx, spoke.Kubeconfig())
		Eventually(condition(hung)).WithContext(ctx).ShouldNot(BeNil())
		expectImported(ctx, healthy)
		first, second := condition(hung), condition(healthy)
		hungCondition, err := first(ctx)
		Expect(err).NotTo(HaveOccurred())
		healthyCondition, err := second(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(healthyCondition.LastTransitionTime.Before(&hungCondition.LastTransitionTime)).To(BeFalse())
	})

	It("--insecure-allow-skip-tls-verify accepts what it says", func(ctx SpecContext) {
		startController(ctx, "--insecure-allow-skip-tls-verify")
		certificate, key, err := spoke.IssueClientCert("insecure", []string{"system:masters"}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		Expect(err).NotTo(HaveOccurred())
		name, _ := create(ctx, editKubeconfig(spoke.URL(), nil, func(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			cluster.InsecureSkipTLSVerify = true
			user.Token, user.ClientCertificateData, user.ClientKeyData = "", certificate, key
		}))
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)
	})

	Context("of the klusterlet", func() {
		It("come from cluster-import-config where it is, and from the hub where not", func(ctx SpecContext) {
			startController(ctx)
			name := newName("option")
			importConfig(ctx, name, `
klusterlet:
  registrationConfiguration:
    clientCertExpirationSeconds: 86400
images:
  overrides:
    operatorImage: registry.example.com/operator:mine
`)
			importNow(ctx, name, spoke)
			Expect(spoke.klusterlet(ctx).Spec.RegistrationConfiguration.ClientCertExpirationSeconds).To(BeEquivalentTo(86400))
			Expect(spoke.operatorImage(ctx)).To(Equal("registry.example.com/operator:mine"))

			spoke.clean(ctx)
			importNow(ctx, newName("option"), spoke)
			Expect(spoke.operatorImage(ctx)).To(ContainSubstring("/open-cluster-management/registration-operator:"))
			Expect(spoke.klusterlet(ctx).Spec.RegistrationConfiguration).To(Or(BeNil(), HaveField("ClientCertExpirationSeconds", BeZero())))
		})

		It("--import-renderers=render-from-config-secret needs the Secret", func(ctx SpecContext) {
			startController(ctx, "--import-renderers=render-from-config-secret")
			name, _ := create(ctx, spoke.Kubeconfig())
			Eventually(condition(name)).WithContext(ctx).Should(beCondition(metav1.ConditionFalse, reasonRenderFailed,
				"failed to render config. See errors:\n"+`secrets "cluster-import-config" not found`))
			secret := importConfig(ctx, name, "")
			Eventually(condition(name)).WithContext(ctx).Should(beCondition(metav1.ConditionFalse, reasonRenderFailed,
				"failed to render config. See errors:\nno values found in secret cluster-import-config/values.yaml in namespace "+name))
			updateSecret(ctx, secret, func(secret *corev1.Secret) {
				secret.Data["values.yaml"] = []byte("bootstrapHubKubeConfig: mine " + hub.URL())
			})
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
			bootstrap, err := spoke.kube.CoreV1().Secrets(agentNamespace).Get(ctx, bootstrapSecret, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(string(bootstrap.Data["kubeconfig"])).To(Equal("mine " + hub.URL()))
		})

		It("--import-renderers=render-auto does not look at the Secret", func(ctx SpecContext) {
			startController(ctx, "--import-renderers=render-auto")
			name := newName("option")
			importConfig(ctx, name, "images: {overrides: {operatorImage: registry.example.com/operator:mine}}")
			importNow(ctx, name, spoke)
			Expect(spoke.operatorImage(ctx)).To(ContainSubstring("/open-cluster-management/"))
		})

		It("--agent-image, --hub-apiserver-url and the hub's pull Secret go to the cluster", func(ctx SpecContext) {
			const pullSecret = "open-cluster-management-image-pull-credentials"
			createSecret(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: component.Namespace, Name: pullSecret},
				Type:       corev1.SecretTypeDockerConfigJson,
				Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
			})
			url := strings.Replace(hub.URL(), "127.0.0.1", "localhost", 1)
			startController(ctx, "--agent-image=registry.example.com/agent:1", "--hub-apiserver-url="+url)
			name, _ := create(ctx, spoke.Kubeconfig())
			expectImported(ctx, name)
			Expect(spoke.operatorImage(ctx)).To(Equal("registry.example.com/agent:1"))
			Expect(spoke.bootstrapKubeconfig(ctx).Clusters[0].Cluster.Server).To(Equal(url))
			secret, err := spoke.kube.CoreV1().Secrets(agentNamespace).Get(ctx, pullSecret, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(secret.Data).To(HaveKeyWithValue(corev1.DockerConfigJsonKey, []byte(`{"auths":{}}`)))
		})

		It("--bootstrap-serviceaccount is whose token the klusterlet gets, which must be allowed", func(ctx SpecContext) {
			const account = "my-bootstrap"
			_, err := hubKube.CoreV1().ServiceAccounts(ocmhub.OperatorNamespace).Create(ctx,
				&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			startController(ctx, "--bootstrap-serviceaccount="+ocmhub.OperatorNamespace+"/"+account)
			name, _ := create(ctx, spoke.Kubeconfig())
			Eventually(condition(name)).WithContext(ctx).Should(And(HaveField("Reason", reasonRenderFailed),
				HaveField("Message", HavePrefix("failed to render config. See errors:\nfailed to get token from sa "+
					ocmhub.OperatorNamespace+"/"+account+": serviceaccounts "+fmt.Sprintf("%q is forbidden", account)))))

			rule := roleRule{ocmhub.OperatorNamespace, importerRoleName, 0}
			before := rule.setRules(ctx, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
				changed := *rules[0].DeepCopy()
				changed.ResourceNames = append(changed.ResourceNames, account)
				return []rbacv1.PolicyRule{changed}
			})
			DeferCleanup(func(ctx SpecContext) {
				rule.setRules(ctx, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return before })
			})
			expectImported(ctx, name)
			Expect(tokenSubject(spoke.bootstrapKubeconfig(ctx).AuthInfos[0].AuthInfo.Token)).
				To(Equal("system:serviceaccount:" + ocmhub.OperatorNamespace + ":" + account))
		})

		It("name the default ServiceAccount and the hub's own address by default", func(ctx SpecContext) {
			startController(ctx)
			name, _ := create(ctx, spoke.Kubeconfig())
			expectImported(ctx, name)
			config := spoke.bootstrapKubeconfig(ctx)
			Expect(config.Clusters[0].Cluster.Server).To(Equal(hub.URL()))
			Expect(config.Clusters[0].Cluster.CertificateAuthorityData).To(Equal(hub.CAData()))
			Expect(tokenSubject(config.AuthInfos[0].AuthInfo.Token)).
				To(Equal("system:serviceaccount:" + ocmhub.OperatorNamespace + ":" + ocmhub.BootstrapServiceAccount))
		})
	})

	DescribeTable("with a wrong value end the component at once", func(ctx SpecContext, flag, message string) {
		logFile := workDir + "/" + newName("wrong") + ".log"
		_, err := component.Start(ctx, component.Options{
			BinDir: workDir, Kubeconfig: controllerKubeconfig, Args: []string{flag}, LogFile: logFile,
		})
		Expect(err).To(MatchError(ContainSubstring("exited with code 1")))
		// The log quotes the error.
		Expect(strings.ReplaceAll((&controller{logFile: logFile}).log(), `\"`, `"`)).To(ContainSubstring(message))
	},
		Entry(nil, "--providers=gce", `--providers: "gce" is not one of kubeconfig, capi`),
		Entry(nil, "--providers=capi,capi", `--providers: "capi" stands twice`),
		Entry(nil, "--providers=", "--providers: name at least one of kubeconfig, capi"),
		Entry(nil, "--import-workers=0", "--import-workers: must be from 1 to 1024, not 0"),
		Entry(nil, "--import-namespaces=Not_A_Name", `--import-namespaces: "Not_A_Name" is not the name of a namespace`),
		Entry(nil, "--import-namespaces=one,one", `--import-namespaces: "one" stands twice`),
		Entry(nil, "--spoke-dial-timeout=0", "--spoke-dial-timeout: must be above 0"),
		Entry(nil, "--spoke-import-timeout=11m", "--spoke-import-timeout: must be above 0 and at most 10m0s, not 11m0s"),
		Entry(nil, "--spoke-max-response-bytes=-1", "--spoke-max-response-bytes: must be above 0, not -1"),
		Entry(nil, "--spoke-api-qps=0", "--spoke-api-qps: must be above 0, not 0"),
		Entry(nil, "--import-renderers=render-nothing", `--import-renderers: "render-nothing" is not one of render-auto`),
		Entry(nil, "--bootstrap-serviceaccount=alone", `--bootstrap-serviceaccount: "alone" is not namespace/name`),
		Entry(nil, "--v=8", "--v: must be below 8"),
		Entry(nil, "--leader-elect-lease-duration=1s", "the lease duration must be above the renew deadline"),
	)

	It("of the probes and metrics say where they answer", func(ctx SpecContext) {
		c := launch(ctx, component.Options{})
		for path, body := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": "go_goroutines"} {
			status, text := c.get(ctx, path)
			Expect(status).To(Equal(http.StatusOK), path)
			Expect(text).To(ContainSubstring(body), path)
		}
		Expect(c.Stop()).To(BeTrue())
		Expect(c.ExitCode()).To(BeZero())
	})
})

// operatorImage is the image of the klusterlet operator.
func (s *spokeCluster) operatorImage(ctx context.Context) string {
	GinkgoHelper()
	deployment, err := s.kube.AppsV1().Deployments(agentNamespace).Get(ctx, klusterletName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return deployment.Spec.Template.Spec.Containers[0].Image
}
