// Copyright Contributors to the Open Cluster Management project

package exec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"open-cluster-management.io/import-provider/pkg/policy"
)

// elf is what programs begin with. Scripts don't: their interpreter would be the one that runs, which nobody has hashed.
const elf = "\x7fELF"

// faultError is why a plugin, or the directory, is not fit to be used. Neither text has a path or a value of a Secret.
type faultError struct {
	problem string
	// next is what the administrator can do about it.
	next string
}

func (e *faultError) Error() string { return e.problem + ": " + e.next }

func fault(problem, next string) error { return &faultError{problem: problem, next: next} }

// platform is the one whose digests count.
func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// openDirectory opens the plugin directory and checks it. The error is a *faultError; root is nil if it cannot be read at all.
func openDirectory(directory string) (root *os.Root, err error) {
	if directory == "" {
		return nil, fault("there is no plugin directory", "set --plugin-directory")
	}
	root, err = os.OpenRoot(directory)
	if err != nil {
		return nil, fault("the plugin directory cannot be opened", "mount it, and set --plugin-directory to where")
	}
	self, err := root.Open(".")
	if err != nil {
		return root, fault("the plugin directory cannot be read", "make it readable for the user of this process")
	}
	defer self.Close() //nolint:errcheck // it was only read.
	access, err := accessTo(self)
	switch {
	case err != nil:
		return root, err
	case access.writable:
		return root, fault("the plugin directory is writable for this process", "mount it read-only")
	case access.noexec:
		return root, fault("the plugin directory is mounted noexec", "mount it without that option; where the container runtime "+
			"mounts the volumes of images so, let an init container install the plugins")
	}
	return root, nil
}

// openPlugin opens the file of a plugin and checks it. The error is a *faultError; digest is empty if there is none.
//
// os.Root keeps symbolic links, which the volumes of Kubernetes consist of, inside of the directory.
func openPlugin(root *os.Root, plugin policy.Plugin) (file *os.File, digest string, err error) {
	// Without waiting for the other end of a pipe.
	file, err = root.OpenFile(plugin.File, os.O_RDONLY|nonblock, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", fault("its file is not in the plugin directory", "put it there, or correct file in the policy")
	case err != nil:
		return nil, "", fault("its file cannot be opened", "make it readable for the user of this process; a link must not lead out of the plugin directory")
	}
	if digest, err = checkFile(file, plugin); err != nil {
		_ = file.Close()
		return nil, digest, err
	}
	return file, digest, nil
}

func checkFile(file *os.File, plugin policy.Plugin) (digest string, err error) {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", fault("it is not a regular file", "put the program there")
	}
	hash, start := sha256.New(), make([]byte, len(elf))
	if _, err := file.ReadAt(start, 0); err != nil || !bytes.Equal(start, []byte(elf)) {
		return "", fault("its file is not an ELF program", "use a program that is compiled for "+platform()+", and no script")
	}
	if _, err := io.Copy(hash, file); err != nil {
		return "", fault("its file cannot be read", "check the volume of the plugin directory")
	}
	digest = hex.EncodeToString(hash.Sum(nil))
	access, err := accessTo(file)
	want := plugin.SHA256[platform()]
	switch {
	case err != nil:
		return digest, err
	case want == "":
		return digest, fault("the policy has no digest of it for "+platform(), "add it to sha256")
	case !strings.EqualFold(want, digest):
		return digest, fault("its file does not have the digest that the policy has for "+platform(),
			"put the right file there, or the digest of this one into sha256")
	case access.writable:
		return digest, fault("its file is writable for this process", "mount the plugin directory read-only, or make the file read-only")
	case !access.executable:
		return digest, fault("its file is not executable for this process", "give it mode 0555")
	}
	return digest, nil
}

// access is what this process may do with a file.
type access struct{ writable, noexec, executable bool }
