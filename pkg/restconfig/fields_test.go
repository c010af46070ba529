// Copyright Contributors to the Open Cluster Management project

package restconfig

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// ownerOf names a type as the table does; empty for types whose fields are not classified one by one.
func ownerOf(t reflect.Type) string {
	switch t.PkgPath() {
	case "k8s.io/client-go/tools/clientcmd/api", "k8s.io/client-go/tools/clientcmd/api/v1":
		return t.Name()
	case "k8s.io/client-go/rest":
		return "rest." + t.Name()
	}
	return ""
}

// walk calls visit for every field of t and of client-go's struct types below it.
func walk(t reflect.Type, seen map[reflect.Type]bool, visit func(owner string, f reflect.StructField)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		walk(t.Elem(), seen, visit)
		return
	case reflect.Struct:
	default:
		return
	}
	owner := ownerOf(t)
	// The content settings of a rest.Config are about encoding, not about whom to talk to; they are kept as a whole.
	if owner == "" || owner == "rest.ContentConfig" || seen[t] {
		return
	}
	seen[t] = true
	for f := range t.Fields() {
		visit(owner, f)
		walk(f.Type, seen, visit)
	}
}

func TestEveryFieldIsClassified(t *testing.T) {
	classified := map[string]field{}
	for _, f := range fields() {
		key := f.owner + "." + f.name
		if _, found := classified[key]; found {
			t.Errorf("%s is classified twice", key)
		}
		classified[key] = f
	}

	existing := map[string]bool{}
	for _, root := range []any{clientcmdapiv1.Config{}, clientcmdapi.Config{}, rest.Config{}} {
		walk(reflect.TypeOf(root), map[reflect.Type]bool{}, func(owner string, f reflect.StructField) {
			key := owner + "." + f.Name
			existing[key] = true
			if c, found := classified[key]; !found || c.verdict == 0 {
				t.Errorf("client-go has the field %s (seen from %T), which nobody classified: add it to fields()", key, root)
			}
		})
	}
	for key := range classified {
		if !existing[key] {
			t.Errorf("%s is classified, but client-go has no such field", key)
		}
	}
}

func TestTableIsConsistent(t *testing.T) {
	for _, f := range fields() {
		key := f.owner + "." + f.name
		refuses := f.verdict == rejected || f.verdict == insecure || f.verdict == proxied || f.verdict == stanza && f.owner == "AuthInfo"
		if refuses && (f.next == "" || f.path == "") {
			t.Errorf("%s is refused without a path or a next step", key)
		}
		if strings.HasPrefix(f.owner, "rest.") && (f.verdict == copied || f.verdict == unused) {
			t.Errorf("%s: a ready config is not copied", key)
		}
	}

	// The last part of the path is the key that the decoder matches.
	walk(reflect.TypeFor[clientcmdapiv1.Config](), map[reflect.Type]bool{}, func(owner string, sf reflect.StructField) {
		want, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		for _, f := range fields() {
			if f.owner == owner && f.name == sf.Name && f.path != want && !strings.HasSuffix(f.path, "."+want) {
				t.Errorf("%s.%s has the path %q, but its key is %q", owner, sf.Name, f.path, want)
			}
		}
	})
}

// TestNewFieldIsNoticed shows that the walk of TestEveryFieldIsClassified reaches all types, including those behind
// pointers, maps and lists.
func TestNewFieldIsNoticed(t *testing.T) {
	owners := map[string]bool{}
	for _, root := range []any{clientcmdapiv1.Config{}, clientcmdapi.Config{}, rest.Config{}} {
		walk(reflect.TypeOf(root), map[reflect.Type]bool{}, func(owner string, _ reflect.StructField) { owners[owner] = true })
	}
	for _, f := range fields() {
		if !owners[f.owner] {
			t.Errorf("the walk does not reach %s", f.owner)
		}
	}
}

func TestEntryName(t *testing.T) {
	cases := []struct {
		name, entry, want string
	}{
		{"plain", "admin", `"admin"`},
		{"quote", `a"b`, `"a\"b"`},
		{"empty", "", "#3"},
		{"newline", "a\nb", "#3"},
		{"escape sequence", "\x1b[31m", "#3"},
		{"right-to-left override", "a\u202eb", "#3"},
		{"not UTF-8", "a\xff", "#3"},
		{"63 characters", strings.Repeat("é", 63), `"` + strings.Repeat("é", 63) + `"`},
		{"64 characters", strings.Repeat("é", 64), `"` + strings.Repeat("é", 63) + `"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := entryName(c.entry, 2); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestDocumentedFields holds the table of docs/security.md and that of the code together.
func TestDocumentedFields(t *testing.T) {
	words := map[verdict]string{
		copied:   "accepted, validated",
		unused:   "accepted, dropped",
		rejected: "rejected",
		insecure: "rejected unless `--insecure-allow-skip-tls-verify`",
		stanza:   "rejected unless a resolver serves it ([credentials](credentials.md))",
		proxied:  "rejected unless the policy has it ([policy](policy.md))",
	}
	var want []string
	for _, f := range fields() {
		if word, documented := words[f.verdict]; documented && f.path != "" && !strings.HasPrefix(f.owner, "rest.") {
			want = append(want, "| `"+f.path+"` | "+word+" |")
		}
	}
	doc, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(doc), "| field | |\n|---|---|\n")
	if !found {
		t.Fatal("docs/security.md has no table of fields")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	if diff := cmp.Diff(want, strings.Split(table, "\n")); diff != "" {
		t.Errorf("docs/security.md differs from the code (-code +document):\n%s", diff)
	}
}
