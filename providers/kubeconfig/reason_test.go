// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	if len(declared) < 40 {
		t.Fatalf("found %d reasons", len(declared))
	}
	return declared, used
}

// conditionsOfReasons returns of what the names of reasons are, by the comments on their blocks: "ConditionCompleted", or
// "events only".
func conditionsOfReasons(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]string{}
	for _, decl := range file.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		found := regexp.MustCompile(`^Reasons of ([\w ]+)`).FindStringSubmatch(block.Doc.Text())
		for _, spec := range block.Specs {
			if found != nil {
				result[spec.(*ast.ValueSpec).Names[0].Name] = found[1]
			}
		}
	}
	return result
}

func TestReasons(t *testing.T) {
	// These say that nothing is wrong, or not yet.
	good := map[Reason]bool{
		ReasonPreflightPassed: true, ReasonCredentialExpiring: true, ReasonCredentialChanged: true, ReasonCompleted: true,
	}
	// The errors of these say what to do.
	ownNextStep := map[Reason]bool{
		ReasonKubeconfigInvalid: true, ReasonFieldForbidden: true, ReasonCredentialInvalid: true, ReasonPolicyDenied: true,
		ReasonCredentialPending: true, ReasonTokenMintFailed: true, ReasonOwnedByAnotherHub: true,
	}
	declared, _ := declaredReasons(t)
	conditions := conditionsOfReasons(t)
	var failures []Reason
	for name, reason := range declared {
		if name != "Reason"+string(reason) {
			t.Errorf("%s has the value %s", name, reason)
		}
		switch conditions[name] {
		case "ConditionPreflightPassed", "ConditionCompleted":
			if !good[reason] {
				failures = append(failures, reason)
			}
		case "events only":
		default:
			t.Errorf("%s is a reason of %q", name, conditions[name])
		}
	}
	slices.Sort(failures)
	if diff := cmp.Diff(failures, slices.Sorted(maps.Keys(reasonInfos))); diff != "" {
		t.Errorf("reasons of failures, and those that something is known of (-want +got):\n%s", diff)
	}
	for reason, info := range reasonInfos {
		if (info.next == "") != ownNextStep[reason] {
			t.Errorf("%s: next step is %q", reason, info.next)
		}
		if info.next == "" {
			continue
		}
		if strings.HasSuffix(info.next, ".") || strings.Contains(info.next, ". ") || info.next[0] >= 'A' && info.next[0] <= 'Z' ||
			strings.TrimSpace(info.next) != info.next {
			t.Errorf("next step of %s does not continue a sentence: %q", reason, info.next)
		}
		for _, page := range regexp.MustCompile(`docs/[\w./-]*\w`).FindAllString(info.next, -1) {
			if _, err := os.Stat(filepath.Join("..", "..", page)); err != nil {
				t.Errorf("next step of %s leads to nothing: %v", reason, err)
			}
		}
	}
}

// A klusterlet that is deployed is not deployed again by itself, whatever is corrected on the hub.
func TestNextStepsSayHowToDeploy(t *testing.T) {
	// What is wrong with these is corrected where it is, or nothing is.
	elsewhere := map[Reason]bool{
		ReasonCSRNotApproved: true, ReasonCSRDenied: true, ReasonNotAccepted: true, ReasonNotJoined: true, ReasonNotAvailable: true,
	}
	const deploy = `set annotation import.open-cluster-management.io/immediate-import of the ManagedCluster to ""`
	declared, _ := declaredReasons(t)
	for name, condition := range conditionsOfReasons(t) {
		reason := declared[name]
		info, failure := reasonInfos[reason]
		if want := condition == "ConditionCompleted" && failure && !elsewhere[reason]; strings.Contains(info.next, deploy) != want {
			t.Errorf("next step of %s: says how to deploy: %t, want %t: %s", reason, !want, want, info.next)
		}
		if strings.Contains(strings.ReplaceAll(info.next, deploy, ""), "immediate-import") {
			t.Errorf("next step of %s says it in other words: %s", reason, info.next)
		}
	}
}

func TestReasonsAreUsed(t *testing.T) {
	declared, used := declaredReasons(t)
	for name := range declared {
		if !used[name] {
			t.Errorf("%s is not used", name)
		}
	}
}

// A reason in a table of docs/troubleshooting.md.
type documentedReason struct {
	reason                    Reason
	meaning, next, triedAgain string
}

var (
	tableRow  = regexp.MustCompile(`^\|(.*)\|\s*$`)
	firstWord = regexp.MustCompile("^`(\\w+)`$")
)

// documentedReasons returns the rows, of the tables in section Reasons, whose first cell is one word in backquotes.
func documentedReasons(t *testing.T) []documentedReason {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut("\n"+string(page), "\n## Reasons\n")
	if !found {
		t.Fatal("there is no section Reasons")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []documentedReason
	for line := range strings.Lines(section) {
		row := tableRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		cells := strings.Split(row[1], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		word := firstWord.FindStringSubmatch(cells[0])
		if word == nil {
			continue
		}
		if len(cells) != 4 {
			t.Fatalf("the row of %s has %d cells", word[1], len(cells))
		}
		rows = append(rows, documentedReason{Reason(word[1]), cells[1], cells[2], cells[3]})
	}
	return rows
}

// The page says of each reason what a message says.
func TestDocumentedReasons(t *testing.T) {
	declared, _ := declaredReasons(t)
	want := slices.Sorted(maps.Values(declared))
	var got []Reason
	for _, row := range documentedReasons(t) {
		got = append(got, row.reason)
		next := strings.ReplaceAll(row.next, "`", "")
		if expected := reasonInfos[row.reason].next; expected != "" && next != expected {
			t.Errorf("next step of %s is %q, a message says %q", row.reason, next, expected)
		}
		if row.meaning == "" || row.next == "" || row.triedAgain == "" {
			t.Errorf("the row of %s has an empty cell", row.reason)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons in docs/troubleshooting.md (-want +got):\n%s", diff)
	}
}
