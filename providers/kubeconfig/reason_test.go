// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// declaredReasons returns the constants of type Reason with their values, and the names that other files use.
func declaredReasons(t *testing.T) (declared map[string]Reason, used map[string]bool) {
	t.Helper()
	declared, used = map[string]Reason{}, map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				if kind, ok := node.Type.(*ast.Ident); ok && kind.Name == "Reason" {
					value, err := strconv.Unquote(node.Values[0].(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					declared[node.Names[0].Name] = Reason(value)
				}
			case *ast.Ident:
				if name != "reason.go" {
					used[node.Name] = true
				}
			}
			return true
		})
	}
	return declared, used
}

func TestReasons(t *testing.T) {
	declared, used := declaredReasons(t)
	if len(declared) < 20 {
		t.Fatalf("found %d reasons", len(declared))
	}
	// These have texts that say what to do, or leave nothing to do.
	ownNextStep := map[Reason]bool{
		ReasonCredentialInvalid: true, ReasonCredentialPending: true, ReasonCredentialFailed: true,
		ReasonOwnedByAnotherHub: true, ReasonManagedClusterNotFound: true, ReasonAnnotationInvalid: true, ReasonOwnedByClusterAPI: true, ReasonImportPaused: true,
	}
	known := map[Reason]bool{}
	for name, reason := range declared {
		known[reason] = true
		if name != "Reason"+string(reason) {
			t.Errorf("%s has the value %s", name, reason)
		}
		if !used[name] {
			t.Errorf("%s is not used", name)
		}
		if step, found := nextSteps[reason]; found == ownNextStep[reason] {
			t.Errorf("%s: next step is %q", reason, step)
		}
	}
	for reason, step := range nextSteps {
		if !known[reason] {
			t.Errorf("next step of %s, which is no reason", reason)
		}
		if step == "" || strings.HasSuffix(step, ".") || step[0] >= 'A' && step[0] <= 'Z' {
			t.Errorf("next step of %s does not continue a sentence: %q", reason, step)
		}
		for _, page := range regexp.MustCompile(`docs/[\w./-]*\w`).FindAllString(step, -1) {
			if _, err := os.Stat(filepath.Join("..", "..", page)); err != nil {
				t.Errorf("next step of %s leads to nothing: %v", reason, err)
			}
		}
	}
}
