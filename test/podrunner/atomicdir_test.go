// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// visible reads what a process sees: every name that does not begin with two dots.
func visible(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		root, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			got[e.Name()+strings.TrimPrefix(path, root)] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestAtomicDir(t *testing.T) {
	d := &atomicDir{path: filepath.Join(t.TempDir(), "volume")}
	steps := []struct {
		name    string
		files   map[string]string
		changed bool
	}{
		{name: "empty", files: map[string]string{}, changed: true},
		{name: "first files", files: map[string]string{"tls.crt": "a", "tls.key": "a", "sub/deep": "x"}, changed: true},
		{name: "same again", files: map[string]string{"tls.crt": "a", "tls.key": "a", "sub/deep": "x"}},
		{name: "rotated", files: map[string]string{"tls.crt": "b", "tls.key": "b", "sub/deep": "x"}, changed: true},
		{name: "some removed", files: map[string]string{"tls.crt": "b"}, changed: true},
	}
	for _, s := range steps {
		files := map[string]file{}
		for n, data := range s.files {
			files[n] = file{data: data, mode: 0o600}
		}
		changed, err := d.write(files)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if changed != s.changed {
			t.Errorf("%s: changed = %v, want %v", s.name, changed, s.changed)
		}
		if diff := cmp.Diff(s.files, visible(t, d.path)); diff != "" {
			t.Errorf("%s: %s", s.name, diff)
		}
	}
	// Old versions would pile up, with old credentials in them.
	versions, err := filepath.Glob(filepath.Join(d.path, dataPattern+"*"))
	if err != nil || len(versions) != 1 {
		t.Errorf("versions left: %v, %v", versions, err)
	}
}

func TestAtomicDirRefusesToLeaveTheVolume(t *testing.T) {
	for _, name := range []string{"../x", "/etc/passwd", "..data", "a/../../x"} {
		d := &atomicDir{path: t.TempDir()}
		if _, err := d.write(map[string]file{name: {}}); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}
