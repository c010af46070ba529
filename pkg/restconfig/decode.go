// Copyright Contributors to the Open Cluster Management project

package restconfig

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

const (
	// maxDepth is how deep lists and mappings may be nested. A kubeconfig has seven levels; the rest is room for extensions.
	maxDepth = 64
	// maxMarks is how many of the characters without which no YAML node starts the file may hold; one makes two nodes at
	// most. The parser spends 160 bytes on a node, so "[,,,,..." of 1 MiB would take over 100 MB. An entry with its certificate
	// has about 20 such characters in 1.5 KB, so a file of MaxSize that is full of real entries has some 15000.
	maxMarks = 1 << 16
	marks    = ",[{:-?"

	// unnamed stands for a key that might be a value in the wrong place and is therefore not shown.
	unnamed = "<unnamed key>"
	// maxKeyName is the longest key that an error shows, in bytes.
	maxKeyName = 63

	nextForm    = "it must be one YAML or JSON document"
	nextUnknown = "remove it, or correct its spelling"
	nextTwice   = "keep one of them"
)

// decode reads the file strictly into clientcmd's versioned types: one document, no anchors or aliases, every key known
// and there once, every value of the right type. encoding/json (and with it sigs.k8s.io/yaml) would match keys
// without regard to case, so that "Server" could override "server", and their errors quote the input; hence this decoder.
func decode(data []byte) (*clientcmdapiv1.Config, error) {
	if len(data) > MaxSize {
		return nil, &FieldError{Field: "kubeconfig", Reason: ReasonTooLarge, NextStep: "the limit is 1 MiB; " + nextInline}
	}
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	file := &clientcmdapiv1.Config{}
	d := decoder{}
	if err := d.value(root, reflect.ValueOf(file).Elem(), ""); err != nil {
		return nil, err
	}
	return file, nil
}

func invalidFile(next string) error {
	return &FieldError{Field: "kubeconfig", Reason: ReasonInvalid, NextStep: next}
}

// parse returns the top-level mapping of the one document in data.
func parse(data []byte) (root *yaml.Node, err error) {
	count := 0
	for _, c := range data {
		if strings.IndexByte(marks, c) >= 0 {
			count++
		}
	}
	if count > maxMarks {
		return nil, &FieldError{Field: "kubeconfig", Reason: ReasonTooLarge, NextStep: "it has too many keys and list items; " + nextInline}
	}
	// The library reports its own errors by panic, inside; one that slips out must neither end the process nor be shown.
	defer func() {
		if recover() != nil {
			root, err = nil, invalidFile(nextForm)
		}
	}()
	var document yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&document); errors.Is(err, io.EOF) {
		return nil, &FieldError{Field: "kubeconfig", Reason: ReasonMissing, NextStep: "the file is empty"}
	} else if err != nil {
		return nil, invalidFile(nextForm)
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, invalidFile(nextForm)
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return nil, invalidFile(nextForm)
	}
	root = document.Content[0]
	if err := checkNodes(root, 0); err != nil {
		return nil, err
	}
	if isNull(root) {
		return nil, &FieldError{Field: "kubeconfig", Reason: ReasonMissing, NextStep: "the file is empty"}
	}
	if root.Kind != yaml.MappingNode {
		return nil, invalidFile("it must be a mapping with clusters, users and contexts")
	}
	return root, nil
}

// checkNodes refuses what no kubeconfig needs, anywhere in the file.
func checkNodes(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return invalidFile("anchors and aliases are not accepted; write the value in each place")
	case depth > maxDepth:
		return invalidFile("it is nested too deeply")
	}
	for _, child := range n.Content {
		if err := checkNodes(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// decoder carries the name of the entry that is being read, for errors.
type decoder struct{ entry string }

func (d *decoder) fail(path string, reason Reason, next string) error {
	return &FieldError{Field: path, Entry: d.entry, Reason: reason, NextStep: next}
}

// value decodes a node into v, which has one of the types that clientcmd's versioned types are made of. Null leaves v
// at its zero value, as for kubectl.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) error {
	if v.Type() == reflect.TypeFor[runtime.RawExtension]() {
		// Accepted, not used: not decoded either.
		if !uniqueKeys(n) {
			return d.fail(path, ReasonDuplicate, "a key in it occurs twice; "+nextTwice)
		}
		return nil
	}
	if isNull(n) {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		text, ok := stringOf(n)
		if !ok {
			return d.fail(path, ReasonInvalid, "it must be a string; put it in quotes")
		}
		v.SetString(text)
		return nil
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			return d.fail(path, ReasonInvalid, "it must be true or false")
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return nil
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(n, v.Elem(), path)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return d.bytes(n, v, path)
		}
		return d.list(n, v, path)
	case reflect.Map:
		return d.mapping(n, v, path)
	case reflect.Struct:
		return d.object(n, v, path)
	}
	// No field of client-go's types gets here; a future one must fail closed.
	return d.fail(path, ReasonUnknown, nextUnknown)
}

func stringOf(n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return "", false
	}
	return n.Value, true
}

func (d *decoder) bytes(n *yaml.Node, v reflect.Value, path string) error {
	const next = "it must be a string in base64"
	text, ok := stringOf(n)
	if !ok {
		return d.fail(path, ReasonInvalid, next)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return d.fail(path, ReasonInvalid, next)
	}
	v.SetBytes(raw)
	return nil
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.SequenceNode {
		return d.fail(path, ReasonInvalid, "it must be a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		outer := d.entry
		// Lists of the top level hold the entries that errors name; lists further in belong to one of those.
		if !strings.Contains(path, ".") {
			d.entry = entryName(nameOf(item), i)
		}
		if err := d.value(item, v.Index(i), path+"[]"); err != nil {
			return err
		}
		d.entry = outer
	}
	return nil
}

// nameOf returns the name of an entry before it is decoded; empty when it has none.
func nameOf(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key, ok := stringOf(n.Content[i]); ok && key == "name" {
			name, _ := stringOf(n.Content[i+1])
			return name
		}
	}
	return ""
}

// mapping decodes maps with free keys (as-user-extra, the config of an auth provider). Their keys are data: not shown.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return d.fail(path, ReasonInvalid, "it must be a mapping")
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := stringOf(n.Content[i])
		if !ok {
			return d.fail(path, ReasonInvalid, "its keys must be strings; put them in quotes")
		}
		if v.MapIndex(reflect.ValueOf(key)).IsValid() {
			return d.fail(path, ReasonDuplicate, "a key in it occurs twice; "+nextTwice)
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(n.Content[i+1], item, path+"{}"); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key), item)
	}
	return nil
}

func (d *decoder) object(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return d.fail(path, ReasonInvalid, "it must be a mapping")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := stringOf(n.Content[i])
		keyPath := strings.TrimPrefix(path+"."+keyName(key, ok), ".")
		if !ok {
			return d.fail(keyPath, ReasonUnknown, nextUnknown)
		}
		if seen[key] {
			return d.fail(keyPath, ReasonDuplicate, nextTwice)
		}
		seen[key] = true
		target, found := fieldByKey(v, key)
		if !found {
			return d.fail(keyPath, ReasonUnknown, nextUnknown)
		}
		if err := d.value(n.Content[i+1], target, keyPath); err != nil {
			return err
		}
	}
	return nil
}

// keyName returns the key if it is a plain identifier. Anything else might be a value that slipped out of its place.
func keyName(key string, isString bool) string {
	if !isString || key == "" || len(key) > maxKeyName {
		return unnamed
	}
	for _, c := range []byte(key) {
		if !isWord(c) {
			return unnamed
		}
	}
	return key
}

// fieldByKey finds the field of a struct by its JSON name, by exact case.
func fieldByKey(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == key && name != "-" && name != "" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// uniqueKeys checks a part of the file that is not decoded.
func uniqueKeys(n *yaml.Node) bool {
	seen := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode {
			if seen[child.Value] {
				return false
			}
			seen[child.Value] = true
		}
		if !uniqueKeys(child) {
			return false
		}
	}
	return true
}
