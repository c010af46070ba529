// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/component"
)

var _ = Describe("A plugin of the administrator", Ordered, ContinueOnFailure, func() {
	const (
		name     = "demo"
		execV1   = "client.authentication.k8s.io/v1"
		notAsked = "PolicyDenied: credential resolver exec: the policy of the hub does not allow its plugin; correct the command of the exec stanza, " +
			"or let the administrator of the hub add the plugin to plugins and to the rule for its namespace"
	)
	var (
		spoke             *spokeCluster
		directory, digest string
		tokenFile, runs   string
	)

	BeforeAll(func(ctx SpecContext) {
		spoke = spokes[0]
		directory = GinkgoT().TempDir()
		path := filepath.Join(directory, name)
		output, err := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", path,
			"open-cluster-management.io/import-provider/test/plugin").CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
		data, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		sum := sha256.Sum256(data)
		digest = hex.EncodeToString(sum[:])
		// As a volume that is mounted read-only is.
		for _, readOnly := range []string{path, directory} {
			Expect(os.Chmod(readOnly, os.FileMode(0o555))).To(Succeed())
		}
		DeferCleanup(os.Chmod, directory, os.FileMode(0o755))
	})

	BeforeEach(func(ctx SpecContext) {
		spoke.clean(ctx)
		own := GinkgoT().TempDir()
		tokenFile, runs = filepath.Join(own, "token"), filepath.Join(own, "runs")
		token, _ := spoke.importerToken(ctx, importerRules())
		Expect(os.WriteFile(tokenFile, []byte(token), 0o600)).To(Succeed())
	})

	// pinned is a policy with the plugin.
	pinned := func(digest string) string {
		return fmt.Sprintf(`%s
rules:
- {namespaces: ["*"], resolvers: [kubeconfig, exec], plugins: [%s]}
plugins:
- name: %s
  sha256: {%s/%s: %q}
  args: ["{mode}"]
  parameters: {mode: "file|noise"}
  passEnv: [PLUGIN_TOKEN_FILE, PLUGIN_RUNS]
  hosts: [127.0.0.1]
`, component.LoopbackPolicy, name, name, runtime.GOOS, runtime.GOARCH, digest)
	}
	start := func(ctx context.Context, policy string) *controller {
		GinkgoHelper()
		return launch(ctx, component.Options{
			Args: append([]string{"--plugin-directory=" + directory}, quick...), Policy: policy,
			Env: []string{"PLUGIN_TOKEN_FILE=" + tokenFile, "PLUGIN_RUNS=" + runs},
		})
	}
	stanza := func(command string, args ...string) []byte {
		GinkgoHelper()
		return editKubeconfig(spoke.URL(), spoke.CAData(), func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			user.Token = ""
			user.Exec = &clientcmdapi.ExecConfig{
				APIVersion: execV1, Command: command, Args: args, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		})
	}
	create := func(ctx context.Context, secret *corev1.Secret) {
		GinkgoHelper()
		createSecret(ctx, secret)
		createCluster(ctx, secret.Name)
	}
	countRuns := func() int {
		GinkgoHelper()
		data, err := os.ReadFile(runs)
		if !os.IsNotExist(err) {
			Expect(err).NotTo(HaveOccurred())
		}
		return strings.Count(string(data), "\n")
	}

	It("gives the token for the kubeconfig that names it", func(ctx SpecContext) {
		c := start(ctx, pinned(digest))
		secret := kubeconfigSecret(newName("plugin"), stanza("/home/somebody/bin/"+name, "file"))
		create(ctx, secret)
		expectImported(ctx, secret.Name)
		spoke.expectKlusterlet(ctx, secret.Name)
		Expect(countRuns()).To(Equal(1), "one token is for all requests")
		token, err := os.ReadFile(tokenFile)
		Expect(err).NotTo(HaveOccurred())
		expectNoLeak(ctx, c, string(token))
	})

	It("gives the token without a kubeconfig", func(ctx SpecContext) {
		start(ctx, pinned(digest))
		document, err := yaml.Marshal(credential.Document{Exec: &credential.ExecParameters{
			Plugin: name, Server: spoke.URL(), CertificateAuthorityData: string(spoke.CAData()), Parameters: map[string]string{"mode": "file"},
		}})
		Expect(err).NotTo(HaveOccurred())
		secret := importSecret(newName("plugin"), map[string][]byte{credential.DocumentKey: document})
		create(ctx, secret)
		expectImported(ctx, secret.Name)
		spoke.expectKlusterlet(ctx, secret.Name)
	})

	It("is not run if its digest is not that of the policy", func(ctx SpecContext) {
		c := start(ctx, pinned(strings.Repeat("0", 64)))
		secret := kubeconfigSecret(newName("plugin"), stanza(name, "file"))
		create(ctx, secret)
		expectPreflightFailed(ctx, c, secret.Name, secret, "PolicyDenied: credential resolver exec: the plugin "+name+
			" cannot be run: its file does not have the digest that the policy has for "+runtime.GOOS+"/"+runtime.GOARCH+
			`; let the administrator of the hub run "import-controller plugins verify"`, "")
		Expect(countRuns()).To(BeZero())
	})

	It("is the only program that a kubeconfig can have run", func(ctx SpecContext) {
		c := start(ctx, pinned(digest))
		marker := filepath.Join(GinkgoT().TempDir(), "marker")
		script := filepath.Join(GinkgoT().TempDir(), name)
		Expect(os.WriteFile(script, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o755)).To(Succeed()) //nolint:gosec // it would be run.
		unknown := kubeconfigSecret(newName("plugin"), stanza("/bin/sh", "-c", "touch "+marker))
		create(ctx, unknown)
		expectPreflightFailed(ctx, c, unknown.Name, unknown, notAsked, "")
		// The path of the command leads elsewhere; the plugin runs.
		known := kubeconfigSecret(newName("plugin"), stanza(script, "file"))
		create(ctx, known)
		expectImported(ctx, known.Name)
		Expect(marker).NotTo(BeAnExistingFile())
	})

	It("that fails tells the log why, and nobody else", func(ctx SpecContext) {
		c := start(ctx, pinned(digest))
		Expect(os.WriteFile(tokenFile, []byte(sentinel+" is no token"), 0o600)).To(Succeed())
		secret := kubeconfigSecret(newName("plugin"), stanza(name, "file"))
		create(ctx, secret)
		expectPreflightFailed(ctx, c, secret.Name, secret, "TokenMintFailed: credential resolver exec: the plugin "+name+
			" printed neither a token nor a client certificate with its key that can be used; see the logs of the import controller", "")
		Expect(os.Remove(tokenFile)).To(Succeed())
		updateSecret(ctx, secret, func(secret *corev1.Secret) { secret.Labels = map[string]string{"again": "true"} })
		Eventually(condition(secret.Name)).WithContext(ctx).Should(haveFailed(secret, "TokenMintFailed: credential resolver exec: the plugin "+name+
			" ended with an error; see the logs of the import controller"))
		Expect(c.log()).To(ContainSubstring("no such file or directory"))
		expectNoLeak(ctx, c)
	})

	It("is checked by import-controller plugins verify", func(ctx SpecContext) {
		verify := func(digest string) (string, error) {
			file := filepath.Join(GinkgoT().TempDir(), "policy.yaml")
			Expect(component.WritePolicy(file, pinned(digest))).To(Succeed())
			output, err := exec.CommandContext(ctx, filepath.Join(workDir, "import-controller"), "plugins", "verify",
				"--policy-file="+file, "--plugin-directory="+directory).CombinedOutput()
			return string(output), err
		}
		output, err := verify(digest)
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(MatchRegexp(name + ` +` + name + ` +` + digest + ` +ok`))
		output, err = verify(strings.Repeat("0", 64))
		Expect(err).To(MatchError("exit status 1"))
		Expect(output).To(ContainSubstring("its file does not have the digest that the policy has"))
	})

	DescribeTable("is delivered by", func(ctx SpecContext, sample, want string) {
		root, err := binaries.ModuleRoot()
		Expect(err).NotTo(HaveOccurred())
		folder := filepath.Join(root, "manifests", "samples", sample)
		data, err := os.ReadFile(filepath.Join(folder, "policy.yaml"))
		Expect(err).NotTo(HaveOccurred())
		parsed, err := policy.Parse(data)
		Expect(err).NotTo(HaveOccurred())
		Expect(parsed.Plugins()).To(HaveLen(1))
		kubectl, err := binaries.Kubectl(controlPlaneBinaries)
		Expect(err).NotTo(HaveOccurred())
		// Everything is there already but for the sample's own, since the suite has installed manifests/import-controller.
		output, err := exec.CommandContext(ctx, kubectl, "--kubeconfig="+hub.KubeconfigPath(), "apply", "--server-side", "--force-conflicts",
			"--dry-run=server", "--validate=strict", "--output=yaml", "-k", folder).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
		for _, text := range []string{want, "--plugin-directory=/plugins", "--policy-file=/etc/import-policy/policy.yaml"} {
			Expect(string(output)).To(ContainSubstring(text))
		}
	},
		Entry("an image volume", "plugins-image-volume", "reference: example-credential-plugins:1.0"),
		Entry("an init container", "plugins-init-container", "image: example-credential-plugin:1.0"),
	)
})
