// Copyright Contributors to the Open Cluster Management project

// Package docs checks the documentation against the tree.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	fence   = regexp.MustCompile("(?s)```.*?\n *```")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notInID = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	// namedTest is in code, testFunction in the tree.
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\(`)

	makeCall   = regexp.MustCompile("(?m)(?:`|^ *)make ([a-z][a-z0-9-]*)")
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// TestLinks checks that links to files and headings of this repository lead somewhere.
func TestLinks(t *testing.T) {
	documents := markdown(t)
	for name, text := range documents {
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: %s leads nowhere: %v", name, match[0], err)
				continue
			}
			if text, ok := documents[file]; ok && anchor != "" && !anchors(text)[anchor] {
				t.Errorf("%s: %s: %s has no such heading", name, match[0], file)
			}
		}
	}
}

// TestNamedTests checks that the tests which the documentation names exist.
func TestNamedTests(t *testing.T) {
	declared := map[string]bool{}
	if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, match := range testFunction.FindAllStringSubmatch(string(data), -1) {
			declared[match[1]] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for name, text := range markdown(t) {
		for _, match := range namedTest.FindAllStringSubmatch(text, -1) {
			if !declared[match[1]] {
				t.Errorf("%s: there is no test %s", name, match[1])
			}
		}
	}
}

// TestMakeTargets checks that the make targets which the documentation names exist.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, match := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets[match[1]] = true
	}
	for name, text := range markdown(t) {
		for _, match := range makeCall.FindAllStringSubmatch(text, -1) {
			if !targets[match[1]] {
				t.Errorf("%s: the Makefile has no target %s", name, match[1])
			}
		}
	}
}

// markdown returns the text of all Markdown files by their path from the root.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	documents := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == ".git" || name == "_output" || name == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		documents[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

// anchors returns the anchors of the headings, made as GitHub makes them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return found
}
