// Copyright Contributors to the Open Cluster Management project

package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	progressEvery = 10 * time.Second
	lockRetry     = 200 * time.Millisecond
	// interruptGrace is how long an interrupted `go build` may take to end its compilers before it is killed.
	interruptGrace = 5 * time.Second
	// tailLines is how much of the build's output an error carries.
	tailLines = 30
)

// gcflags leaves debug information out of every package, which saves a third of the build time. Everything in the project
// is built with the same -trimpath, CGO_ENABLED and -gcflags, or the build cache is of no use between the builds.
const gcflags = "-gcflags=all=-dwarf=false"

// set is a group of programs that one module builds.
type set struct {
	name     string // prefix in the cache
	title    string // for people
	env      string // variable that names a directory to use instead
	dir      string // module directory, relative to the module root
	packages []string
	ldflags  string
	required []string // file names that have to be there
}

func ensure(ctx context.Context, progress io.Writer, s set) (string, error) {
	if progress == nil {
		progress = io.Discard
	}
	if dir := os.Getenv(s.env); dir != "" {
		return provided(dir, s)
	}

	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	module := filepath.Join(root, s.dir)
	key, err := cacheKey(ctx, module, s)
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, s.name+"-"+key)
	if built(target) {
		return target, nil
	}

	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("create the binary cache: %w", err)
	}
	lock := flock.New(filepath.Join(cache, s.name+".lock"))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		fmt.Fprintf(progress, "waiting for another process that builds %s\n", s.title)
		locked, err = lock.TryLockContext(ctx, lockRetry)
	}
	if err != nil || !locked {
		return "", fmt.Errorf("lock the binary cache %s: %w", lock.Path(), err)
	}
	defer func() { _ = lock.Close() }()

	if built(target) { // whoever held the lock built it
		return target, nil
	}
	if err := build(ctx, progress, s, module, cache, target); err != nil {
		return "", fmt.Errorf("build %s: %w", s.title, err)
	}
	return target, nil
}

// provided checks a directory that the environment names.
func provided(dir string, s set) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.env, err)
	}
	for _, name := range s.required {
		if err := executable(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%s is set, so nothing is built, but its directory has no usable %s (needed: %s): %w",
				s.env, name, strings.Join(s.required, ", "), err)
		}
	}
	return dir, nil
}

// built says whether target is complete: it appears by one rename, and only when the build succeeded.
func built(target string) bool {
	info, err := os.Stat(target)
	return err == nil && info.IsDir()
}

func cacheDir() (string, error) {
	if dir := os.Getenv("IMPORT_PROVIDER_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for built binaries (IMPORT_PROVIDER_CACHE sets one): %w", err)
	}
	return filepath.Join(dir, "ocm-import-provider"), nil
}

// cacheKey hashes everything that decides what is built: the module's Go files, go.mod and go.sum (stand-in modules below it
// included), the toolchain with its target, and the flags.
func cacheKey(ctx context.Context, module string, s set) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	cmd.Dir, cmd.Env = module, buildEnv()
	toolchain, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask the go command for its version: %w", err)
	}

	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n%s\n", toolchain, gcflags, s.ldflags, strings.Join(s.packages, " "))
	err = filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch name := entry.Name(); {
		case name == "go.mod", name == "go.sum", strings.HasSuffix(name, ".go"):
		default:
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.ToSlash(rel), len(data), data)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash the module in %s: %w", module, err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// buildEnv is this process's environment without settings that would make the build another one.
func buildEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
}

// build compiles into a directory beside target and renames it, so that a killed build leaves nothing half made. The caller
// holds the lock.
func build(ctx context.Context, progress io.Writer, s set, module, cache, target string) error {
	pattern := ".build-" + s.name + "-"
	stale, err := filepath.Glob(filepath.Join(cache, pattern+"*"))
	if err != nil {
		return err
	}
	for _, dir := range stale { // under the lock these can only be of builds that were killed
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	temp, err := os.MkdirTemp(cache, pattern)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()

	fmt.Fprintf(progress, "building %s into %s: slow the first time (5 to 15 minutes on 2 cores), kept afterwards\n", s.title, target)
	began := time.Now()
	output := &buildOutput{}
	args := append([]string{"build", "-v", "-trimpath", gcflags, "-ldflags", s.ldflags, "-o", temp + string(filepath.Separator)}, s.packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = module, buildEnv()
	cmd.Stdout, cmd.Stderr = output, output
	// An interrupt lets the go command end its compilers; a kill would orphan them.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptGrace

	finished := make(chan error, 1)
	go func() { finished <- cmd.Run() }()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			modules, packages := output.counts()
			fmt.Fprintf(progress, "  %s: %s, %d modules downloaded, %d packages compiled\n",
				s.name, time.Since(began).Round(time.Second), modules, packages)
		case err := <-finished:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return fmt.Errorf("go build in %s: %w; the end of its output:\n%s", module, err, output.tail())
			}
			// MkdirTemp makes it private to the user; agents that run as another user need to get in.
			if err := os.Chmod(temp, 0o755); err != nil { //nolint:gosec // programs from public modules
				return err
			}
			if err := os.Rename(temp, target); err != nil {
				return err
			}
			fmt.Fprintf(progress, "built %s in %s\n", s.title, time.Since(began).Round(time.Second))
			return nil
		}
	}
}

// buildOutput counts the lines of `go build -v` and keeps the last ones.
type buildOutput struct {
	mu       sync.Mutex
	partial  string
	last     []string
	modules  int
	packages int
}

func (o *buildOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(o.partial+string(p), "\n")
	o.partial = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			o.modules++
		case !strings.ContainsAny(line, " \t"): // an import path
			o.packages++
		}
		if o.last = append(o.last, line); len(o.last) > tailLines {
			o.last = o.last[1:]
		}
	}
	return len(p), nil
}

func (o *buildOutput) counts() (modules, packages int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.modules, o.packages
}

func (o *buildOutput) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(strings.Join(append(slices.Clip(o.last), o.partial), "\n"))
}
