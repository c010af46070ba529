// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

const (
	resolverText    = ": credential resolver kubeconfig: "
	invalid         = "CredentialInvalid" + resolverText
	invalidFile     = "KubeconfigInvalid" + resolverText + "data key kubeconfig: "
	forbiddenField  = "FieldForbidden" + resolverText + "data key kubeconfig: "
	deniedField     = "PolicyDenied" + resolverText + "data key kubeconfig: "
	ambiguousNotice = "2 Secrets are for ManagedCluster {cluster}, none is used; keep one of them and delete the others " +
		"or remove their annotation import.open-cluster-management.io/managed-cluster"
	misplacedNotice = "annotation import.open-cluster-management.io/managed-cluster names another cluster than {cluster}, " +
		"whose namespace this is; set it to {cluster}"
	defaultEntry = ` of entry "default"`
)

// twoContexts is a kubeconfig with the contexts works and broken, of which none is the current one.
func twoContexts(spoke *spokeCluster) []byte {
	GinkgoHelper()
	config := clientcmdapi.NewConfig()
	works := spoke.Config()
	config.Clusters["spoke"] = &clientcmdapi.Cluster{Server: works.Host, CertificateAuthorityData: works.CAData}
	config.AuthInfos["works"] = &clientcmdapi.AuthInfo{ClientCertificateData: works.CertData, ClientKeyData: works.KeyData}
	config.AuthInfos["broken"] = &clientcmdapi.AuthInfo{Token: sentinel}
	for _, name := range []string{"works", "broken"} {
		config.Contexts[name] = &clientcmdapi.Context{Cluster: "spoke", AuthInfo: name}
	}
	data, err := clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return data
}

// withAnnotation is a case's Secret with a kubeconfig and one more annotation.
func withAnnotation(key, value string, build func() []byte) func(context.Context, string) *corev1.Secret {
	return func(_ context.Context, cluster string) *corev1.Secret {
		secret := kubeconfigSecret(cluster, build())
		secret.Annotations[key] = value
		return secret
	}
}

func spokeKubeconfig() []byte { return spokes[0].Kubeconfig() }

// refusedField is a case of a kubeconfig with a field that is not accepted.
func refusedField(field, next string, edit func(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo)) failureCase {
	return failureCase{
		name: "a kubeconfig with " + field,
		secret: withKubeconfig(func(context.Context) []byte {
			return editKubeconfig(spokes[0].URL(), spokes[0].CAData(), edit)
		}),
		text: forbiddenField + field + defaultEntry + " is not accepted: " + next,
	}
}

// deniedByPolicy is a case of a field that an option of the administrator would accept.
func deniedByPolicy(c failureCase) failureCase {
	c.text = strings.Replace(c.text, forbiddenField, deniedField, 1)
	return c
}

var _ = Describe("Bad input", func() {
	const (
		inline = "kubectl config view --raw --flatten --minify writes a file with everything inline"
		pair   = "use token, or client-certificate-data and client-key-data"
		ownID  = "give the credentials of the identity itself"
	)
	describeFailures("in a Secret", nil,
		failureCase{
			name:   "no data",
			secret: func(_ context.Context, cluster string) *corev1.Secret { return importSecret(cluster, nil) },
			text: invalid + "no kubeconfig: put it under one of the data keys kubeconfig, value, value.yaml, config, admin.conf, " +
				"or name its key with the annotation import.open-cluster-management.io/kubeconfig-key",
		},
		failureCase{
			name:   "an empty kubeconfig",
			secret: withKubeconfig(func(context.Context) []byte { return nil }),
			text:   invalidFile + "kubeconfig is missing: the file is empty",
		},
		failureCase{
			name: "a kubeconfig cut before its users",
			secret: withKubeconfig(func(context.Context) []byte {
				before, _, found := bytes.Cut(spokeKubeconfig(), []byte("users:"))
				Expect(found).To(BeTrue())
				return before
			}),
			text: invalidFile + "contexts[].context.user" + defaultEntry + " names an entry that does not exist: name an entry of the file",
		},
		failureCase{
			name: "a kubeconfig cut in a value",
			secret: withKubeconfig(func(context.Context) []byte {
				data := spokeKubeconfig()
				return data[:bytes.Index(data, []byte("certificate-authority-data: "))+40]
			}),
			text: invalidFile + "clusters[].name of entry #1 is missing: give the entry a name",
		},
		failureCase{
			name:   "a kubeconfig that is not YAML",
			secret: withKubeconfig(func(context.Context) []byte { return []byte("\x7fELF{{{" + sentinel) }),
			text:   invalidFile + "kubeconfig is not valid: it must be one YAML or JSON document",
		},
		failureCase{
			name:   "a kubeconfig that is one word",
			secret: withKubeconfig(func(context.Context) []byte { return []byte(sentinel) }),
			text:   invalidFile + "kubeconfig is not valid: it must be a mapping with clusters, users and contexts",
		},
		failureCase{
			// A Secret holds 1 MiB at most; what is larger is below.
			name: "a list of 1 MiB",
			secret: withKubeconfig(func(context.Context) []byte {
				return []byte("[" + strings.Repeat(",", corev1.MaxSecretSize-1))
			}),
			text: invalidFile + "kubeconfig is too large: it has too many keys and list items; " + inline,
		},
		failureCase{
			name:   "two contexts and no current one",
			secret: withKubeconfig(func(context.Context) []byte { return twoContexts(spokes[0]) }),
			text: invalidFile + "current-context is ambiguous: the file has several contexts; set it to one of them, " +
				"or set the annotation import.open-cluster-management.io/kubeconfig-context",
			fix: func(ctx context.Context, secret *corev1.Secret) {
				updateSecret(ctx, secret, func(secret *corev1.Secret) {
					secret.Annotations[credential.AnnotationKubeconfigContext] = "works"
				})
			},
		},
		failureCase{
			name:   "a context that does not exist, by annotation",
			secret: withAnnotation(credential.AnnotationKubeconfigContext, sentinel, spokeKubeconfig),
			text: invalidFile + "context names an entry that does not exist: " +
				"set the annotation import.open-cluster-management.io/kubeconfig-context to a context of the file",
		},
		failureCase{
			name:   "a data key that does not exist, by annotation",
			secret: withAnnotation(credential.AnnotationKubeconfigKey, sentinel, spokeKubeconfig),
			text: invalid + "the annotation import.open-cluster-management.io/kubeconfig-key names a data key that the secret " +
				"does not have",
		},
		failureCase{
			name:   "a resolver that does not exist",
			secret: withAnnotation(credential.AnnotationCredentialResolver, sentinel, spokeKubeconfig),
			text: "PolicyDenied: its credential resolver is not enabled: " +
				"set the annotation import.open-cluster-management.io/credential-resolver to one of kubeconfig, token, " +
				"or let the administrator of the hub allow it",
		},
		failureCase{
			name: "server and token without their resolver",
			secret: func(_ context.Context, cluster string) *corev1.Secret {
				return importSecret(cluster, map[string][]byte{"server": []byte(spokes[0].URL()), "token": []byte(sentinel)})
			},
			text: invalid + "no kubeconfig, but server and token: " +
				"set the annotation import.open-cluster-management.io/credential-resolver to token",
		},
		failureCase{
			name: "server and token without a CA",
			secret: func(_ context.Context, cluster string) *corev1.Secret {
				secret := importSecret(cluster, map[string][]byte{"server": []byte(spokes[0].URL()), "token": []byte(sentinel)})
				secret.Annotations[credential.AnnotationCredentialResolver] = credential.ResolverToken
				return secret
			},
			text: "TLSUntrusted: the serving certificate is not signed by the CA of the credential or, without one, by a public authority; " + nextTLS,
		},
		failureCase{
			name: "another Secret for the same cluster",
			secret: func(ctx context.Context, cluster string) *corev1.Secret {
				second := kubeconfigSecret(cluster, spokeKubeconfig())
				second.Name += "-second"
				createSecret(ctx, second)
				return kubeconfigSecret(cluster, spokeKubeconfig())
			},
			text: "SecretAmbiguous: it is not the only one for this cluster: {secret}, {secret}-second; keep one of them and " +
				"delete the others or remove their annotation import.open-cluster-management.io/managed-cluster",
			notice: ambiguousNotice,
			fix: func(ctx context.Context, secret *corev1.Secret) {
				second := secret.DeepCopy()
				second.Name += "-second"
				Eventually(recordedEvents(second.Name)).WithContext(ctx).Should(ContainElement(secretEvent(second, corev1.EventTypeWarning,
					"SecretAmbiguous", strings.ReplaceAll(ambiguousNotice, "{cluster}", secret.Name))))
				deleteSecret(ctx, second)
			},
		},
		failureCase{
			name: "another cluster's name in the cluster's own namespace",
			secret: func(_ context.Context, cluster string) *corev1.Secret {
				secret := kubeconfigSecret(cluster, spokeKubeconfig())
				secret.Namespace, secret.Name = cluster, kubeconfig.SecretName
				secret.Annotations[kubeconfig.AnnotationManagedCluster] = "another"
				return secret
			},
			text: "SecretMisplaced: its annotation names another cluster; " +
				"set its annotation import.open-cluster-management.io/managed-cluster to the name of its namespace",
			notice: misplacedNotice,
			fix: func(ctx context.Context, secret *corev1.Secret) {
				updateSecret(ctx, secret, func(secret *corev1.Secret) {
					secret.Annotations[kubeconfig.AnnotationManagedCluster] = secret.Namespace
				})
			},
		},
		failureCase{
			name: "plain http",
			secret: withKubeconfig(func(context.Context) []byte {
				return editKubeconfig(strings.Replace(spokes[0].URL(), "https", "http", 1), spokes[0].CAData(),
					func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {})
			}),
			text: forbiddenField + "clusters[].cluster.server" + defaultEntry +
				" is not accepted: only https is accepted; write it as https://host:port",
		},
		failureCase{
			name: "a kubeconfig with a command",
			secret: withKubeconfig(func(context.Context) []byte {
				return editKubeconfig(spokes[0].URL(), spokes[0].CAData(), func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
					user.Token, user.Exec = "", &clientcmdapi.ExecConfig{
						APIVersion: "client.authentication.k8s.io/v1", Command: "/bin/sh", Args: []string{"-c", "touch /tmp/" + sentinel},
						Env: []clientcmdapi.ExecEnvVar{{Name: "TOKEN", Value: sentinel}}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
					}
				})
			}),
			text: "PolicyDenied: the credential resolver exec, which it needs, is not enabled: " +
				"set the annotation import.open-cluster-management.io/credential-resolver to one of kubeconfig, token, " +
				"or let the administrator of the hub allow it",
		},
		refusedField("users[].user.auth-provider", "plugins are not run; use a credential resolver, or "+pair,
			func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
				user.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc", Config: map[string]string{"id-token": sentinel}}
			}),
		refusedField("users[].user.tokenFile", "file paths are not followed; put the token inline in token",
			func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
				// Opening a FIFO that nobody writes to blocks for ever.
				user.TokenFile = filepath.Join(workDir, "fifo-"+sentinel)
				err := syscall.Mkfifo(user.TokenFile, 0o600)
				Expect(err).NotTo(HaveOccurred())
			}),
		refusedField("clusters[].cluster.certificate-authority",
			"file paths are not followed; put the data inline in certificate-authority-data; "+inline,
			func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				cluster.CertificateAuthority = filepath.Join(workDir, "fifo-"+sentinel)
			}),
		refusedField("users[].user.client-certificate",
			"file paths are not followed; put the data inline in client-certificate-data; "+inline,
			func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) { user.ClientCertificate = "/" + sentinel }),
		refusedField("users[].user.username", pair,
			func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) { user.Username = sentinel }),
		refusedField("users[].user.password", pair,
			func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) { user.Password = sentinel }),
		refusedField("users[].user.as", ownID,
			func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) { user.Impersonate = sentinel }),
		refusedField("users[].user.as-groups", ownID,
			func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
				user.ImpersonateGroups = []string{sentinel}
			}),
		deniedByPolicy(refusedField("clusters[].cluster.proxy-url", "remove it, or use one that the administrator of the hub accepts",
			func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				cluster.ProxyURL = "http://" + sentinel + ".example.com"
			})),
		deniedByPolicy(refusedField("clusters[].cluster.insecure-skip-tls-verify",
			"remove it and put the CA in certificate-authority-data, or let the administrator of the hub allow it",
			func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				cluster.InsecureSkipTLSVerify, cluster.CertificateAuthorityData = true, nil
			})),
	)

	Context("that is too large", func() {
		It("is refused by the API server, and by the resolver", func(ctx SpecContext) {
			secret := kubeconfigSecret(newName("large"), bytes.Repeat([]byte("#"), 2<<20))
			_, err := hubKube.CoreV1().Secrets(importNamespace).Create(ctx, secret, metav1.CreateOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)

			_, err = credential.NewKubeconfigResolver(credential.KubeconfigOptions{}).
				Resolve(ctx, credential.Request{ClusterName: secret.Name, Secret: secret})
			Expect(credential.IsInvalid(err)).To(BeTrue())
			Expect(err).To(MatchError("data key kubeconfig: " +
				"kubeconfig is too large: the limit is 1 MiB; " + inline))
		})

		It("is not, up to the size of a Secret", func(ctx SpecContext) {
			startController(ctx)
			spokes[0].clean(ctx)
			name := newName("large")
			data := append(spokeKubeconfig(), '#')
			createSecret(ctx, kubeconfigSecret(name, append(data, bytes.Repeat([]byte("x"), corev1.MaxSecretSize-len(data))...)))
			createCluster(ctx, name)
			expectImported(ctx, name)
		})
	})

	Context("about where a Secret is", Ordered, ContinueOnFailure, func() {
		// quiet is how long nothing must happen: many times what an import takes.
		const quiet = "2s"

		BeforeAll(func(ctx SpecContext) {
			startController(ctx)
			spokes[0].clean(ctx)
		})

		It("says on the Secret that there is no ManagedCluster, and imports when it comes", func(ctx SpecContext) {
			name := newName("absent")
			secret := kubeconfigSecret(name, spokeKubeconfig())
			createSecret(ctx, secret)
			Eventually(recordedEvents(name)).WithContext(ctx).Should(ConsistOf(secretEvent(secret, corev1.EventTypeNormal,
				"ManagedClusterNotFound", "there is no ManagedCluster "+name+
					"; create it, or correct annotation import.open-cluster-management.io/managed-cluster")))
			createCluster(ctx, name)
			expectImported(ctx, name)
		})

		It("says on the Secret that its annotation is no name, without the value", func(ctx SpecContext) {
			secret := kubeconfigSecret(newName("misnamed"), spokeKubeconfig())
			secret.Annotations[kubeconfig.AnnotationManagedCluster] = "Not/A Name " + sentinel
			createSecret(ctx, secret)
			Eventually(recordedEvents(secret.Name)).WithContext(ctx).Should(ConsistOf(secretEvent(secret, corev1.EventTypeWarning,
				"AnnotationInvalid", "annotation import.open-cluster-management.io/managed-cluster is not the name of a "+
					"ManagedCluster; set it to one")))
		})

		It("reads no annotated Secret elsewhere", func(ctx SpecContext) {
			name := newName("elsewhere")
			secret := kubeconfigSecret(name, spokeKubeconfig())
			secret.Namespace = newName("tenant")
			createSecret(ctx, secret)
			// Neither does another name in the cluster's own namespace count.
			other := secret.DeepCopy()
			other.Namespace = name
			createSecret(ctx, other)
			createCluster(ctx, name)

			asController, err := kubernetes.NewForConfig(controllerConfig(ctx))
			Expect(err).NotTo(HaveOccurred())
			for _, one := range []*corev1.Secret{secret, other} {
				_, err = asController.CoreV1().Secrets(one.Namespace).Get(ctx, one.Name, metav1.GetOptions{})
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			}
			Consistently(condition(name), quiet).WithContext(ctx).Should(BeNil())
			Expect(recordedEvents(name)(ctx)).To(BeEmpty())
		})

		It("lets no tenant claim another's cluster from its own namespace", func(ctx SpecContext) {
			victim, tenant := newName("victim"), newName("tenant")
			secret := kubeconfigSecret(tenant, spokeKubeconfig())
			secret.Namespace, secret.Name = tenant, kubeconfig.SecretName
			secret.Annotations[kubeconfig.AnnotationManagedCluster] = victim
			createCluster(ctx, victim)
			createSecret(ctx, secret)
			Eventually(func(ctx context.Context) ([]event, error) {
				return recordedEvents(kubeconfig.SecretName)(ctx)
			}).WithContext(ctx).Should(ContainElement(secretEvent(secret, corev1.EventTypeWarning, "SecretMisplaced",
				strings.ReplaceAll(misplacedNotice, "{cluster}", tenant))))
			Consistently(condition(victim), quiet).WithContext(ctx).Should(BeNil())
		})

		It("ignores Secrets without the annotation", func(ctx SpecContext) {
			name := newName("plain")
			secret := kubeconfigSecret(name, spokeKubeconfig())
			secret.Annotations = nil
			createSecret(ctx, secret)
			createCluster(ctx, name)
			Consistently(condition(name), quiet).WithContext(ctx).Should(BeNil())
		})
	})
})
