// Copyright Contributors to the Open Cluster Management project

package clusterprofile

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	kjson "sigs.k8s.io/json"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// Extensions of a cluster in a ClusterProfile, by Kubernetes' enhancement proposal 5339: a list of arguments, and a mapping from
// names of variables to their values.
const (
	extensionArgs = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
	extensionEnv  = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
)

// Values of profileSourcedCLIArgsPolicy and profileSourcedEnvVarsPolicy.
const (
	sourcedIgnore  = "Ignore"
	sourcedAppend  = "Append"
	sourcedMissing = "AppendIfNotExists"
	sourcedReplace = "Replace"
)

// provider is an access provider of the file.
type provider struct {
	// Name is what profiles call it.
	Name string `json:"name"`
	// ExecConfig has the keys of the exec stanza of a kubeconfig.
	ExecConfig *clientcmdapiv1.ExecConfig `json:"execConfig"`
	// ArgsPolicy and EnvPolicy say what becomes of what a profile adds, once the ImportPolicy allows it. Older files don't have
	// them; the default is to add what is not there.
	ArgsPolicy string `json:"profileSourcedCLIArgsPolicy,omitempty"`
	EnvPolicy  string `json:"profileSourcedEnvVarsPolicy,omitempty"`
}

// readProviders reads the file strictly. It has no credential, so errors may show what is there.
func readProviders(path string) ([]provider, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the administrator's flag.
	if err != nil {
		return nil, fmt.Errorf("reading the access providers: %w", err)
	}
	file := struct {
		Providers []provider `json:"providers"`
	}{}
	strict, err := kjson.UnmarshalStrict(data, &file)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(file.Providers) == 0 {
		return nil, fmt.Errorf("%s: providers is missing", path)
	}
	names := map[string]bool{}
	var errs []error
	for i, p := range file.Providers {
		field := func(name, problem string) {
			errs = append(errs, fmt.Errorf("%s: providers[%d].%s %s", path, i, name, problem))
		}
		switch {
		case p.Name == "":
			field("name", "is missing")
		case names[p.Name]:
			field("name", "stands twice")
		}
		names[p.Name] = true
		switch {
		case p.ExecConfig == nil:
			field("execConfig", "is missing")
		case p.ExecConfig.Command == "":
			field("execConfig.command", "is missing")
		}
		if !slices.Contains([]string{"", sourcedIgnore, sourcedAppend}, p.ArgsPolicy) {
			field("profileSourcedCLIArgsPolicy", "must be "+sourcedIgnore+" or "+sourcedAppend)
		}
		if !slices.Contains([]string{"", sourcedIgnore, sourcedMissing, sourcedReplace}, p.EnvPolicy) {
			field("profileSourcedEnvVarsPolicy", "must be one of "+strings.Join([]string{sourcedIgnore, sourcedMissing, sourcedReplace}, ", "))
		}
	}
	return file.Providers, errors.Join(errs...)
}

// exec is the command for a cluster, with what the profile adds if that is allowed. It shares no memory with the provider, which
// is that of all profiles.
func (p provider) exec(cluster *clientcmdapiv1.Cluster, rule policy.ClusterProfiles) (clientcmdapiv1.ExecConfig, error) {
	exec := *p.ExecConfig.DeepCopy()
	for _, extension := range cluster.Extensions {
		switch {
		case extension.Name == extensionArgs && rule.AdditionalArgs && p.ArgsPolicy != sourcedIgnore:
			var args []string
			if err := decodeExtension(extension, &args); err != nil {
				return exec, err
			}
			exec.Args = append(exec.Args, args...)
		case extension.Name == extensionEnv && rule.AdditionalEnv && p.EnvPolicy != sourcedIgnore:
			var env map[string]string
			if err := decodeExtension(extension, &env); err != nil {
				return exec, err
			}
			for _, name := range slices.Sorted(maps.Keys(env)) {
				at := slices.IndexFunc(exec.Env, func(v clientcmdapiv1.ExecEnvVar) bool { return v.Name == name })
				switch {
				case at < 0:
					exec.Env = append(exec.Env, clientcmdapiv1.ExecEnvVar{Name: name, Value: env[name]})
				case p.EnvPolicy == sourcedReplace:
					exec.Env[at].Value = env[name]
				}
			}
		}
	}
	return exec, nil
}

func decodeExtension(extension clientcmdapiv1.NamedExtension, into any) error {
	strict, err := kjson.UnmarshalStrict(extension.Extension.Raw, into)
	if err != nil || len(strict) > 0 {
		// The text of the library quotes its input.
		return credential.Invalid(fmt.Errorf("the ClusterProfile that it names: the extension %s must be a list of strings, or a mapping of "+
			"strings for the environment", extension.Name))
	}
	return nil
}
