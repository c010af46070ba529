// Copyright Contributors to the Open Cluster Management project

// Package plugininstall lets a plugin that is written in Go install itself. An image that holds nothing but the plugin, without
// a shell or cp, can then be an init container that puts the plugin into a volume which the import controller mounts read-only.
//
//	func main() {
//		plugininstall.Main()
//		// print an ExecCredential
//	}
//
// The init container runs the plugin with the arguments "install DIR". The package needs the standard library only.
package plugininstall

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Main installs the running program if its arguments are "install DIR", and ends the process: with code 0, or with 1 and the error on
// standard error. With other arguments it does nothing. The name of the installed file is that of the program.
func Main() {
	if len(os.Args) != 3 || os.Args[1] != "install" {
		return
	}
	if err := Install(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Install copies the running program into a directory, under the name that it has, with mode 0555. The file is there as a whole or
// not at all, also after a crash, and takes the place of one that is there.
func Install(dir string) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	source, err := os.Open(path) //nolint:gosec // it is the program itself.
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	defer source.Close() //nolint:errcheck // it was only read.
	// In the same directory, so that it can be renamed.
	target, err := os.CreateTemp(dir, ".install-*")
	if err != nil {
		return fmt.Errorf("installing into %s: %w", dir, err)
	}
	_, err = io.Copy(target, source)
	err = errors.Join(err, target.Chmod(0o555), target.Sync(), target.Close())
	if err == nil {
		err = os.Rename(target.Name(), filepath.Join(dir, filepath.Base(path))) //nolint:gosec // whoever runs it chooses the directory.
	}
	if err != nil {
		_ = os.Remove(target.Name()) //nolint:gosec // the same.
		return fmt.Errorf("installing into %s: %w", dir, err)
	}
	return nil
}
