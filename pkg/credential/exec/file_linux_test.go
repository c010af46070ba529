// Copyright Contributors to the Open Cluster Management project

package exec_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/exec"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// What was hashed is what runs, whatever is put in its place.
func TestSwappedFile(t *testing.T) {
	plugin, err := buildPlugin()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		swap func(t *testing.T, path, marker string)
	}{
		{"renamed over", func(t *testing.T, path, marker string) {
			script := filepath.Join(filepath.Dir(path), "new")
			writeFile(t, script, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o555)
			if err := os.Rename(script, path); err != nil {
				t.Fatal(err)
			}
		}},
		{"removed", func(t *testing.T, path, _ string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}},
		{"directory replaced", func(t *testing.T, path, marker string) {
			dir := filepath.Dir(path)
			if err := os.Rename(dir, dir+"-old"); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o555)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, "report")
			marker := filepath.Join(t.TempDir(), "marker")
			swapped := false
			exec.BeforeStart(f.StanzaResolver, func() {
				chmod(t, f.dir, 0o755)
				c.swap(t, filepath.Join(f.dir, pluginName), marker)
				swapped = true
			})
			got := f.report(t, request(t, "report"))
			if !swapped || got.Args[0] != pluginName {
				t.Errorf("swapped %t, ran %q", swapped, got.Args)
			}
			if _, err := os.Stat(marker); !os.IsNotExist(err) {
				t.Error("the other program ran")
			}
			exec.BeforeStart(f.StanzaResolver, nil)
			_, err := f.Resolve(t.Context(), request(t, "report"))
			expectError(t, err, credential.IsDenied, "the plugin demo cannot be run: ")
		})
	}
	if data, err := os.ReadFile(plugin); err != nil || !strings.HasPrefix(string(data), "\x7fELF") {
		t.Error("the test has changed the program itself")
	}
}

// Each run makes the checks that Verify makes, and denies what that finds.
func TestFaults(t *testing.T) {
	const (
		missing    = "its file is not in the plugin directory"
		unopened   = "its file cannot be opened"
		irregular  = "it is not a regular file"
		script     = "its file is not an ELF program"
		digest     = "its file does not have the digest that the policy has for " + platform
		writable   = "its file is writable for this process"
		executable = "its file is not executable for this process"
		directory  = "the plugin directory is writable for this process"
	)
	replace := func(content string, mode os.FileMode) func(t *testing.T, f *fixture, path string) {
		return func(t *testing.T, f *fixture, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, []byte(content), mode)
			// Even where the digest is right.
			f.plugin.SHA256[platform] = digestOf([]byte(content))
		}
	}
	link := func(target string) func(t *testing.T, f *fixture, path string) {
		return func(t *testing.T, _ *fixture, path string) {
			if err := os.Rename(path, filepath.Join(filepath.Dir(path), "real")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	mode := func(mode os.FileMode) func(t *testing.T, f *fixture, path string) {
		return func(t *testing.T, _ *fixture, path string) { chmod(t, path, mode) }
	}
	plugin, err := buildPlugin()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, f *fixture, path string)
		want string
	}{
		{"all is well", func(*testing.T, *fixture, string) {}, ""},
		{"digest in capitals", func(_ *testing.T, f *fixture, _ string) {
			f.plugin.SHA256[platform] = strings.ToUpper(f.plugin.SHA256[platform])
		}, ""},
		{"link inside, as in a volume", link("real"), ""},
		{"other file", func(_ *testing.T, f *fixture, _ string) { f.plugin.File = "other" }, missing},
		{"script", replace("#!/bin/sh\necho "+sentinel+"\n", 0o555), script},
		{"empty", replace("", 0o555), script},
		{"other digest", func(_ *testing.T, f *fixture, _ string) { f.plugin.SHA256[platform] = digestOf(nil) }, digest},
		{"one byte more", func(t *testing.T, f *fixture, path string) {
			right := f.plugin.SHA256[platform]
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			replace(string(data)+"\n", 0o555)(t, f, path)
			f.plugin.SHA256[platform] = right
		}, digest},
		{"link out of the directory", link(plugin), unopened},
		{"link upwards", link("../../../../../../../../../../" + plugin), unopened},
		{"link into nothing", link("nothing"), missing},
		{"directory", func(t *testing.T, _ *fixture, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, irregular},
		{"pipe", func(t *testing.T, _ *fixture, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(path, 0o555); err != nil {
				t.Fatal(err)
			}
		}, irregular},
		{"not executable", mode(0o444), executable},
		{"writable", mode(0o755), writable},
		{"directory writable", func(*testing.T, *fixture, string) {}, directory},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, "report")
			chmod(t, f.dir, 0o755)
			c.make(t, f, filepath.Join(f.dir, pluginName))
			if c.want != directory {
				readOnly(t, f.dir)
			}
			verdicts := exec.Verify(f.policy(t), f.dir)
			var problems []string
			for _, v := range verdicts {
				if v.Bad() {
					problems = append(problems, v.Problem)
					if v.Next == "" {
						t.Errorf("no next step: %+v", v)
					}
				}
			}
			_, err := f.Resolve(t.Context(), request(t, "report"))
			if c.want == "" {
				if err != nil || len(problems) > 0 {
					t.Errorf("got %v, verdicts %q", err, problems)
				}
				return
			}
			expectError(t, err, credential.IsDenied,
				"the plugin demo cannot be run: "+c.want+`; let the administrator of the hub run "import-controller plugins verify"`)
			if diff := cmp.Diff([]string{c.want}, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	dir, digest := pluginDirectory(t)
	chmod(t, dir, 0o755)
	writeFile(t, filepath.Join(dir, "README"), nil, 0o444)
	writeFile(t, filepath.Join(dir, "..data"), nil, 0o444)
	readOnly(t, dir)
	plugin := func(name, file, digest string) policy.Plugin {
		return policy.Plugin{Name: name, File: file, SHA256: map[string]string{platform: digest}, Hosts: []string{"*"}}
	}
	p := parsePolicy(t, policy.ImportPolicy{Plugins: []policy.Plugin{
		plugin("wrong", pluginName, digestOf(nil)), plugin(pluginName, "", digest), plugin("absent", "", digest),
	}})
	want := []exec.Verdict{
		{File: "."},
		{
			Plugin: "wrong", File: pluginName, SHA256: digest, Problem: "its file does not have the digest that the policy has for " + platform,
			Next: "put the right file there, or the digest of this one into sha256",
		},
		{Plugin: pluginName, File: pluginName, SHA256: digest},
		{Plugin: "absent", File: "absent", Problem: "its file is not in the plugin directory", Next: "put it there, or correct file in the policy"},
		{File: "README", Problem: "no plugin of the policy has this file", Next: "remove it, or add it to plugins", Harmless: true},
	}
	got := exec.Verify(p, dir)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if got[0].Bad() || !got[1].Bad() || got[2].Bad() || !got[3].Bad() || got[4].Bad() {
		t.Error("the wrong ones are bad")
	}
}

func TestVerifyDirectory(t *testing.T) {
	none, one := policy.Default(), parsePolicy(t, policy.ImportPolicy{Plugins: []policy.Plugin{
		{Name: pluginName, SHA256: map[string]string{platform: digestOf(nil)}, Hosts: []string{"*"}},
	}})
	if got := exec.Verify(none, ""); got != nil {
		t.Errorf("nothing is wanted: %+v", got)
	}
	empty := t.TempDir()
	readOnly(t, empty)
	for _, c := range []struct {
		policy    *policy.Policy
		directory string
		want      string
	}{
		{one, "", "there is no plugin directory"},
		{one, filepath.Join(empty, "none"), "the plugin directory cannot be opened"},
		{none, empty, "the plugin directory is empty"},
		{none, t.TempDir(), "the plugin directory is writable for this process"},
	} {
		if got := exec.Verify(c.policy, c.directory); len(got) == 0 || got[0].File != "." || got[0].Problem != c.want || !got[0].Bad() {
			t.Errorf("%s: got %+v", c.want, got)
		}
	}
}

// A directory that is mounted read-only, or noexec, is told apart by its mount and not by its mode.
func TestMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	path, err := buildPlugin()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := parsePolicy(t, policy.ImportPolicy{Plugins: []policy.Plugin{
		{Name: pluginName, SHA256: map[string]string{platform: digestOf(data)}, Hosts: []string{"*"}},
	}})
	for _, c := range []struct {
		name  string
		flags uintptr
		want  string
	}{
		{"read-only", syscall.MS_RDONLY, ""},
		{"noexec", syscall.MS_RDONLY | syscall.MS_NOEXEC, "the plugin directory is mounted noexec"},
		{"read-write", 0, "the plugin directory is writable for this process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
				t.Skipf("no mounts here: %v", err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			writeFile(t, filepath.Join(dir, pluginName), data, 0o755)
			if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|c.flags, ""); err != nil {
				t.Fatal(err)
			}
			verdicts := exec.Verify(p, dir)
			if len(verdicts) != 2 || verdicts[0].Problem != c.want || c.want == "" && verdicts[1].Problem != "" {
				t.Errorf("got %+v", verdicts)
			}
		})
	}
}
