// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// dataLink and the names beginning with two dots are what the kubelet uses; programs that watch mounted
	// volumes know to expect them.
	dataLink    = "..data"
	dataLinkNew = "..data_tmp"
	dataPattern = "..version-"
)

// file is one file of a volume.
type file struct {
	data string
	mode fs.FileMode
}

// atomicDir is a volume directory whose files change all at once: a reader that opens a certificate and its
// key never sees one old and one new. Each version has a directory of its own and the visible names are
// links through a single link that is replaced by rename.
// It is not safe for concurrent use.
type atomicDir struct {
	path    string
	current map[string]file
	version string
}

// write makes files, keyed by their relative path, the content of the directory. It reports whether anything changed.
func (d *atomicDir) write(files map[string]file) (bool, error) {
	if d.version != "" && equalFiles(d.current, files) {
		return false, nil
	}
	for name := range files {
		if !filepath.IsLocal(name) || strings.HasPrefix(name, "..") {
			return false, fmt.Errorf("file name %q leaves the volume", name)
		}
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return false, fmt.Errorf("create volume: %w", err)
	}
	version, err := os.MkdirTemp(d.path, dataPattern)
	if err != nil {
		return false, fmt.Errorf("create volume version: %w", err)
	}
	top := map[string]struct{}{}
	for name, f := range files {
		top[strings.SplitN(name, string(filepath.Separator), 2)[0]] = struct{}{}
		path := filepath.Join(version, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return false, fmt.Errorf("create volume directory: %w", err)
		}
		if err := os.WriteFile(path, []byte(f.data), f.mode); err != nil {
			return false, fmt.Errorf("write volume file: %w", err)
		}
	}

	next := filepath.Join(d.path, dataLinkNew)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("remove stale link: %w", err)
	}
	if err := os.Symlink(filepath.Base(version), next); err != nil {
		return false, fmt.Errorf("link volume version: %w", err)
	}
	if err := os.Rename(next, filepath.Join(d.path, dataLink)); err != nil {
		return false, fmt.Errorf("switch volume version: %w", err)
	}
	if err := d.linkNames(top); err != nil {
		return false, err
	}
	if d.version != "" {
		if err := os.RemoveAll(d.version); err != nil {
			return false, fmt.Errorf("remove old volume version: %w", err)
		}
	}
	d.version, d.current = version, files
	return true, nil
}

// linkNames adds the visible names that are missing and removes those that lost their file.
func (d *atomicDir) linkNames(top map[string]struct{}) error {
	for name := range top {
		link := filepath.Join(d.path, name)
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join(dataLink, name), link); err != nil {
			return fmt.Errorf("link volume file: %w", err)
		}
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("list volume: %w", err)
	}
	for _, e := range entries {
		if _, keep := top[e.Name()]; keep || strings.HasPrefix(e.Name(), "..") {
			continue
		}
		if err := os.Remove(filepath.Join(d.path, e.Name())); err != nil {
			return fmt.Errorf("remove stale volume file: %w", err)
		}
	}
	return nil
}

func equalFiles(a, b map[string]file) bool {
	if len(a) != len(b) {
		return false
	}
	for name, f := range a {
		if g, ok := b[name]; !ok || f != g {
			return false
		}
	}
	return true
}
