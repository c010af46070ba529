// Copyright Contributors to the Open Cluster Management project

package exec

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"open-cluster-management.io/import-provider/pkg/policy"
)

// Verdict is what Verify has to say about the plugin directory, a plugin, or a file that no plugin names.
type Verdict struct {
	// Plugin is the name of the plugin; empty for the directory and for a file that no plugin names.
	Plugin string
	// File is the name in the directory; "." for the directory itself.
	File string
	// SHA256 is the digest of the file of a plugin in hexadecimal; empty if it could not be read, or is no program.
	SHA256 string
	// Problem says what is wrong, and Next what to do. Empty if all is well.
	Problem, Next string
	// Harmless: the problem keeps no plugin from running.
	Harmless bool
}

// Bad says whether the problem keeps plugins from running.
func (v Verdict) Bad() bool { return v.Problem != "" && !v.Harmless }

// Verify checks the plugin directory and the plugins of a policy for the platform of this process, as each run does. The verdict on the
// directory comes first, then plugins in the order of the policy, then files that no plugin names, sorted. There is none if
// neither plugins nor a directory are wanted.
func Verify(p *policy.Policy, directory string) []Verdict {
	plugins := p.Plugins()
	if directory == "" && len(plugins) == 0 {
		return nil
	}
	root, err := openDirectory(directory)
	if root == nil {
		return []Verdict{verdict("", ".", "", err)}
	}
	defer root.Close() //nolint:errcheck // it was only read.
	var others []string
	entries, readErr := fs.ReadDir(root.FS(), ".")
	for _, entry := range entries {
		// Volumes of Kubernetes have entries of their own, such as ..data.
		if !strings.HasPrefix(entry.Name(), "..") {
			others = append(others, entry.Name())
		}
	}
	if err == nil && (readErr != nil || len(others) == 0) {
		err = fault("the plugin directory is empty", "mount the image of the plugins there, or let an init container install them")
	}
	verdicts := []Verdict{verdict("", ".", "", err)}
	for _, plugin := range plugins {
		others = slices.DeleteFunc(others, func(name string) bool { return name == plugin.File })
		file, digest, err := openPlugin(root, plugin)
		if err == nil {
			_ = file.Close()
		}
		verdicts = append(verdicts, verdict(plugin.Name, plugin.File, digest, err))
	}
	for _, name := range others {
		unused := verdict("", name, "", fault("no plugin of the policy has this file", "remove it, or add it to plugins"))
		unused.Harmless = true
		verdicts = append(verdicts, unused)
	}
	return verdicts
}

func verdict(plugin, file, digest string, err error) Verdict {
	v := Verdict{Plugin: plugin, File: file, SHA256: digest}
	if found, ok := errors.AsType[*faultError](err); ok {
		v.Problem, v.Next = found.problem, found.next
	}
	return v
}
