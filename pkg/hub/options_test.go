// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"open-cluster-management.io/ocm/pkg/cmd/hub"
	importeroptions "open-cluster-management.io/ocm/pkg/registration/hub/importer/options"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

const samplePolicy = "../../manifests/samples/import-policy.yaml"

func newOptions() *ImporterOptions {
	return NewImporterOptions(importeroptions.New(), ProviderKubeconfig)
}

func TestImporterOptionsDefaults(t *testing.T) {
	o := newOptions()
	want := &ImporterOptions{
		Providers:        []string{"kubeconfig"},
		Workers:          256,
		ImportNamespaces: []string{"open-cluster-management-import"},
		Renderers: &importeroptions.Options{
			BootstrapSA:       "open-cluster-management/agent-registration-bootstrap",
			ImporterRenderers: []string{"render-auto", "render-from-config-secret"},
		},
	}
	want.Connection.Default()
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if err := o.Validate(); err != nil {
		t.Errorf("defaults are refused: %v", err)
	}
}

func TestImporterOptionsFlags(t *testing.T) {
	o := newOptions()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{
		"--providers=capi,kubeconfig", "--import-workers=3", "--import-namespaces=a,b", "--spoke-dial-timeout=1s",
		"--spoke-tls-timeout=2s", "--spoke-header-timeout=3s", "--spoke-request-timeout=4s", "--spoke-import-timeout=5s",
		"--spoke-max-response-bytes=6", "--spoke-api-qps=7", "--spoke-api-burst=8", "--insecure-allow-skip-tls-verify",
		"--policy-file=" + samplePolicy, "--plugin-directory=/plugins", "--clusterprofile-provider-file=/providers.json",
	}); err != nil {
		t.Fatal(err)
	}
	want := &ImporterOptions{
		Providers: []string{"capi", "kubeconfig"}, Workers: 3, ImportNamespaces: []string{"a", "b"},
		Connection: kubeconfig.ConnectionOptions{
			DialTimeout: time.Second, TLSHandshakeTimeout: 2 * time.Second, ResponseHeaderTimeout: 3 * time.Second,
			RequestTimeout: 4 * time.Second, ImportTimeout: 5 * time.Second, MaxResponseBytes: 6, QPS: 7, Burst: 8,
		},
		PolicyFile: samplePolicy, PluginDirectory: "/plugins", ClusterProfileProviderFile: "/providers.json",
		InsecureAllowSkipTLSVerify: true,
		Renderers:                  o.Renderers,
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("parsed (-want +got):\n%s", diff)
	}
	if err := o.Validate(); err != nil {
		t.Errorf("refused: %v", err)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !flags.Changed(f.Name) {
			t.Errorf("flag --%s has no test", f.Name)
		}
		if f.Usage == "" {
			t.Errorf("flag --%s has no usage", f.Name)
		}
	})
}

func TestImporterOptionsValidate(t *testing.T) {
	cases := []struct {
		name string
		edit func(*ImporterOptions)
		want string // no error when empty
	}{
		{"no provider", func(o *ImporterOptions) { o.Providers = nil }, "--providers: name at least one of kubeconfig, capi"},
		{"unknown provider", func(o *ImporterOptions) { o.Providers = []string{"eks"} }, `--providers: "eks" is not one of kubeconfig, capi`},
		{"provider twice", func(o *ImporterOptions) { o.Providers = []string{"capi", "capi"} }, `--providers: "capi" stands twice`},
		{"both providers", func(o *ImporterOptions) { o.Providers = []string{"capi", "kubeconfig"} }, ""},
		{"no worker", func(o *ImporterOptions) { o.Workers = 0 }, "--import-workers: must be from 1 to 1024, not 0"},
		{"too many workers", func(o *ImporterOptions) { o.Workers = 1025 }, "--import-workers: must be from 1 to 1024, not 1025"},
		{"most workers", func(o *ImporterOptions) { o.Workers = 1024 }, ""},
		{"namespace", func(o *ImporterOptions) { o.ImportNamespaces = []string{"A"} }, `--import-namespaces: "A" is not the name of a namespace: `},
		{"all namespaces", func(o *ImporterOptions) { o.ImportNamespaces = []string{""} }, `--import-namespaces: "" is not the name of a namespace: `},
		{"no import namespace", func(o *ImporterOptions) { o.ImportNamespaces = []string{} }, ""},
		{"timeout", func(o *ImporterOptions) { o.Connection.RequestTimeout = 0 },
			"--spoke-request-timeout: must be above 0 and at most 10m0s, not 0s"},
		{"renderer", func(o *ImporterOptions) { o.Renderers.ImporterRenderers = []string{"x"} },
			`--import-renderers: "x" is not one of render-auto, render-from-config-secret`},
		{"bootstrap account without namespace", func(o *ImporterOptions) { o.Renderers.BootstrapSA = "x" },
			`--bootstrap-serviceaccount: "x" is not namespace/name`},
		{"bootstrap account of three", func(o *ImporterOptions) { o.Renderers.BootstrapSA = "x/y/z" },
			`--bootstrap-serviceaccount: "x/y/z" is not namespace/name`},
		{"bootstrap account without name", func(o *ImporterOptions) { o.Renderers.BootstrapSA = "x/" },
			`--bootstrap-serviceaccount: "x/" is not namespace/name`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := newOptions()
			c.edit(o)
			expectError(t, o.Validate(), c.want)
		})
	}
	t.Run("all that is wrong", func(t *testing.T) {
		o := newOptions()
		o.Providers, o.Workers, o.ImportNamespaces = nil, 0, []string{"A"}
		if err := o.Validate(); err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
			t.Errorf("got %v", err)
		}
	})
}

func TestPolicyFileOfTheEnvironment(t *testing.T) {
	t.Setenv("IMPORT_POLICY_FILE", "/from/the/environment")
	o := newOptions()
	if o.PolicyFile != "/from/the/environment" {
		t.Errorf("got %q", o.PolicyFile)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{"--policy-file=" + samplePolicy}); err != nil || o.PolicyFile != samplePolicy {
		t.Errorf("got %q, %v", o.PolicyFile, err)
	}
}

// badPolicy returns the path of a policy that names no namespace, and what is said about it.
func badPolicy(t *testing.T) (path, want string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "policy.yaml")
	content := "apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\nrules: [{resolvers: [kubeconfig]}]"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, "--policy-file: policy " + path + ": rules[0].namespaces: Required value: must not be empty"
}

// Neither command starts with a policy that is not right, whichever way it is named.
func TestBadPolicyFile(t *testing.T) {
	path, want := badPolicy(t)
	t.Run("import-controller", func(t *testing.T) {
		setVerbosity(t, "0")
		t.Cleanup(func() { _ = logsapi.ResetForTest(nil) })
		if err := logsapi.ResetForTest(nil); err != nil {
			t.Fatal(err)
		}
		cmd, err := NewImportController("v1")
		if err != nil {
			t.Fatal(err)
		}
		cmd.SetArgs([]string{"--policy-file=" + path, "--kubeconfig=/does/not/exist"})
		expectError(t, cmd.ExecuteContext(t.Context()), want)
	})
	t.Run("registration controller", func(t *testing.T) {
		t.Setenv("IMPORT_POLICY_FILE", path)
		cmd := NewRegistrationController()
		expectError(t, cmd.PreRunE(cmd, nil), want)
	})
	t.Run("importer", func(t *testing.T) {
		o := newOptions()
		o.PolicyFile = path
		expectError(t, RunImporter(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, "ns", o, nil), want)
	})
	t.Run("absent", func(t *testing.T) {
		o := newOptions()
		o.PolicyFile = path + "-absent"
		expectError(t, o.Validate(), "--policy-file: reading the policy: open "+o.PolicyFile)
	})
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v", err)
	case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}

// setVerbosity sets klog's level, which is one for the process, until the end of the test.
func setVerbosity(t *testing.T, level string) {
	t.Helper()
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	before := flags.Lookup("v").Value.String()
	t.Cleanup(func() { _ = flags.Set("v", before) })
	if err := flags.Set("v", level); err != nil {
		t.Fatal(err)
	}
}

func TestVerbosityThatLogsBodies(t *testing.T) {
	const want = "--v: must be below 8, from which on client-go logs the bodies of answers, Secrets included"
	for level, want := range map[string]string{"7": "", "8": want, "10": want} {
		setVerbosity(t, level)
		expectError(t, newOptions().Validate(), want)
	}
}

// The command refuses it before it speaks to the hub.
func TestImportControllerRefusesToLogBodies(t *testing.T) {
	setVerbosity(t, "0")
	t.Cleanup(func() { _ = logsapi.ResetForTest(nil) })
	if err := logsapi.ResetForTest(nil); err != nil {
		t.Fatal(err)
	}
	cmd, err := NewImportController("v1")
	if err != nil {
		t.Fatal(err)
	}
	cmd.SetArgs([]string{"--v=8", "--kubeconfig=/does/not/exist"})
	expectError(t, cmd.ExecuteContext(t.Context()), "--v: must be below 8")
}

func TestControllerOptionsValidate(t *testing.T) {
	good := func() *controllerOptions {
		return &controllerOptions{
			importer: newOptions(), namespace: "a", clusterManagerName: "b", leaseDuration: 3, renewDeadline: 2, retryPeriod: 1, qps: 1, burst: 1,
		}
	}
	const leases = "--leader-elect-…: the lease duration must be above the renew deadline, and that above the retry period"
	const rate = "--kube-api-qps, --kube-api-burst: must be above 0"
	cases := []struct {
		name string
		edit func(*controllerOptions)
		want string
	}{
		{"good", func(*controllerOptions) {}, ""},
		{"importer", func(o *controllerOptions) { o.importer.Workers = 0 }, "--import-workers: "},
		{"namespace", func(o *controllerOptions) { o.namespace = "" }, "--namespace: must not be empty"},
		{"ClusterManager", func(o *controllerOptions) { o.clusterManagerName = "" }, "--cluster-manager-name: must not be empty"},
		{"retry", func(o *controllerOptions) { o.retryPeriod = 0 }, leases},
		{"renew", func(o *controllerOptions) { o.renewDeadline = 1 }, leases},
		{"lease", func(o *controllerOptions) { o.leaseDuration = 2 }, leases},
		{"qps", func(o *controllerOptions) { o.qps = 0 }, rate},
		{"burst", func(o *controllerOptions) { o.burst = -1 }, rate},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := good()
			c.edit(o)
			expectError(t, o.validate(), c.want)
		})
	}
}

func TestNewImportController(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "from-the-environment")
	cmd, err := NewImportController("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Version != "v1.2.3" {
		t.Errorf("version is %q", cmd.Version)
	}
	for name, want := range map[string]string{
		"namespace": "from-the-environment", "cluster-manager-name": "cluster-manager", "leader-elect": "true",
		"leader-elect-lease-duration": "15s", "leader-elect-renew-deadline": "10s", "leader-elect-retry-period": "2s",
		"health-probe-bind-address": ":8081", "metrics-bind-address": ":8080", "providers": "[kubeconfig]",
		"import-renderers": "[render-auto,render-from-config-secret]", "v": "0", "logging-format": "text", "kubeconfig": "",
	} {
		flag := cmd.Flags().Lookup(name)
		if flag == nil {
			t.Errorf("there is no flag --%s", name)
			continue
		}
		if got := flag.DefValue; got != want {
			t.Errorf("--%s is %q, want %q", name, got, want)
		}
	}
	if usage := cmd.Flags().Lookup("feature-gates").Usage; !strings.Contains(usage, "ClusterImporter=true|false") {
		t.Errorf("usage of --feature-gates is %q", usage)
	}
	cmd.SetArgs([]string{"unexpected"})
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("an argument is accepted")
	}
}

// The hub's operator starts the drop-in with the flags that it knows of upstream's command.
func TestRegistrationControllerHasUpstreamsFlags(t *testing.T) {
	ours, upstream := NewRegistrationController(), hub.NewRegistrationController()
	if ours.Use != upstream.Use {
		t.Errorf("command is %q, want %q", ours.Use, upstream.Use)
	}
	count := 0
	compare := func(theirs, own func(*cobra.Command) *pflag.FlagSet) {
		theirs(upstream).VisitAll(func(flag *pflag.Flag) {
			count++
			got := own(ours).Lookup(flag.Name)
			switch {
			case got == nil:
				t.Errorf("there is no flag --%s", flag.Name)
			case got.Value.Type() != flag.Value.Type():
				t.Errorf("--%s is of type %s, want %s", flag.Name, got.Value.Type(), flag.Value.Type())
			case got.Shorthand != flag.Shorthand:
				t.Errorf("--%s has the short name %q, want %q", flag.Name, got.Shorthand, flag.Shorthand)
			case got.DefValue != flag.DefValue && flag.Name != "import-renderers":
				t.Errorf("--%s is %q by default, want %q", flag.Name, got.DefValue, flag.DefValue)
			}
		})
	}
	compare((*cobra.Command).Flags, (*cobra.Command).Flags)
	compare((*cobra.Command).PersistentFlags, (*cobra.Command).PersistentFlags)
	if count < 20 {
		t.Errorf("compared %d flags", count)
	}
	if got := ours.Flags().Lookup("providers").DefValue; got != "[kubeconfig,capi]" {
		t.Errorf("providers are %s", got)
	}
}

func TestRegistrationControllerValidates(t *testing.T) {
	cmd := NewRegistrationController()
	if err := cmd.Flags().Parse([]string{"--import-workers=0"}); err != nil {
		t.Fatal(err)
	}
	expectError(t, cmd.PreRunE(cmd, nil), "--import-workers: ")
}

func TestNewResolvers(t *testing.T) {
	for _, insecure := range []bool{false, true} {
		resolvers, err := newResolvers(&ImporterOptions{InsecureAllowSkipTLSVerify: insecure}, policy.Default, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{
			credential.ResolverAKS, credential.ResolverClusterProfile, credential.ResolverEKS, credential.ResolverExec,
			credential.ResolverGKE, credential.ResolverKubeconfig, credential.ResolverToken,
		}, resolvers.Names()); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
		secret := kubeconfigSecret("insecure-skip-tls-verify: true")
		_, err = resolvers.Resolve(t.Context(), credential.Request{ClusterName: "x", Secret: secret})
		if insecure != (err == nil) {
			t.Errorf("insecure allowed %t: got %v", insecure, err)
		}
	}
}

func TestRunImporterRefusesUnknownProviders(t *testing.T) {
	o := newOptions()
	o.Providers = []string{ProviderKubeconfig, "eks"}
	ready := func() { t.Error("it works") }
	err := RunImporter(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, "ns", o, ready)
	expectError(t, err, `provider "eks" does not exist`)
}

func TestRunImporterRefusesBadOptions(t *testing.T) {
	cases := []struct {
		name string
		edit func(*ImporterOptions)
		want string
	}{
		{"renderer", func(o *ImporterOptions) { o.Renderers.ImporterRenderers = []string{"x"} }, "building renderer x: "},
		{"timeout", func(o *ImporterOptions) { o.Connection.DialTimeout = -1 }, "building provider kubeconfig: option Connection: dial-timeout"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := newOptions()
			c.edit(o)
			expectError(t, RunImporter(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, "ns", o, nil), c.want)
		})
	}
}

// A hub that does not answer is no end: the importer waits for it until the context ends.
func TestRunImporterEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ready := func() { t.Error("it works") }
	if err := RunImporter(ctx, &rest.Config{Host: "https://127.0.0.1:1"}, "ns", newOptions(), ready); err != nil {
		t.Errorf("got %v", err)
	}
}
