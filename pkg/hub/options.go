// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	importeroptions "open-cluster-management.io/ocm/pkg/registration/hub/importer/options"

	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

const (
	// ProviderKubeconfig imports clusters by annotated Secrets.
	ProviderKubeconfig = "kubeconfig"
	// ProviderCAPI is OCM's provider for clusters of Cluster API.
	ProviderCAPI = "capi"

	// DefaultWorkers is the number of imports at the same time. A cluster that does not answer holds one for up to a minute, and
	// costs nothing meanwhile, so this is far above what the cores can do: two hundred Secrets that are corrected at once are all
	// tried at once.
	DefaultWorkers = 256
	maxWorkers     = 1024

	// policyFileVariable is for the drop-in, whose command line and volumes the hub's operator writes: an image can have both
	// the file and the variable.
	policyFileVariable = "IMPORT_POLICY_FILE"

	// bodyVerbosity is the level at which client-go's rest.Request logs bodies.
	bodyVerbosity = 8
)

// ImporterOptions configure the importer, in either process.
type ImporterOptions struct {
	// Providers are ProviderKubeconfig and ProviderCAPI in the order in which they may claim a cluster.
	Providers []string
	// Workers is the number of imports at the same time; DefaultWorkers.
	Workers int
	// ImportNamespaces are the namespaces whose Secrets may import any cluster.
	ImportNamespaces []string
	// Connection bounds what is spent on one managed cluster.
	Connection kubeconfig.ConnectionOptions
	// PolicyFile is the path of an ImportPolicy, IMPORT_POLICY_FILE if that is set; without one it is policy.Default.
	PolicyFile string
	// PluginDirectory holds the plugins that the policy names; none without one.
	PluginDirectory string
	// ClusterProfileProviderFile is the path of the access providers of ClusterProfiles.
	ClusterProfileProviderFile string
	// InsecureAllowSkipTLSVerify accepts kubeconfigs with insecure-skip-tls-verify; off.
	InsecureAllowSkipTLSVerify bool
	// Renderers are the options of OCM's renderers: which of them, the hub's URL, the agent's image.
	Renderers *importeroptions.Options
}

// NewImporterOptions returns the defaults, with the given providers. The renderers are an argument since the drop-in
// shares them with upstream's options.
func NewImporterOptions(renderers *importeroptions.Options, providers ...string) *ImporterOptions {
	// Both are on by default: what OCM knows of the hub, and over it what a cluster has of its own.
	renderers.ImporterRenderers = []string{importeroptions.RenderAuto, importeroptions.RenderFromConfigSecret}
	o := &ImporterOptions{
		Providers:        providers,
		Workers:          DefaultWorkers,
		ImportNamespaces: []string{kubeconfig.DefaultImportNamespace},
		PolicyFile:       os.Getenv(policyFileVariable),
		Renderers:        renderers,
	}
	o.Connection.Default()
	return o
}

// AddFlags adds the flags of all options but those of the renderers.
func (o *ImporterOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Providers, "providers", o.Providers,
		"Import providers in the order in which they may claim a cluster: kubeconfig, capi. Without capi, clusters that "+
			"Cluster API owns are left to the hub's own importer; with it, that importer must not run.")
	flags.IntVar(&o.Workers, "import-workers", o.Workers, "Number of clusters that are imported at the same time.")
	flags.StringSliceVar(&o.ImportNamespaces, "import-namespaces", o.ImportNamespaces,
		"Namespaces whose annotated Secrets may import any cluster. Each needs the Role that manifests/ has for the default.")
	flags.DurationVar(&o.Connection.DialTimeout, "spoke-dial-timeout", o.Connection.DialTimeout,
		"Bound on name resolution and the TCP connection to a managed cluster.")
	flags.DurationVar(&o.Connection.TLSHandshakeTimeout, "spoke-tls-timeout", o.Connection.TLSHandshakeTimeout,
		"Bound on the TLS handshake with a managed cluster.")
	flags.DurationVar(&o.Connection.ResponseHeaderTimeout, "spoke-header-timeout", o.Connection.ResponseHeaderTimeout,
		"Bound on the wait for the first byte of an answer of a managed cluster.")
	flags.DurationVar(&o.Connection.RequestTimeout, "spoke-request-timeout", o.Connection.RequestTimeout,
		"Bound on a whole request to a managed cluster.")
	flags.DurationVar(&o.Connection.ImportTimeout, "spoke-import-timeout", o.Connection.ImportTimeout,
		"Bound on all requests of one import together.")
	flags.Int64Var(&o.Connection.MaxResponseBytes, "spoke-max-response-bytes", o.Connection.MaxResponseBytes,
		"Bound on the size of one answer of a managed cluster, decompressed.")
	flags.Float32Var(&o.Connection.QPS, "spoke-api-qps", o.Connection.QPS, "Requests a second to one managed cluster.")
	flags.IntVar(&o.Connection.Burst, "spoke-api-burst", o.Connection.Burst, "Requests at once to one managed cluster.")
	flags.StringVar(&o.PolicyFile, "policy-file", o.PolicyFile,
		"File of kind ImportPolicy: what import Secrets may ask for, read again when it changes. Without one, kubeconfigs and "+
			"tokens. IMPORT_POLICY_FILE if that is set.")
	flags.StringVar(&o.PluginDirectory, "plugin-directory", o.PluginDirectory,
		"Directory of the plugins that the policy names, which must be read-only. Without one no plugin is run.")
	flags.StringVar(&o.ClusterProfileProviderFile, "clusterprofile-provider-file", o.ClusterProfileProviderFile,
		"File of the access providers of ClusterProfiles, as other users of the ClusterProfile API have it.")
	flags.BoolVar(&o.InsecureAllowSkipTLSVerify, "insecure-allow-skip-tls-verify", o.InsecureAllowSkipTLSVerify,
		"Accept kubeconfigs with insecure-skip-tls-verify: whoever is between the hub and the cluster gets the credential.")
}

// Validate returns all that is wrong, each with the flag that sets it.
func (o *ImporterOptions) Validate() error {
	var errs []error
	known := []string{ProviderKubeconfig, ProviderCAPI}
	if len(o.Providers) == 0 {
		errs = append(errs, fmt.Errorf("--providers: name at least one of %s", strings.Join(known, ", ")))
	}
	for i, name := range o.Providers {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("--providers: %q is not one of %s", name, strings.Join(known, ", ")))
		}
		if slices.Contains(o.Providers[:i], name) {
			errs = append(errs, fmt.Errorf("--providers: %q stands twice", name))
		}
	}
	if o.Workers < 1 || o.Workers > maxWorkers {
		errs = append(errs, fmt.Errorf("--import-workers: must be from 1 to %d, not %d", maxWorkers, o.Workers))
	}
	if err := kubeconfig.ValidateImportNamespaces(o.ImportNamespaces); err != nil {
		errs = append(errs, fmt.Errorf("--import-namespaces: %w", err))
	}
	for _, err := range o.Connection.Validate() {
		errs = append(errs, fmt.Errorf("--spoke-%w", err))
	}
	for _, renderer := range o.Renderers.ImporterRenderers {
		if renderer != importeroptions.RenderAuto && renderer != importeroptions.RenderFromConfigSecret {
			errs = append(errs, fmt.Errorf("--import-renderers: %q is not one of %s, %s",
				renderer, importeroptions.RenderAuto, importeroptions.RenderFromConfigSecret))
		}
	}
	if namespace, name, err := cache.SplitMetaNamespaceKey(o.Renderers.BootstrapSA); err != nil || namespace == "" || name == "" {
		errs = append(errs, fmt.Errorf("--bootstrap-serviceaccount: %q is not namespace/name", o.Renderers.BootstrapSA))
	}
	if _, err := policy.NewSource(o.PolicyFile); err != nil {
		errs = append(errs, fmt.Errorf("--policy-file: %w", err))
	}
	if klog.V(bodyVerbosity).Enabled() {
		errs = append(errs, fmt.Errorf("--v: must be below %d, from which on client-go logs the bodies of answers, Secrets included",
			bodyVerbosity))
	}
	return errors.Join(errs...)
}
