// Copyright Contributors to the Open Cluster Management project

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	write(t, first, "one")
	write(t, second, strings.Repeat("two", 1000))

	cases := []struct {
		name       string
		args       []string
		binaries   []string
		user       string
		entrypoint []string
	}{
		{name: "one binary", binaries: []string{first}, user: "65532:65532", entrypoint: []string{"/first"}},
		{name: "two binaries", binaries: []string{second, first}, user: "65532:65532", entrypoint: []string{"/second"}},
		{name: "no entrypoint", args: []string{"-entrypoint=false"}, binaries: []string{first}, user: "65532:65532"},
		{name: "user", args: []string{"-user", "0"}, binaries: []string{first}, user: "0", entrypoint: []string{"/first"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "image.tar")
			args := append([]string{"-o", out, "-ref", "example:v1", "-arch", "arm64"}, tc.args...)
			if err := run(append(args, tc.binaries...)); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			config, layer := read(t, data)
			if config.Architecture != "arm64" || config.OS != "linux" || config.Config.User != tc.user {
				t.Errorf("got config %+v", config)
			}
			if !slices.Equal(config.Config.Entrypoint, tc.entrypoint) {
				t.Errorf("want entrypoint %q, got %q", tc.entrypoint, config.Config.Entrypoint)
			}
			if tmp := layer["tmp/"]; tmp.mode != fs.ModeDir|fs.ModeSticky|0o777 {
				t.Errorf("got mode %v of /tmp", tmp.mode)
			}
			if len(layer) != len(tc.binaries)+1 {
				t.Errorf("want /tmp and %d binaries, got %d entries", len(tc.binaries), len(layer))
			}
			for _, binary := range tc.binaries {
				want, err := os.ReadFile(binary)
				if err != nil {
					t.Fatal(err)
				}
				got := layer[filepath.Base(binary)]
				if !bytes.Equal(got.data, want) || got.mode != 0o755 {
					t.Errorf("%s: got mode %v and %d bytes", binary, got.mode, len(got.data))
				}
			}

			again := filepath.Join(t.TempDir(), "image.tar")
			args[1] = again
			if err := run(append(args, tc.binaries...)); err != nil {
				t.Fatal(err)
			}
			if repeated, err := os.ReadFile(again); err != nil || !bytes.Equal(repeated, data) {
				t.Errorf("the second archive differs (%v)", err)
			}
		})
	}
}

func TestRunFails(t *testing.T) {
	dir := t.TempDir()
	out, binary, same := filepath.Join(dir, "image.tar"), filepath.Join(dir, "binary"), filepath.Join(dir, "other", "binary")
	write(t, binary, "")
	write(t, same, "")
	cases := map[string][]string{
		"no binary":      {"-o", out, "-ref", "example:v1"},
		"no output":      {"-ref", "example:v1", binary},
		"no name":        {"-o", out, binary},
		"missing binary": {"-o", out, "-ref", "example:v1", filepath.Join(dir, "missing")},
		"same name":      {"-o", out, "-ref", "example:v1", binary, same},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			if err := run(args); err == nil {
				t.Error("want an error")
			}
			if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("an archive is left behind (%v)", err)
			}
		})
	}
}

type entry struct {
	mode fs.FileMode
	data []byte
}

// read follows the archive from the index to the layer as an importer does, and checks each digest and size on the way.
func read(t *testing.T, data []byte) (imageConfig, map[string]entry) {
	t.Helper()
	files := untar(t, data)
	blob := func(d descriptor, mediaType string) []byte {
		t.Helper()
		digest := strings.TrimPrefix(d.Digest, "sha256:")
		content := files["blobs/sha256/"+digest].data
		sum := sha256.Sum256(content)
		if hex.EncodeToString(sum[:]) != digest || len(content) != d.Size || d.MediaType != mediaType {
			t.Fatalf("%+v does not describe the %d bytes of its blob", d, len(content))
		}
		return content
	}

	if got := string(files["oci-layout"].data); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("got oci-layout %s", got)
	}
	var top index
	unmarshal(t, files["index.json"].data, &top)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "example:v1" {
		t.Fatalf("got index %+v", top)
	}
	var m manifest
	unmarshal(t, blob(top.Manifests[0], mediaTypeManifest), &m)
	var config imageConfig
	unmarshal(t, blob(m.Config, mediaTypeConfig), &config)
	if len(m.Layers) != 1 || !slices.Equal(config.RootFS.DiffIDs, []string{m.Layers[0].Digest}) {
		t.Fatalf("got layers %+v and diff IDs %q", m.Layers, config.RootFS.DiffIDs)
	}
	return config, untar(t, blob(m.Layers[0], mediaTypeLayer))
}

func untar(t *testing.T, data []byte) map[string]entry {
	t.Helper()
	entries := map[string]entry{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		entries[header.Name] = entry{mode: header.FileInfo().Mode(), data: content}
	}
}

func unmarshal(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
