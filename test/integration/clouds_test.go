// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/cloud/aws"
	"open-cluster-management.io/import-provider/test/cloud/azure"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
)

const (
	awsRegion    = "eu-central-1"
	awsHubRole   = "arn:aws:iam::111111111111:role/hub"
	awsSpokeRole = "arn:aws:iam::222222222222:role/import/production"

	azureTenant       = "aaaaaaaa-0000-0000-0000-00000000000a"
	azureHubClient    = "cccccccc-0000-0000-0000-00000000000a"
	azureSubscription = "dddddddd-0000-0000-0000-00000000000a"

	administrators = "system:masters"
)

// cloudPolicy lets import Secrets of the default namespace act as one role of AWS and as the hub's own identity of Azure.
func cloudPolicy(a *aws.Cloud, z *azure.Cloud) string {
	return `rules:
- namespaces: [` + importNamespace + `]
  resolvers: [kubeconfig, token, eks, aks]
  eks: {roles: ["arn:aws:iam::222222222222:role/import/*"], externalID: "{namespace}/{cluster}"}
  aks: {hubIdentity: true, subscriptions: [` + azureSubscription + `]}
endpoints: {allowCIDRs: [127.0.0.0/8]}
clouds:
  aws: {sts: "` + a.STS.URL + `", eks: "` + a.EKS.URL + `"}
  azure: {authority: "` + z.Authority + `", resourceManager: "` + z.ResourceManager + `"}
`
}

// cliKubeconfig is what the CLI of a cloud writes, for a server and a CA.
func cliKubeconfig(server string, ca []byte, command string, args ...string) []byte {
	GinkgoHelper()
	return editKubeconfig(server, ca, func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		user.Token = ""
		user.Exec = &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1beta1", Command: command, Args: args, InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
		}
	})
}

// writeFile writes what the platform of the hub, or its administrator, gives the component.
func writeFile(name string, content []byte) (path string) {
	GinkgoHelper()
	path = filepath.Join(workDir, name)
	Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	return path
}

// The hub runs with a workload identity of each cloud. The cluster asks the cloud whose a token is, as theirs do.
var _ = Describe("Clusters of clouds", Ordered, ContinueOnFailure, func() {
	const (
		cluster        = "production"
		webIdentity    = sentinel + "-web-identity"
		federatedToken = sentinel + "-assertion"
	)
	var (
		c        *controller
		amazon   *aws.Cloud
		azureHub *azure.Cloud
		spoke    *spokeCluster
		atAmazon aws.Cluster
		lastUser atomic.Value
	)

	awsArgs := func(role string) []string {
		return []string{"--region", awsRegion, "eks", "get-token", "--cluster-name", cluster, "--output", "json", "--role-arn", role}
	}
	kubelogin := []string{
		"get-token", "--login", "workloadidentity", "--environment", "AzurePublicCloud", "--server-id", azure.KubernetesServer, "--tenant-id", azureTenant,
	}
	// expectNothingShown looks for what the component was given and for what it was issued.
	expectNothingShown := func(ctx context.Context) {
		GinkgoHelper()
		secrets := amazon.Secrets()
		for _, token := range azureHub.Tokens() {
			secrets = append(secrets, token.Value)
		}
		expectNoLeak(ctx, c, secrets...)
	}

	BeforeAll(func(ctx SpecContext) {
		amazon = aws.New(aws.Options{})
		DeferCleanup(amazon.Close)
		azureHub = azure.New(GinkgoTB())

		plane, err := harness.Start(ctx, harness.Options{
			Name: "cloud", BinDir: controlPlaneBinaries, LogDir: filepath.Join(workDir, "logs"),
			Authenticate: func(token string) (string, []string) {
				user := ""
				if identity, err := amazon.Verify(token, atAmazon); err == nil {
					user = identity.RoleARN + " as " + identity.SessionName
				}
				for _, issued := range azureHub.Tokens(azure.KubernetesServer) {
					if issued.Value == token {
						user = issued.ClientID
					}
				}
				lastUser.Store(user)
				if user == "" {
					return "", nil
				}
				return user, []string{administrators}
			},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
		spoke, err = newSpoke(plane)
		Expect(err).NotTo(HaveOccurred())

		amazon.AddRole(aws.Role{ARN: awsHubRole, WebIdentityToken: webIdentity})
		atAmazon = aws.Cluster{Name: cluster, Region: awsRegion, Endpoint: spoke.URL(), CA: spoke.CAData(), Roles: []string{awsSpokeRole}}
		amazon.AddCluster(atAmazon)
		azureHub.AddIdentity(azure.Identity{ClientID: azureHubClient, TenantID: azureTenant, Assertion: federatedToken})
		azureHub.AddCluster(azure.Cluster{
			Subscription: azureSubscription, ResourceGroup: "platform", Name: cluster, Server: spoke.URL(), CA: spoke.CAData(),
		})

		trusted := slices.Concat(azureHub.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: amazon.STS.Certificate().Raw}))
		c = launch(ctx, component.Options{
			Args: quick, Policy: cloudPolicy(amazon, azureHub),
			Env: []string{
				"SSL_CERT_FILE=" + writeFile("clouds-ca.pem", trusted),
				"AWS_ROLE_ARN=" + awsHubRole, "AWS_WEB_IDENTITY_TOKEN_FILE=" + writeFile("aws-token", []byte(webIdentity)),
				"AZURE_CLIENT_ID=" + azureHubClient, "AZURE_TENANT_ID=" + azureTenant,
				"AZURE_FEDERATED_TOKEN_FILE=" + writeFile("azure-token", []byte(federatedToken)),
				"AZURE_AUTHORITY_HOST=" + azureHub.Authority,
			},
		})
	})

	// trust lets the hub assume the role of the cluster for one import.
	trust := func(name string) {
		amazon.AddRole(aws.Role{ARN: awsSpokeRole, TrustedRole: awsHubRole, ExternalID: importNamespace + "/" + name})
	}
	expectImportedAs := func(ctx context.Context, name, user string) {
		GinkgoHelper()
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)
		Expect(lastUser.Load()).To(Equal(user))
		expectNothingShown(ctx)
	}

	DescribeTable("are imported by", func(ctx SpecContext, data func() map[string][]byte, user func(name string) string) {
		spoke.clean(ctx)
		name := newName("cloud")
		trust(name)
		createSecret(ctx, importSecret(name, data()))
		createCluster(ctx, name)
		expectImportedAs(ctx, name, user(name))
	},
		Entry("the kubeconfig that the AWS CLI wrote",
			func() map[string][]byte {
				return map[string][]byte{"kubeconfig": cliKubeconfig(spoke.URL(), spoke.CAData(), "aws", awsArgs(awsSpokeRole)...)}
			},
			func(name string) string { return awsSpokeRole + " as ocm-import-" + name }),
		Entry("the kubeconfig of aws-iam-authenticator, by whatever path",
			func() map[string][]byte {
				return map[string][]byte{"value": cliKubeconfig(spoke.URL(), spoke.CAData(), `/opt/homebrew/bin/aws-iam-authenticator`,
					"token", "-i", cluster, "-r", awsSpokeRole, "--region", awsRegion)}
			},
			func(name string) string { return awsSpokeRole + " as ocm-import-" + name }),
		Entry("the name of a cluster of EKS",
			func() map[string][]byte {
				return map[string][]byte{credential.DocumentKey: []byte(
					"eks: {cluster: " + cluster + ", region: " + awsRegion + ", roleARN: \"" + awsSpokeRole + "\"}")}
			},
			func(name string) string { return awsSpokeRole + " as ocm-import-" + name }),
		Entry("the kubeconfig that kubelogin converted",
			func() map[string][]byte {
				return map[string][]byte{"kubeconfig": cliKubeconfig(spoke.URL(), spoke.CAData(), "kubelogin", kubelogin...)}
			},
			func(string) string { return azureHubClient }),
		Entry("the name of a cluster of AKS",
			func() map[string][]byte {
				return map[string][]byte{credential.DocumentKey: []byte(
					"aks: {subscription: " + azureSubscription + ", resourceGroup: platform, cluster: " + cluster + "}")}
			},
			func(string) string { return azureHubClient }),
	)

	// A token of a cloud must not reach whoever wrote the Secret.
	DescribeTable("are refused, and nothing is sent, when the kubeconfig leads elsewhere", func(ctx SpecContext, command string, args []string) {
		connected := atomic.Bool{}
		address := listenTCPFunc(ctx, func() { connected.Store(true) })
		name := newName("elsewhere")
		trust(name)
		secret := kubeconfigSecret(name, cliKubeconfig("https://"+address, spokes[0].CAData(), command, args...))
		createSecret(ctx, secret)
		createCluster(ctx, name)
		Eventually(ourCondition(name, kubeconfig.ConditionPreflightPassed)).WithContext(ctx).Should(HaveField("Reason", "PolicyDenied"))
		Expect(connected.Load()).To(BeFalse())
		expectNothingShown(ctx)
	},
		Entry("EKS", "aws", awsArgs(awsSpokeRole)),
		Entry("AKS", "kubelogin", kubelogin),
	)

	It("a role that the policy does not name is refused before AWS is asked", func(ctx SpecContext) {
		amazon.Reset()
		name := newName("cloud")
		createSecret(ctx, kubeconfigSecret(name, cliKubeconfig(spoke.URL(), spoke.CAData(), "aws", awsArgs("arn:aws:iam::333333333333:role/x")...)))
		createCluster(ctx, name)
		Eventually(ourCondition(name, kubeconfig.ConditionPreflightPassed)).WithContext(ctx).Should(HaveField("Reason", "PolicyDenied"))
		Expect(amazon.Requests()).To(BeEmpty())
	})

	It("a Secret that is deleted takes its token along", func(ctx SpecContext) {
		spoke.clean(ctx)
		name := newName("cloud")
		trust(name)
		secret := kubeconfigSecret(name, cliKubeconfig(spoke.URL(), spoke.CAData(), "aws", awsArgs(awsSpokeRole)...))
		createSecret(ctx, secret)
		createCluster(ctx, name)
		expectImported(ctx, name)
		amazon.Reset()
		deleteSecret(ctx, secret)
		secret.ResourceVersion, secret.UID = "", ""
		_, err := hubKube.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
		Eventually(func() []string { return amazon.Operations() }).WithContext(ctx).Should(ContainElement(aws.AssumeRole))
	})
})
