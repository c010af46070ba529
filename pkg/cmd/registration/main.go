// Copyright Contributors to the Open Cluster Management project

// Command registration is the drop-in for OCM's registration image on a hub: the controller and the webhook of upstream,
// with the importer of this project in the controller. A hub uses it by registrationImagePullSpec of its ClusterManager.
package main

import (
	goflag "flag"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/component-base/cli"
	utilflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"

	ocmfeature "open-cluster-management.io/api/feature"
	"open-cluster-management.io/ocm/pkg/cmd/webhook"
	"open-cluster-management.io/ocm/pkg/features"

	"open-cluster-management.io/import-provider/pkg/hub"
)

func main() {
	// The flags of all commands are where upstream's are, since the hub's operator writes the command line.
	pflag.CommandLine.SetNormalizeFunc(utilflag.WordSepNormalizeFunc)
	pflag.CommandLine.AddGoFlagSet(goflag.CommandLine)
	logs.AddFlags(pflag.CommandLine)
	utilruntime.Must(features.HubMutableFeatureGate.Add(ocmfeature.DefaultHubRegistrationFeatureGates))
	features.HubMutableFeatureGate.AddFlag(pflag.CommandLine)

	command := &cobra.Command{
		Use:   "registration",
		Short: "Cluster registration on an Open Cluster Management hub",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(hub.NewRegistrationController(), webhook.NewRegistrationWebhook())
	os.Exit(cli.Run(command))
}
