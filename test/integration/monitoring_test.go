// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/binaries"
)

// declaredWords are the constants of a type of strings in the provider's code.
func declaredWords(typeName string) []string {
	GinkgoHelper()
	root, err := binaries.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(root, "providers", "kubeconfig", "*.go"))
	Expect(err).NotTo(HaveOccurred())
	var words []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		Expect(err).NotTo(HaveOccurred())
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			kind, ok := spec.Type.(*ast.Ident)
			if !ok || kind.Name != typeName {
				return true
			}
			for _, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				Expect(ok).To(BeTrue())
				word, err := strconv.Unquote(literal.Value)
				Expect(err).NotTo(HaveOccurred())
				words = append(words, word)
			}
			return true
		})
	}
	Expect(words).NotTo(BeEmpty(), typeName)
	return words
}

// sample is one line of /metrics.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	sampleLine  = regexp.MustCompile(`^(import_provider_\w+)(?:\{(.*)\})? (\S+)$`)
	sampleLabel = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)`)
)

// samples are those of the provider's own metrics.
func (c *controller) samples(ctx context.Context) []sample {
	GinkgoHelper()
	status, text := c.get(ctx, "/metrics")
	Expect(status).To(Equal(http.StatusOK))
	var samples []sample
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, metricPrefix) {
			continue
		}
		parts := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
		Expect(parts).NotTo(BeNil(), line)
		one := sample{name: parts[1], labels: map[string]string{}}
		var err error
		one.value, err = strconv.ParseFloat(parts[3], 64)
		Expect(err).NotTo(HaveOccurred(), line)
		for _, label := range sampleLabel.FindAllStringSubmatch(parts[2], -1) {
			one.labels[label[1]] = label[2]
		}
		// No label in another form.
		Expect(sampleLabel.ReplaceAllString(parts[2], "")).To(BeEmpty(), line)
		samples = append(samples, one)
	}
	return samples
}

// byLabel are the values of a metric by those of a label.
func byLabel(samples []sample, name, label string) map[string]float64 {
	values := map[string]float64{}
	for _, one := range samples {
		if one.name == metricPrefix+name {
			values[one.labels[label]] = one.value
		}
	}
	return values
}

const metricPrefix = "import_provider_"

var _ = Describe("Monitoring", Ordered, ContinueOnFailure, func() {
	var (
		c                          *controller
		failed, pending, completed string
		notAfter                   time.Time
	)

	BeforeAll(func(ctx SpecContext) {
		DeferCleanup(spokes[0].clean)
		DeferCleanup(spokes[1].clean)
		c = startController(ctx)
		failed, pending, completed = newName("failed"), newName("pending"), newName("completed")
		createSecret(ctx, kubeconfigSecret(failed, nil))
		createCluster(ctx, failed)
		Eventually(ourCondition(failed, kubeconfig.ConditionPreflightPassed)).WithContext(ctx).
			Should(HaveField("Reason", "KubeconfigInvalid"))
		importNow(ctx, pending, spokes[1])
		Eventually(ourCondition(pending, kubeconfig.ConditionCompleted)).WithContext(ctx).Should(HaveField("Reason", "NotAccepted"))

		// A whole second, as a certificate has.
		notAfter = time.Now().Add(73 * time.Minute).Truncate(time.Second)
		spokes[0].clean(ctx)
		spokes[0].grant(ctx, "monitored", importerRules()...)
		createSecret(ctx, kubeconfigSecret(completed, spokes[0].certKubeconfig("monitored", time.Now().Add(-time.Hour), notAfter)))
		createCluster(ctx, completed)
		expectImported(ctx, completed)
		joinCluster(ctx, completed)
	})

	It("finds every metric that alerts and dashboard use", func(ctx SpecContext) {
		status, text := c.get(ctx, "/metrics")
		Expect(status).To(Equal(http.StatusOK))
		file := filepath.Join(workDir, "metrics")
		Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		root, err := binaries.ModuleRoot()
		Expect(err).NotTo(HaveOccurred())
		check := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "test", "monitoring"), "run", "-trimpath", "-gcflags=all=-dwarf=false",
			".", "-metrics", file)
		// Built with the flags of the whole project, or nothing of it is in the build cache.
		check.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		output, err := check.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", output)
		Expect(string(output)).To(ContainSubstring(metricPrefix))
	})

	It("counts the clusters by what they wait for", func(ctx SpecContext) {
		// Nobody accepts a ManagedCluster here.
		samples := c.samples(ctx)
		Expect(byLabel(samples, "pending_clusters", "reason")).To(Equal(map[string]float64{"KubeconfigInvalid": 1, "NotAccepted": 1}))
		Expect(byLabel(samples, "completed_clusters", "")).To(Equal(map[string]float64{"": 1}))
	})

	It("measures every stage of an import by a credential that may do no more than it needs", func(ctx SpecContext) {
		counts := byLabel(c.samples(ctx), "stage_duration_seconds_count", "stage")
		Expect(slices.Collect(maps.Keys(counts))).To(ConsistOf(declaredWords("importStage")))
		Expect(counts).To(HaveEach(BeNumerically(">", 0)))
	})

	It("has no value of a label that is not a word of the code, or the name of a ManagedCluster", func(ctx SpecContext) {
		clusters, err := hubClusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		allowed := map[string][]string{
			"reason":   declaredWords("Reason"),
			"stage":    declaredWords("importStage"),
			"result":   {"passed", "failed", "succeeded"},
			"resolver": {credential.ResolverKubeconfig, credential.ResolverToken, "none"},
		}
		for i := range clusters.Items {
			allowed["managed_cluster"] = append(allowed["managed_cluster"], clusters.Items[i].Name)
		}
		found := map[string]bool{}
		for _, one := range c.samples(ctx) {
			for label, value := range one.labels {
				if label == "le" && strings.HasSuffix(one.name, "_bucket") {
					continue
				}
				found[label] = true
				Expect(allowed).To(HaveKeyWithValue(label, ContainElement(value)), one.name)
				if label == "managed_cluster" {
					Expect(one.name).To(Equal(metricPrefix + "credential_expiry_timestamp_seconds"))
				}
			}
		}
		Expect(found).To(HaveLen(len(allowed)), "all labels are there")
	})

	It("counts the requests to the hub, and none to a managed cluster", func(ctx SpecContext) {
		status, text := c.get(ctx, "/metrics")
		Expect(status).To(Equal(http.StatusOK))
		host := func(url string) string { return `host="` + strings.TrimPrefix(url, "https://") + `"` }
		Expect(text).To(ContainSubstring(host(hub.URL())))
		for _, spoke := range spokes {
			// The host is what stands in a kubeconfig.
			Expect(text).NotTo(ContainSubstring(host(spoke.URL())))
		}
	})

	It("knows when a credential expires", func(ctx SpecContext) {
		Expect(byLabel(c.samples(ctx), "credential_expiry_timestamp_seconds", "managed_cluster")).
			To(HaveKeyWithValue(completed, BeEquivalentTo(notAfter.Unix())))
	})

	It("forgets a cluster that is deleted", func(ctx SpecContext) {
		expiries := func(ctx context.Context) map[string]float64 {
			return byLabel(c.samples(ctx), "credential_expiry_timestamp_seconds", "managed_cluster")
		}
		Expect(expiries(ctx)).To(And(HaveLen(2), HaveKey(completed), HaveKey(pending)))
		deleteCluster(ctx, completed)
		deleteCluster(ctx, failed)
		Eventually(expiries).WithContext(ctx).Should(And(HaveLen(1), HaveKey(pending)))
		Eventually(func(ctx context.Context) map[string]float64 {
			return byLabel(c.samples(ctx), "pending_clusters", "reason")
		}).WithContext(ctx).Should(Equal(map[string]float64{"NotAccepted": 1}))
		Expect(byLabel(c.samples(ctx), "completed_clusters", "")).To(Equal(map[string]float64{"": 0}))
	})
})
