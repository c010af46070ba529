// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // for --logging-format=json
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	ocmfeature "open-cluster-management.io/api/feature"
	importeroptions "open-cluster-management.io/ocm/pkg/registration/hub/importer/options"
)

const (
	// DefaultNamespace is where the components of a hub run.
	DefaultNamespace = "open-cluster-management-hub"
	// DefaultClusterManagerName is the name that OCM's installers give to the ClusterManager.
	DefaultClusterManagerName = "cluster-manager"

	leaderElectionID = "import-controller"
	// The lease times are those of kube-controller-manager.
	defaultLeaseDuration = 15 * time.Second
	defaultRenewDeadline = 10 * time.Second
	defaultRetryPeriod   = 2 * time.Second
	// defaultQPS and defaultBurst let a thousand clusters that come at once be imported as fast as two cores can: an import asks the
	// hub a dozen times. The hub's API server shares its time between its clients by itself.
	defaultQPS   = 500
	defaultBurst = 1000
	// gracefulShutdown is above the default bound on a request to a managed cluster.
	gracefulShutdown = 20 * time.Second
)

// controllerOptions configure the stand-alone component.
type controllerOptions struct {
	importer           *ImporterOptions
	namespace          string
	clusterManagerName string
	featureGates       featuregate.MutableFeatureGate
	gateIsSet          func() bool

	leaderElect   bool
	leaseDuration time.Duration
	renewDeadline time.Duration
	retryPeriod   time.Duration

	healthAddress  string
	metricsAddress string
	qps            float32
	burst          int
}

// NewImportController returns the command of the stand-alone component.
func NewImportController(version string) (*cobra.Command, error) {
	countHubRequestsOnly()
	logging := logsapi.NewLoggingConfiguration()
	o := &controllerOptions{
		importer:           NewImporterOptions(importeroptions.New(), ProviderKubeconfig),
		namespace:          DefaultNamespace,
		clusterManagerName: DefaultClusterManagerName,
		featureGates:       featuregate.NewFeatureGate(),
		leaderElect:        true,
		leaseDuration:      defaultLeaseDuration,
		renewDeadline:      defaultRenewDeadline,
		retryPeriod:        defaultRetryPeriod,
		healthAddress:      ":8081",
		metricsAddress:     ":8080",
		qps:                defaultQPS,
		burst:              defaultBurst,
	}
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		o.namespace = namespace
	}
	if err := o.featureGates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		ocmfeature.ClusterImporter: ocmfeature.DefaultHubRegistrationFeatureGates[ocmfeature.ClusterImporter],
	}); err != nil {
		return nil, fmt.Errorf("adding the feature gate: %w", err)
	}
	cmd := &cobra.Command{
		Use:   "import-controller",
		Short: "Imports existing clusters into an Open Cluster Management hub",
		Long: "Imports existing clusters into an Open Cluster Management hub: an annotated Secret holds the kubeconfig of a\n" +
			"cluster, a ManagedCluster asks for its import, and the klusterlet is deployed to the cluster.",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return fmt.Errorf("logging options: %w", err)
			}
			if err := o.validate(); err != nil {
				return err
			}
			ctrl.SetLogger(klog.Background())
			config, err := ctrlconfig.GetConfig()
			if err != nil {
				return fmt.Errorf("finding the hub, set --kubeconfig outside of a cluster: %w", err)
			}
			return o.run(klog.NewContext(cmd.Context(), klog.Background()), config)
		},
	}
	o.gateIsSet = func() bool { return cmd.Flags().Changed("feature-gates") }
	flags := cmd.Flags()
	o.addFlags(flags)
	logsapi.AddFlags(logging, flags)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newPluginsCommand())
	return cmd, nil
}

func (o *controllerOptions) addFlags(flags *pflag.FlagSet) {
	o.importer.AddFlags(flags)
	o.importer.Renderers.AddFlags(flags)
	kubeconfigFlag := flag.NewFlagSet("", flag.ContinueOnError)
	ctrlconfig.RegisterFlags(kubeconfigFlag)
	flags.AddGoFlagSet(kubeconfigFlag)
	o.featureGates.AddFlag(flags)
	flags.Lookup("feature-gates").Usage += "\nSet here, ClusterImporter is not read from the ClusterManager."
	flags.StringVar(&o.namespace, "namespace", o.namespace,
		"Namespace of the hub's components, for the lease and the image pull Secret; POD_NAMESPACE if that is set.")
	flags.StringVar(&o.clusterManagerName, "cluster-manager-name", o.clusterManagerName,
		"ClusterManager whose feature gate ClusterImporter turns the importer on and off.")
	flags.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "Import only as the leader of the replicas.")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", o.leaseDuration,
		"How long a lease that is not renewed holds.")
	flags.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", o.renewDeadline,
		"How long the leader tries to renew before it stops.")
	flags.DurationVar(&o.retryPeriod, "leader-elect-retry-period", o.retryPeriod, "Time between two tries.")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", o.healthAddress,
		"Address of /healthz and /readyz; 0 turns them off.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress, "Address of /metrics; 0 turns them off.")
	flags.Float32Var(&o.qps, "kube-api-qps", o.qps, "Requests a second to the hub.")
	flags.IntVar(&o.burst, "kube-api-burst", o.burst, "Requests at once to the hub.")
}

func (o *controllerOptions) validate() error {
	errs := []error{o.importer.Validate()}
	if o.namespace == "" {
		errs = append(errs, errors.New("--namespace: must not be empty"))
	}
	if o.clusterManagerName == "" {
		errs = append(errs, errors.New("--cluster-manager-name: must not be empty"))
	}
	if o.retryPeriod <= 0 || o.renewDeadline <= o.retryPeriod || o.leaseDuration <= o.renewDeadline {
		errs = append(errs, errors.New("--leader-elect-…: the lease duration must be above the renew deadline, "+
			"and that above the retry period"))
	}
	if o.qps <= 0 || o.burst <= 0 {
		errs = append(errs, errors.New("--kube-api-qps, --kube-api-burst: must be above 0"))
	}
	return errors.Join(errs...)
}

// run runs the component until the context ends. An importer that fails ends it with an error.
func (o *controllerOptions) run(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = o.qps, o.burst
	shutdown := gracefulShutdown
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		// The manager has no types of its own to read: the provider brings its informers.
		Scheme:                        runtime.NewScheme(),
		Logger:                        klog.FromContext(ctx),
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaderElectionID,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 &o.renewDeadline,
		RetryPeriod:                   &o.retryPeriod,
		HealthProbeBindAddress:        o.healthAddress,
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress, FilterProvider: withComponentMetrics},
		GracefulShutdownTimeout:       &shutdown,
	})
	if err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	client, err := operatorclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the operator client: %w", err)
	}
	gated := &gatedImporter{
		client:             client,
		clusterManagerName: o.clusterManagerName,
		run: func(ctx context.Context, ready func()) error {
			return RunImporter(ctx, config, o.namespace, o.importer, ready)
		},
	}
	if o.gateIsSet() {
		enabled := o.featureGates.Enabled(ocmfeature.ClusterImporter)
		gated.override = &enabled
	}
	if err := errors.Join(
		mgr.Add(manager.RunnableFunc(gated.Start)),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("importer", func(*http.Request) error { return gated.ready() }),
	); err != nil {
		return fmt.Errorf("setting up the manager: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}
