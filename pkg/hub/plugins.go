// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"open-cluster-management.io/import-provider/pkg/credential/exec"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// newPluginsCommand returns the command with which an administrator checks plugins, such as in an init container or before a
// change of the policy.
func newPluginsCommand() *cobra.Command {
	policyFile, directory := os.Getenv(policyFileVariable), ""
	verify := &cobra.Command{
		Use:   "verify",
		Short: "Check the plugin directory and the plugins of the policy",
		Long: "Check the plugin directory and the plugins of the policy, for the user and the platform that it is run on, as\n" +
			"is done before each run of a plugin. The exit code is 1 if a plugin could not be run.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			source, err := policy.NewSource(policyFile)
			if err != nil {
				return fmt.Errorf("--policy-file: %w", err)
			}
			return printVerdicts(cmd.OutOrStdout(), exec.Verify(source.Current(), directory))
		},
	}
	verify.Flags().StringVar(&policyFile, "policy-file", policyFile, "File of kind ImportPolicy. IMPORT_POLICY_FILE if that is set.")
	verify.Flags().StringVar(&directory, "plugin-directory", directory, "Directory of the plugins that the policy names.")
	plugins := &cobra.Command{Use: "plugins", Short: "Commands for plugins that print credentials", Args: cobra.NoArgs}
	plugins.AddCommand(verify)
	return plugins
}

// logPlugins says which plugins can't be run. Each run finds that out again, and clusters that need none go on.
func logPlugins(ctx context.Context, current *policy.Policy, directory string) {
	for _, v := range exec.Verify(current, directory) {
		if v.Bad() {
			klog.FromContext(ctx).Error(nil, "Plugins cannot be run", "plugin", v.Plugin, "file", v.File, "problem", v.Problem, "next", v.Next)
		}
	}
}

// printVerdicts prints a table. The error says how many plugins, or the directory, are bad.
func printVerdicts(out io.Writer, verdicts []exec.Verdict) error {
	if len(verdicts) == 0 {
		fmt.Fprintln(out, "The policy has no plugins.")
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PLUGIN\tFILE\tSHA256\tVERDICT\tNEXT STEP")
	bad := 0
	for _, v := range verdicts {
		result := "ok"
		switch {
		case v.Bad():
			bad++
			result = v.Problem
		case v.Harmless:
			result = "not used: " + v.Problem
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", orDash(v.Plugin), v.File, orDash(v.SHA256), result, orDash(v.Next))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the verdicts: %w", err)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d checks failed", bad, len(verdicts))
	}
	return nil
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
