// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"

	"github.com/openshift/library-go/pkg/controller/controllercmd"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	ocmfeature "open-cluster-management.io/api/feature"
	commonoptions "open-cluster-management.io/ocm/pkg/common/options"
	"open-cluster-management.io/ocm/pkg/features"
	registrationhub "open-cluster-management.io/ocm/pkg/registration/hub"
	"open-cluster-management.io/ocm/pkg/version"
)

// NewRegistrationController returns upstream's `registration controller` command with all its flags, and the importer
// of this package in the place of upstream's. The caller adds features.HubMutableFeatureGate to its flags, as
// upstream's main does.
func NewRegistrationController() *cobra.Command {
	countHubRequestsOnly()
	options := commonoptions.NewOptions()
	manager := registrationhub.NewHubManagerOptions()
	importerOptions := NewImporterOptions(manager.ImportOption, ProviderKubeconfig, ProviderCAPI)
	start := func(ctx context.Context, controllerContext *controllercmd.ControllerContext) error {
		enabled := features.HubMutableFeatureGate.Enabled(ocmfeature.ClusterImporter)
		// Upstream's manager builds its importer by this gate, with Cluster API's provider alone and one worker.
		if err := features.HubMutableFeatureGate.SetFromMap(map[string]bool{string(ocmfeature.ClusterImporter): false}); err != nil {
			return fmt.Errorf("switching upstream's importer off: %w", err)
		}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return manager.RunControllerManager(ctx, controllerContext) })
		if enabled {
			group.Go(func() error {
				return RunImporter(ctx, controllerContext.KubeConfig, controllerContext.OperatorNamespace, importerOptions, nil)
			})
		}
		return group.Wait()
	}
	cmd := options.
		NewControllerCommandConfig("registration-controller", version.Get(), start, clock.RealClock{}).
		NewCommandWithContext(context.Background())
	cmd.Use = "controller"
	cmd.Short = "Start the Cluster Registration Controller with the import provider for existing clusters"
	cmd.SilenceUsage = true
	cmd.PreRunE = func(*cobra.Command, []string) error { return importerOptions.Validate() }
	manager.AddFlags(cmd.Flags())
	options.AddFlags(cmd.Flags())
	importerOptions.AddFlags(cmd.Flags())
	return cmd
}
