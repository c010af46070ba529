// Copyright Contributors to the Open Cluster Management project

// Command ociimage writes an OCI archive with one image made of static binaries and nothing else, as `FROM scratch` would:
//
//	ociimage -o controller.tar -ref import-controller:v1 bin/import-controller
//
// Each binary is at the root of the image under its own name. `ctr image import`, `podman load`, `skopeo copy oci-archive:…` and
// `kind load image-archive` read the archive. No container engine is needed to write it, and the same input gives the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
)

const (
	mediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	mediaTypeManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaTypeConfig   = "application/vnd.oci.image.config.v1+json"
	mediaTypeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// image is what an archive is made from.
type image struct {
	// Ref is the name that importers give the image, such as import-controller:v1.
	Ref string
	// User is who runs the container, as UID or UID:GID.
	User string
	// Entrypoint is the command line of the image. Default: none, for images whose users always say what to run.
	Entrypoint []string
	// Binaries are paths of static binaries for Linux and Arch.
	Binaries []string
	// Arch is the architecture as GOARCH has it.
	Arch string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ociimage:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("ociimage", flag.ContinueOnError)
	img := image{}
	out := flags.String("o", "", "file to write (required)")
	flags.StringVar(&img.Ref, "ref", "", "name and tag of the image (required)")
	flags.StringVar(&img.User, "user", "65532:65532", "user and group that the container runs as")
	flags.StringVar(&img.Arch, "arch", runtime.GOARCH, "architecture of the binaries")
	entrypoint := flags.Bool("entrypoint", true, "make the first binary the entrypoint")
	if err := flags.Parse(args); err != nil {
		return err
	}
	img.Binaries = flags.Args()
	if *out == "" || img.Ref == "" || len(img.Binaries) == 0 {
		return errors.New("want -o FILE, -ref IMAGE and at least one BINARY")
	}
	if *entrypoint {
		img.Entrypoint = []string{"/" + filepath.Base(img.Binaries[0])}
	}

	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	if err := errors.Join(img.write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(*out))
	}
	return nil
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type imageConfig struct {
	Architecture string          `json:"architecture"`
	OS           string          `json:"os"`
	Config       containerConfig `json:"config"`
	RootFS       rootFS          `json:"rootfs"`
}

type containerConfig struct {
	User       string   `json:"User"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// write writes the archive: an OCI image layout (image-spec, image-layout.md) as a tar file.
func (i image) write(w io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	archive := archive{tar: tar.NewWriter(w)}
	archive.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	layerDesc := archive.blob(mediaTypeLayer, layer)
	configDesc := archive.json(mediaTypeConfig, imageConfig{
		Architecture: i.Arch,
		OS:           "linux",
		Config:       containerConfig{User: i.User, Entrypoint: i.Entrypoint},
		// The layer is not compressed, so that its digest is also that of its content.
		RootFS: rootFS{Type: "layers", DiffIDs: []string{layerDesc.Digest}},
	})
	manifestDesc := archive.json(mediaTypeManifest, manifest{
		SchemaVersion: 2,
		MediaType:     mediaTypeManifest,
		Config:        configDesc,
		Layers:        []descriptor{layerDesc},
	})
	// containerd takes the whole name from its own annotation, others from the one of the specification.
	manifestDesc.Annotations = map[string]string{
		"io.containerd.image.name":          i.Ref,
		"org.opencontainers.image.ref.name": i.Ref,
	}
	index, err := json.Marshal(index{SchemaVersion: 2, MediaType: mediaTypeIndex, Manifests: []descriptor{manifestDesc}})
	if err != nil {
		return err
	}
	archive.file("index.json", index)
	return errors.Join(archive.err, archive.tar.Close())
}

// layer returns the file system: the binaries, and a /tmp that everyone may write to, since the serving certificate that
// the hub's controllers make for themselves goes there.
func (i image) layer() ([]byte, error) {
	var buffer bytes.Buffer
	layer := tar.NewWriter(&buffer)
	if err := layer.WriteHeader(&tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir}); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, binary := range i.Binaries {
		name := filepath.Base(binary)
		if seen[name] {
			return nil, fmt.Errorf("two binaries have the name %s", name)
		}
		seen[name] = true
		data, err := os.ReadFile(binary)
		if err != nil {
			return nil, err
		}
		if err := layer.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := layer.Write(data); err != nil {
			return nil, err
		}
	}
	if err := layer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// archive writes files until the first error, which it keeps.
type archive struct {
	tar *tar.Writer
	err error
}

func (a *archive) file(name string, data []byte) {
	if a.err == nil {
		a.err = a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg})
	}
	if a.err == nil {
		_, a.err = a.tar.Write(data)
	}
}

func (a *archive) blob(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	a.file(path.Join("blobs", "sha256", digest), data)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(data)}
}

func (a *archive) json(mediaType string, v any) descriptor {
	data, err := json.Marshal(v)
	if err != nil && a.err == nil {
		a.err = err
	}
	return a.blob(mediaType, data)
}
