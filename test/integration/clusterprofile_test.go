// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	clusterinventoryclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/test/cloud/gcp"
	"open-cluster-management.io/import-provider/test/component"
)

const (
	fleetNamespace = "fleet"
	profileCRD     = "clusterprofiles.multicluster.x-k8s.io"
	profileText    = ": credential resolver clusterprofile: "

	cloudAccount  = "importer@team-a-1234.iam.gserviceaccount.com"
	cloudResource = "projects/team-a-1234/locations/europe-west1/clusters/production"
	cloudEntry    = "gke_team-a-1234_europe-west1_production"
)

// profileProviders are the access providers of the hub: the cluster of Google Cloud, and one whose resolver is not allowed.
const profileProviders = `{"providers":[
	{"name":"google","execConfig":{"apiVersion":"client.authentication.k8s.io/v1beta1","command":"gke-gcloud-auth-plugin","provideClusterInfo":true,
		"args":["--project=team-a-1234","--location=europe-west1","--cluster=production","--impersonate_service_account=` + cloudAccount + `"]}},
	{"name":"amazon","execConfig":{"apiVersion":"client.authentication.k8s.io/v1beta1","command":"aws","args":["eks","get-token","--cluster-name=x"]}}
]}`

// profilePolicy is a policy under which ClusterProfiles of the fleet may be used; more is its last lines.
func profilePolicy(more string) string {
	return `rules:
- namespaces: ["*"]
  resolvers: [kubeconfig, token, gke, clusterprofile]
  gke: {serviceAccounts: ["*@team-a-1234.iam.gserviceaccount.com"]}
  clusterProfiles: {namespaces: [` + fleetNamespace + `]}
endpoints: {allowCIDRs: [127.0.0.0/8]}
` + more
}

// startWithProfiles starts the component with access providers, and an environment as the cloud has it.
func startWithProfiles(ctx context.Context, morePolicy string, env ...string) *controller {
	GinkgoHelper()
	file := filepath.Join(workDir, "providers.json")
	Expect(os.WriteFile(file, []byte(profileProviders), 0o600)).To(Succeed())
	return launch(ctx, component.Options{
		Args: slices.Concat(quick, []string{"--clusterprofile-provider-file=" + file}), Policy: profilePolicy(morePolicy), Env: env,
	})
}

// profileSecret is an import Secret that names a ClusterProfile.
func profileSecret(clusterName, namespace, name string) *corev1.Secret {
	return importSecret(clusterName, map[string][]byte{
		credential.DocumentKey: fmt.Appendf(nil, "clusterProfile: {namespace: %s, name: %s}", namespace, name),
	})
}

func profileClient() clusterinventoryclient.Interface {
	GinkgoHelper()
	client, err := clusterinventoryclient.NewForConfig(hub.Config())
	Expect(err).NotTo(HaveOccurred())
	return client
}

// createProfile creates a ClusterProfile of the fleet for the time of the spec, with access providers as a cluster manager
// reports them.
func createProfile(ctx context.Context, name string, providers ...clusterinventoryv1alpha1.AccessProvider) {
	GinkgoHelper()
	createNamespace(ctx, fleetNamespace)
	profiles := profileClient().ApisV1alpha1().ClusterProfiles(fleetNamespace)
	profile, err := profiles.Create(ctx, &clusterinventoryv1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterinventoryv1alpha1.ClusterProfileSpec{ClusterManager: clusterinventoryv1alpha1.ClusterManager{Name: "test"}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		if err := profiles.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
	})
	if len(providers) == 0 {
		return
	}
	profile.Status.AccessProviders = providers
	profile.Status.Conditions = []metav1.Condition{}
	_, err = profiles.UpdateStatus(ctx, profile, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// accessProvider leads to a spoke.
func accessProvider(name string, spoke *spokeCluster, change func(c *clientcmdapiv1.Cluster)) clusterinventoryv1alpha1.AccessProvider {
	cluster := clientcmdapiv1.Cluster{Server: spoke.URL(), CertificateAuthorityData: spoke.CAData()}
	if change != nil {
		change(&cluster)
	}
	return clusterinventoryv1alpha1.AccessProvider{Name: name, Cluster: cluster}
}

// startCloud starts a stand-in for Google Cloud whose one cluster is a spoke, and whose tokens that spoke knows. The environment is
// that of a component that runs there.
func startCloud(ctx context.Context, spoke *spokeCluster) (c *gcp.Cloud, policy string, env []string) {
	GinkgoHelper()
	const account = "cloud"
	serviceAccounts, bindings := spoke.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault), spoke.kube.RbacV1().ClusterRoleBindings()
	_, err := serviceAccounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(serviceAccounts.Delete(ctx, account, metav1.DeleteOptions{})).To(Succeed())
		Expect(bindings.Delete(ctx, account, metav1.DeleteOptions{})).To(Succeed())
	})
	_, err = bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: account}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	token, err := spoke.ServiceAccountToken(ctx, metav1.NamespaceDefault, account, time.Hour)
	Expect(err).NotTo(HaveOccurred())

	c = gcp.Start()
	DeferCleanup(c.Close)
	c.Impersonable = []string{cloudAccount}
	c.Clusters[cloudResource] = gcp.Cluster{
		Endpoint: strings.TrimPrefix(spoke.URL(), "https://"), CA: spoke.CAData(), Viewers: []string{cloudAccount},
	}
	c.Issue = func(who string) string {
		if who == cloudAccount {
			return token
		}
		return sentinel + "-of-" + who // which a cluster does not know
	}
	trusted := filepath.Join(workDir, "cloud-ca.pem")
	Expect(os.WriteFile(trusted, c.CA(), 0o600)).To(Succeed())
	return c, fmt.Sprintf("clouds: {gcp: {container: %[1]q, iamCredentials: %[1]q}}", c.URL()),
		[]string{"GCE_METADATA_HOST=" + c.MetadataHost(), "SSL_CERT_FILE=" + trusted}
}

// gcloudKubeconfig is what gcloud writes, for a server and a CA.
func gcloudKubeconfig(server string, ca []byte, args ...string) []byte {
	GinkgoHelper()
	data := editKubeconfig(server, ca, func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		user.Token = ""
		user.Exec = &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1beta1", Command: "gke-gcloud-auth-plugin", Args: args,
			InstallHint: "Install gke-gcloud-auth-plugin for use with kubectl", ProvideClusterInfo: true,
			InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
		}
	})
	return []byte(strings.ReplaceAll(string(data), ": default", ": "+cloudEntry))
}

var _ = Describe("ClusterProfiles", Ordered, ContinueOnFailure, func() {
	type profileCase struct {
		name      string
		namespace string
		providers func() []clusterinventoryv1alpha1.AccessProvider
		text      string
	}
	provide := func(name string, change func(c *clientcmdapiv1.Cluster)) func() []clusterinventoryv1alpha1.AccessProvider {
		return func() []clusterinventoryv1alpha1.AccessProvider {
			return []clusterinventoryv1alpha1.AccessProvider{accessProvider(name, spokes[0], change)}
		}
	}
	var c *controller
	var cloud *gcp.Cloud

	BeforeAll(func(ctx SpecContext) {
		var policy string
		var env []string
		cloud, policy, env = startCloud(ctx, spokes[0])
		c = startWithProfiles(ctx, policy, env...)
	})

	DescribeTable("an import by one fails with", func(ctx SpecContext, p profileCase) {
		name := newName("profile")
		if p.providers != nil {
			createProfile(ctx, name, p.providers()...)
		}
		namespace := fleetNamespace
		if p.namespace != "" {
			namespace = p.namespace
		}
		secret := profileSecret(name, namespace, name)
		createSecret(ctx, secret)
		createCluster(ctx, name)
		reason, message, _ := strings.Cut(p.text, ": ")
		Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, reason+profileText+message))
		expectNoLeak(ctx, c)
	},
		func(p profileCase) string { return p.name },
		Entry(nil, profileCase{
			name: "a namespace that is not allowed", namespace: metav1.NamespaceSystem,
			text: "PolicyDenied: the policy of the hub does not allow ClusterProfiles of the namespace that it names; let the administrator of the " +
				"hub add the namespace to clusterProfiles.namespaces of the rule",
		}),
		Entry(nil, profileCase{
			name: "no such profile",
			text: "CredentialPending: the ClusterProfile that it names does not exist: wait for it, or correct namespace and name",
		}),
		Entry(nil, profileCase{
			name: "a profile without a status", providers: func() []clusterinventoryv1alpha1.AccessProvider { return nil },
			text: "CredentialPending: the ClusterProfile that it names has no access providers in its status yet",
		}),
		Entry(nil, profileCase{
			name: "no provider that the hub knows", providers: provide("unknown", nil),
			text: "PolicyDenied: the ClusterProfile that it names has no access provider that the hub knows; let the administrator of the hub add " +
				"one of its access providers to the file of --clusterprofile-provider-file",
		}),
		Entry(nil, profileCase{
			name: "a provider whose resolver is not allowed", providers: provide("amazon", nil),
			text: `PolicyDenied: the credential resolver eks, which serves the access provider "amazon", is not enabled; let the administrator of ` +
				"the hub add it to resolvers of the rule",
		}),
		Entry(nil, profileCase{
			name: "a file of the hub as CA",
			providers: provide("google", func(c *clientcmdapiv1.Cluster) {
				c.CertificateAuthority, c.CertificateAuthorityData = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", nil
			}),
			text: `FieldForbidden: the ClusterProfile that it names: status.accessProviders[].cluster.certificate-authority of entry "google" is not ` +
				"accepted: file paths are not followed; put the data inline in certificate-authority-data; kubectl config view --raw --flatten " +
				"--minify writes a file with everything inline",
		}),
		Entry(nil, profileCase{
			name: "another cluster than the provider's",
			providers: provide("google", func(c *clientcmdapiv1.Cluster) {
				c.Server, c.CertificateAuthorityData = spokes[1].URL(), spokes[1].CAData()
			}),
			text: `PolicyDenied: access provider "google" by credential resolver gke: the server or the CA is not that of the cluster ` +
				"that the credential is for, as the cloud reports it: correct it, or let the administrator of the hub add it to endpoints.pinned",
		}),
	)

	It("a cluster of Google Cloud is imported by its profile", func(ctx SpecContext) {
		spokes[0].clean(ctx)
		name := newName("profile")
		createProfile(ctx, name, accessProvider("google", spokes[0], nil))
		createSecret(ctx, profileSecret(name, fleetNamespace, name))
		createCluster(ctx, name)
		expectImported(ctx, name)
		spokes[0].expectKlusterlet(ctx, name)
		Expect(cloud.Requests(gcp.IAMCredentials)).NotTo(BeEmpty())
		expectNoLeak(ctx, c, cloud.Issue(cloudAccount))
	})

	It("a cluster of Google Cloud is imported by the kubeconfig that gcloud wrote", func(ctx SpecContext) {
		spokes[0].clean(ctx)
		name := newName("gke")
		createSecret(ctx, kubeconfigSecret(name, gcloudKubeconfig(spokes[0].URL(), spokes[0].CAData(), "--impersonate_service_account="+cloudAccount)))
		createCluster(ctx, name)
		expectImported(ctx, name)
		spokes[0].expectKlusterlet(ctx, name)
		expectNoLeak(ctx, c, cloud.Issue(cloudAccount))
	})

	It("a cluster of Google Cloud is imported by its name", func(ctx SpecContext) {
		spokes[0].clean(ctx)
		name := newName("gke")
		createSecret(ctx, importSecret(name, map[string][]byte{credential.DocumentKey: []byte(
			"gke: {project: team-a-1234, location: europe-west1, cluster: production, serviceAccount: " + cloudAccount + "}")}))
		createCluster(ctx, name)
		expectImported(ctx, name)
		spokes[0].expectKlusterlet(ctx, name)
		expectNoLeak(ctx, c, cloud.Issue(cloudAccount))
	})

	It("without the API an import waits for it", func(ctx SpecContext) {
		apiext, err := apiextensionsclient.NewForConfig(hub.Config())
		Expect(err).NotTo(HaveOccurred())
		crds := apiext.ApiextensionsV1().CustomResourceDefinitions()
		crd, err := crds.Get(ctx, profileCRD, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(crds.Delete(ctx, profileCRD, metav1.DeleteOptions{})).To(Succeed())
		list := func(ctx context.Context) error {
			_, err := profileClient().ApisV1alpha1().ClusterProfiles(fleetNamespace).List(ctx, metav1.ListOptions{})
			return err
		}
		DeferCleanup(func(ctx SpecContext) {
			crd.ResourceVersion, crd.UID = "", ""
			Eventually(func(ctx context.Context) error {
				_, err := crds.Create(ctx, crd, metav1.CreateOptions{})
				return err
			}).WithContext(ctx).Should(Succeed())
			Eventually(list).WithContext(ctx).Should(Succeed())
		})
		Eventually(list).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		name := newName("profile")
		secret := profileSecret(name, fleetNamespace, name)
		createSecret(ctx, secret)
		createCluster(ctx, name)
		Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, "TokenMintFailed"+profileText+"the hub has no ClusterProfile API: let "+
			"the administrator of the hub install it, such as by the feature gate ClusterProfile of the ClusterManager"))
	})
})
