// Copyright Contributors to the Open Cluster Management project

package restconfig_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

type edit = func(file *clientcmdapiv1.Config)

// user and cluster make a row of a table shorter.
func user(set func(u *clientcmdapiv1.AuthInfo)) edit {
	return func(file *clientcmdapiv1.Config) { set(&file.AuthInfos[0].AuthInfo) }
}

func cluster(set func(c *clientcmdapiv1.Cluster)) edit {
	return func(file *clientcmdapiv1.Config) { set(&file.Clusters[0].Cluster) }
}

// both applies two edits.
func both(a, b edit) edit {
	return func(file *clientcmdapiv1.Config) { a(file); b(file) }
}

// rows is one row per rule, with the exact text: it reaches conditions, where a change makes the host try again.
func rows() map[string]struct {
	edit edit
	want string
} {
	const (
		inline     = "kubectl config view --raw --flatten --minify writes a file with everything inline"
		server     = "write it as https://host:port"
		credential = "use token, or client-certificate-data and client-key-data"
		as         = "give the credentials of the identity itself"
		pair       = "client-certificate-data and client-key-data must be PEM and belong together"
		word       = "it must hold no white space, line break or other special character"
	)
	serverIs := func(s string) edit { return cluster(func(c *clientcmdapiv1.Cluster) { c.Server = s }) }
	tokenIs := func(s string) edit { return user(func(u *clientcmdapiv1.AuthInfo) { u.Token = s }) }
	noToken := tokenIs("")
	pairIs := func(cert, key []byte) edit {
		return user(func(u *clientcmdapiv1.AuthInfo) { u.ClientCertificateData, u.ClientKeyData = cert, key })
	}
	serverText := func(why string) string { return `clusters[].cluster.server of entry "cl" ` + why }
	return map[string]struct {
		edit edit
		want string
	}{
		// One per rejected field.
		"certificate-authority": {cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthority = "/ca" }),
			`clusters[].cluster.certificate-authority of entry "cl" is not accepted: file paths are not followed; put the data inline in certificate-authority-data; ` + inline},
		"proxy-url": {cluster(func(c *clientcmdapiv1.Cluster) { c.ProxyURL = testProxy }),
			`clusters[].cluster.proxy-url of entry "cl" is not accepted: remove it, or use one that the administrator of the hub accepts`},
		"insecure-skip-tls-verify": {cluster(func(c *clientcmdapiv1.Cluster) { c.InsecureSkipTLSVerify = true }),
			`clusters[].cluster.insecure-skip-tls-verify of entry "cl" is not accepted: remove it and put the CA in certificate-authority-data, or let the administrator of the hub allow it`},
		"client-certificate": {user(func(u *clientcmdapiv1.AuthInfo) { u.ClientCertificate = "/cert" }),
			`users[].user.client-certificate of entry "us" is not accepted: file paths are not followed; put the data inline in client-certificate-data; ` + inline},
		"client-key": {user(func(u *clientcmdapiv1.AuthInfo) { u.ClientKey = "/key" }),
			`users[].user.client-key of entry "us" is not accepted: file paths are not followed; put the data inline in client-key-data; ` + inline},
		"tokenFile": {user(func(u *clientcmdapiv1.AuthInfo) { u.TokenFile = "/token" }),
			`users[].user.tokenFile of entry "us" is not accepted: file paths are not followed; put the token inline in token`},
		"exec": {user(func(u *clientcmdapiv1.AuthInfo) { u.Exec = &clientcmdapiv1.ExecConfig{Command: "aws"} }),
			`users[].user.exec of entry "us" is not accepted: plugins are not run; use a credential resolver, or ` + credential},
		"exec, empty": {user(func(u *clientcmdapiv1.AuthInfo) { u.Exec = &clientcmdapiv1.ExecConfig{} }),
			`users[].user.exec of entry "us" is not accepted: plugins are not run; use a credential resolver, or ` + credential},
		"auth-provider": {user(func(u *clientcmdapiv1.AuthInfo) { u.AuthProvider = &clientcmdapiv1.AuthProviderConfig{Name: "gcp"} }),
			`users[].user.auth-provider of entry "us" is not accepted: plugins are not run; use a credential resolver, or ` + credential},
		"username": {user(func(u *clientcmdapiv1.AuthInfo) { u.Username = "root" }),
			`users[].user.username of entry "us" is not accepted: ` + credential},
		"password": {user(func(u *clientcmdapiv1.AuthInfo) { u.Password = "hunter2" }),
			`users[].user.password of entry "us" is not accepted: ` + credential},
		"as": {user(func(u *clientcmdapiv1.AuthInfo) { u.Impersonate = "admin" }),
			`users[].user.as of entry "us" is not accepted: ` + as},
		"as-uid": {user(func(u *clientcmdapiv1.AuthInfo) { u.ImpersonateUID = "0" }),
			`users[].user.as-uid of entry "us" is not accepted: ` + as},
		"as-groups": {user(func(u *clientcmdapiv1.AuthInfo) { u.ImpersonateGroups = []string{"system:masters"} }),
			`users[].user.as-groups of entry "us" is not accepted: ` + as},
		"as-groups, empty string": {user(func(u *clientcmdapiv1.AuthInfo) { u.ImpersonateGroups = []string{""} }),
			`users[].user.as-groups of entry "us" is not accepted: ` + as},
		"as-user-extra": {user(func(u *clientcmdapiv1.AuthInfo) { u.ImpersonateUserExtra = map[string][]string{"k": nil} }),
			`users[].user.as-user-extra of entry "us" is not accepted: ` + as},

		// The server.
		"server missing":        {serverIs(""), serverText("is missing: " + server)},
		"http":                  {serverIs("http://host:6443"), serverText("is not accepted: only https is accepted; " + server)},
		"no scheme":             {serverIs("host.example.com"), serverText("is not accepted: only https is accepted; " + server)},
		"scheme file":           {serverIs("file:///etc/passwd"), serverText("is not accepted: only https is accepted; " + server)},
		"scheme unix":           {serverIs("unix:///run/x.sock"), serverText("is not accepted: only https is accepted; " + server)},
		"user-info":             {serverIs("https://user:pass@host"), serverText("is not accepted: remove the user name and password from the address")},
		"user-info, empty":      {serverIs("https://@host"), serverText("is not accepted: remove the user name and password from the address")},
		"query":                 {serverIs("https://host?a=b"), serverText("is not accepted: remove the query and the fragment from the address")},
		"query, empty":          {serverIs("https://host?"), serverText("is not accepted: remove the query and the fragment from the address")},
		"fragment":              {serverIs("https://host#a"), serverText("is not accepted: remove the query and the fragment from the address")},
		"fragment, empty":       {serverIs("https://host#"), serverText("is not accepted: remove the query and the fragment from the address")},
		"host empty":            {serverIs("https://"), serverText("is not valid: " + server)},
		"host only a port":      {serverIs("https://:6443"), serverText("is not valid: " + server)},
		"opaque":                {serverIs("https:host:6443"), serverText("is not valid: " + server)},
		"port empty":            {serverIs("https://host:"), serverText("is not valid: " + server)},
		"port zero":             {serverIs("https://host:0"), serverText("is not valid: " + server)},
		"port too large":        {serverIs("https://host:65536"), serverText("is not valid: " + server)},
		"port a name":           {serverIs("https://host:https"), serverText("is not valid: " + server)},
		"host with a zone":      {serverIs("https://[fe80::1%25eth0]:6443"), serverText("is not valid: " + server)},
		"host not ASCII":        {serverIs("https://höst"), serverText("is not valid: " + server)},
		"host too long":         {serverIs("https://" + strings.Repeat("a", 254)), serverText("is not valid: " + server)},
		"white space":           {serverIs("https://host "), serverText("is not valid: " + server)},
		"leading space":         {serverIs(" https://host"), serverText("is not valid: " + server)},
		"control character":     {serverIs("https://host\x01"), serverText("is not valid: " + server)},
		"host a number":         {serverIs("https://2130706433"), serverText("is not valid: " + server)},
		"host in hexadecimal":   {serverIs("https://0x7f000001"), serverText("is not valid: " + server)},
		"host in octal":         {serverIs("https://0177.0.0.1"), serverText("is not valid: " + server)},
		"host in parts":         {serverIs("https://127.0x1"), serverText("is not valid: " + server)},
		"host short":            {serverIs("https://127.1:6443"), serverText("is not valid: " + server)},
		"host with a dot after": {serverIs("https://127.0.0.1."), serverText("is not valid: " + server)},
		"host only dots":        {serverIs("https://.."), serverText("is not valid: " + server)},
		"host not an IPv4":      {serverIs("https://1.2.3.256"), serverText("is not valid: " + server)},
		"tls-server-name": {cluster(func(c *clientcmdapiv1.Cluster) { c.TLSServerName = "a b" }),
			`clusters[].cluster.tls-server-name of entry "cl" is not valid: write a host name or an IP address`},

		// The CA.
		"CA only a line break": {cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = []byte("\n") }),
			`clusters[].cluster.certificate-authority-data of entry "cl" is not valid: it must hold at least one certificate in PEM form`},
		"CA not PEM": {cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = []byte("x") }),
			`clusters[].cluster.certificate-authority-data of entry "cl" is not valid: it must hold at least one certificate in PEM form`},
		"CA a key": {cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = clientPair()[1] }),
			`clusters[].cluster.certificate-authority-data of entry "cl" is not valid: it must hold at least one certificate in PEM form`},

		// The credential.
		"no credential": {noToken,
			`users[].user.token of entry "us" is missing: give a token, or a client certificate with its key`},
		"token only a line break": {tokenIs("\n"),
			`users[].user.token of entry "us" is missing: give a token, or a client certificate with its key`},
		"token with a line break":        {tokenIs("a\nb"), `users[].user.token of entry "us" is not valid: ` + word},
		"token with two line breaks":     {tokenIs("a\n\n"), `users[].user.token of entry "us" is not valid: ` + word},
		"token with a space":             {tokenIs("a b"), `users[].user.token of entry "us" is not valid: ` + word},
		"token with a control character": {tokenIs("a\x01"), `users[].user.token of entry "us" is not valid: ` + word},
		"token not ASCII":                {tokenIs("ä"), `users[].user.token of entry "us" is not valid: ` + word},
		"certificate without key":        {both(noToken, pairIs(clientPair()[0], nil)), `users[].user.client-key-data of entry "us" is missing: ` + pair},
		"key without certificate":        {both(noToken, pairIs(nil, clientPair()[1])), `users[].user.client-certificate-data of entry "us" is missing: ` + pair},
		"key of another certificate":     {pairIs(clientPair()[0], otherPair()[1]), `users[].user.client-certificate-data of entry "us" is not valid: ` + pair},
		"certificate not PEM":            {pairIs([]byte("x"), clientPair()[1]), `users[].user.client-certificate-data of entry "us" is not valid: ` + pair},
		"key too large":                  {pairIs(clientPair()[0], make([]byte, 16<<10+1)), `users[].user.client-key-data of entry "us" is too large: the limit is 16 KiB`},

		// Names, references and the choice.
		"kind":       {func(f *clientcmdapiv1.Config) { f.Kind = "Secret" }, `kind is not valid: it must be Config`},
		"apiVersion": {func(f *clientcmdapiv1.Config) { f.APIVersion = "v2" }, `apiVersion is not valid: it must be v1`},
		"cluster without a name": {func(f *clientcmdapiv1.Config) { f.Clusters[0].Name = "" },
			`clusters[].name of entry #1 is missing: give the entry a name`},
		"user without a name": {func(f *clientcmdapiv1.Config) { f.AuthInfos[0].Name = "" },
			`users[].name of entry #1 is missing: give the entry a name`},
		"context without a name": {func(f *clientcmdapiv1.Config) { f.Contexts[0].Name = "" },
			`contexts[].name of entry #1 is missing: give the entry a name`},
		"two clusters of one name": {func(f *clientcmdapiv1.Config) { f.Clusters = append(f.Clusters, f.Clusters[0]) },
			`clusters[].name of entry "cl" occurs twice: keep one of the entries`},
		"two users of one name": {func(f *clientcmdapiv1.Config) { f.AuthInfos = append(f.AuthInfos, f.AuthInfos[0]) },
			`users[].name of entry "us" occurs twice: keep one of the entries`},
		"two contexts of one name": {func(f *clientcmdapiv1.Config) { f.Contexts = append(f.Contexts, f.Contexts[0]) },
			`contexts[].name of entry "ctx" occurs twice: keep one of the entries`},
		"context without a cluster": {func(f *clientcmdapiv1.Config) { f.Contexts[0].Context.Cluster = "" },
			`contexts[].context.cluster of entry "ctx" is missing: name an entry of the file`},
		"context of no cluster": {func(f *clientcmdapiv1.Config) { f.Contexts[0].Context.Cluster = "nope" },
			`contexts[].context.cluster of entry "ctx" names an entry that does not exist: name an entry of the file`},
		"context without a user": {func(f *clientcmdapiv1.Config) { f.Contexts[0].Context.AuthInfo = "" },
			`contexts[].context.user of entry "ctx" is missing: name an entry of the file`},
		"context of no user": {func(f *clientcmdapiv1.Config) { f.Contexts[0].Context.AuthInfo = "nope" },
			`contexts[].context.user of entry "ctx" names an entry that does not exist: name an entry of the file`},
		"no contexts": {func(f *clientcmdapiv1.Config) { f.Contexts = nil },
			`contexts is missing: add a context that names a cluster and a user`},
		"current-context": {func(f *clientcmdapiv1.Config) { f.CurrentContext = "nope" },
			`current-context names an entry that does not exist: name a context of the file`},
		"two contexts, none current": {func(f *clientcmdapiv1.Config) {
			f.CurrentContext = ""
			f.Contexts = append(f.Contexts, f.Contexts[0])
			f.Contexts[1].Name = "ctx2"
		}, `current-context is ambiguous: the file has several contexts; set it to one of them`},
	}
}

func TestRefused(t *testing.T) {
	for name, c := range rows() {
		t.Run(name, func(t *testing.T) {
			cfg, err := restconfig.FromKubeconfig(edited(c.edit), restconfig.Options{})
			expectError(t, cfg, err, c.want)
			_, allowed := restconfig.FromKubeconfig(edited(c.edit), allOptions())
			expectDeniedIfOpened(t, err, allowed)
		})
	}
}

// testProxy is the one that tests accept.
const testProxy = "http://proxy.example.com:3128"

// allOptions allows all that an administrator can allow.
func allOptions() restconfig.Options {
	return restconfig.Options{InsecureSkipTLSVerify: true, Proxies: []string{testProxy}}
}

// expectDeniedIfOpened holds the reason of an error against what becomes of it with allOptions.
func expectDeniedIfOpened(t *testing.T, err, allowed error) {
	t.Helper()
	broken, _ := errors.AsType[*restconfig.FieldError](err)
	opened := allowed == nil || allowed.Error() != err.Error()
	if (broken.Reason == restconfig.ReasonDenied) != opened {
		t.Errorf("the reason is %s, and with all options the error is: %v", broken.Reason, allowed)
	}
}

// TestEveryRejectedFieldHasARow holds the table test against clientcmd's types: every field that is set here is either in
// the result or has a row above.
func TestEveryRejectedFieldHasARow(t *testing.T) {
	table := rows()
	for _, typ := range []reflect.Type{reflect.TypeFor[clientcmdapiv1.Cluster](), reflect.TypeFor[clientcmdapiv1.AuthInfo]()} {
		for f := range typ.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			_, refused := table[key]
			switch key {
			case "server", "tls-server-name", "certificate-authority-data", "disable-compression", "extensions",
				"client-certificate-data", "client-key-data", "token":
				continue // TestAccepted
			}
			if !refused {
				t.Errorf("no row for %s", key)
			}
		}
	}
}

func expectError(t *testing.T, cfg *rest.Config, err error, want string) {
	t.Helper()
	if err == nil || cfg != nil {
		t.Fatal("got no error, or a config with it")
	}
	if _, ok := errors.AsType[*restconfig.FieldError](err); !ok {
		t.Fatalf("got %T, want a *FieldError", err)
	}
	if errors.Unwrap(err) != nil {
		t.Error("the error wraps another one, whose text may hold a value")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// TestRefusedForm is about the text of the file, which marshalling a struct cannot produce.
func TestRefusedForm(t *testing.T) {
	const (
		form    = "kubeconfig is not valid: it must be one YAML or JSON document"
		unknown = "is not a known key: remove it, or correct its spelling"
		twice   = "occurs twice: keep one of them"
		within  = "occurs twice: a key in it occurs twice; keep one of them"
		anchors = "kubeconfig is not valid: anchors and aliases are not accepted; write the value in each place"
		list    = "it must be a list"
		text    = "is not valid: it must be a string; put it in quotes"
	)
	valid := string(encode(validFile()))
	cases := map[string]struct{ data, want string }{
		"empty":                     {"", "kubeconfig is missing: the file is empty"},
		"white space":               {" \n", "kubeconfig is missing: the file is empty"},
		"comment":                   {"# nothing\n", "kubeconfig is missing: the file is empty"},
		"null":                      {"null", "kubeconfig is missing: the file is empty"},
		"scalar":                    {"hello", "kubeconfig is not valid: it must be a mapping with clusters, users and contexts"},
		"list":                      {"[]", "kubeconfig is not valid: it must be a mapping with clusters, users and contexts"},
		"empty mapping":             {"{}", "contexts is missing: add a context that names a cluster and a user"},
		"not YAML":                  {"a: b: c", form},
		"not closed":                {"{", form},
		"binary":                    {"\x00\x01", form},
		"not UTF-8":                 {"kind: \xff\xfe", form},
		"tabs":                      {"clusters:\n\t- name: x", form},
		"two documents":             {valid + "---\n" + valid, form},
		"empty second document":     {valid + "---\n", form},
		"broken second document":    {valid + "---\n{", form},
		"1 MiB and a byte":          {valid + strings.Repeat(" ", restconfig.MaxSize+1-len(valid)), "kubeconfig is too large: the limit is 1 MiB; kubectl config view --raw --flatten --minify writes a file with everything inline"},
		"unknown key":               {valid + "server: x\n", "server " + unknown},
		"unknown key of a cluster":  {"clusters: [{cluster: {sever: x}, name: cl}]", `clusters[].cluster.sever of entry "cl" ` + unknown},
		"unknown key of an entry":   {"users: [{name: us, token: x}]", `users[].token of entry "us" ` + unknown},
		"unknown key in exec":       {"users: [{name: us, user: {exec: {cmd: x}}}]", `users[].user.exec.cmd of entry "us" ` + unknown},
		"unknown key in exec env":   {"users: [{name: us, user: {exec: {env: [{v: x}]}}}]", `users[].user.exec.env[].v of entry "us" ` + unknown},
		"key in another case":       {"Clusters: []", "Clusters " + unknown},
		"key of the internal type":  {"users: [{name: us, user: {act-as: x}}]", `users[].user.act-as of entry "us" ` + unknown},
		"key with a space":          {"users: [{name: us, user: {'s3cr3t value': x}}]", `users[].user.<unnamed key> of entry "us" ` + unknown},
		"key that is long":          {"users: [{name: us, user: {" + strings.Repeat("a", 64) + ": x}}]", `users[].user.<unnamed key> of entry "us" ` + unknown},
		"key that is no string":     {"1: x", "<unnamed key> " + unknown},
		"key that is a mapping":     {"? {a: b}\n: c\n", "<unnamed key> " + unknown},
		"merge key":                 {"users: [{name: us, user: {<<: {token: x}}}]", `users[].user.<unnamed key> of entry "us" ` + unknown},
		"duplicate key":             {valid + "users: []\n", "users " + twice},
		"duplicate key, JSON":       {`{"kind":"Config","kind":"Config"}`, "kind " + twice},
		"duplicate key, deep":       {"users: [{name: us, user: {token: x, token: x}}]", `users[].user.token of entry "us" ` + twice},
		"duplicate key in exec":     {"users: [{name: us, user: {exec: {command: x, command: x}}}]", `users[].user.exec.command of entry "us" ` + twice},
		"duplicate key in a map":    {"users: [{name: us, user: {as-user-extra: {a: [], a: []}}}]", `users[].user.as-user-extra of entry "us" ` + within},
		"duplicate in extension":    {"preferences: {extensions: [{name: x, extension: {a: {b: [{c: 1, c: 2}]}}}]}", "preferences.extensions[].extension " + within},
		"anchor":                    {"kind: &a Config", anchors},
		"alias":                     {"kind: &a Config\napiVersion: *a", anchors},
		"alias in an extension":     {"extensions: [{name: x, extension: {a: &a [], b: *a}}]", anchors},
		"nested too deeply":         {"extensions: " + strings.Repeat("[", 65) + strings.Repeat("]", 65), "kubeconfig is not valid: it is nested too deeply"},
		"clusters a mapping":        {"clusters: {}", "clusters is not valid: " + list},
		"cluster a list":            {"clusters: [[]]", "clusters[] of entry #1 is not valid: it must be a mapping"},
		"user a string":             {"users: [{name: us, user: token}]", `users[].user of entry "us" is not valid: it must be a mapping`},
		"map a list":                {"users: [{name: us, user: {as-user-extra: []}}]", `users[].user.as-user-extra of entry "us" is not valid: it must be a mapping`},
		"map with a number as key":  {"users: [{name: us, user: {as-user-extra: {1: []}}}]", `users[].user.as-user-extra of entry "us" is not valid: its keys must be strings; put them in quotes`},
		"second entry without name": {"users: [{name: us, user: {}}, {user: {token: []}}]", `users[].user.token of entry #2 ` + text},
		"token a number":            {"users: [{name: us, user: {token: 12345678}}]", `users[].user.token of entry "us" ` + text},
		"token a list":              {"users: [{name: us, user: {token: [x]}}]", `users[].user.token of entry "us" ` + text},
		"token binary":              {"users: [{name: us, user: {token: !!binary aGVsbG8=}}]", `users[].user.token of entry "us" ` + text},
		"token with its own tag":    {"users: [{name: us, user: {token: !secret x}}]", `users[].user.token of entry "us" ` + text},
		"bool a string":             {"clusters: [{name: cl, cluster: {insecure-skip-tls-verify: 'true'}}]", `clusters[].cluster.insecure-skip-tls-verify of entry "cl" is not valid: it must be true or false`},
		"CA not base64":             {"clusters: [{name: cl, cluster: {certificate-authority-data: '-----BEGIN'}}]", `clusters[].cluster.certificate-authority-data of entry "cl" is not valid: it must be a string in base64`},
		"CA a list of numbers":      {"clusters: [{name: cl, cluster: {certificate-authority-data: [1, 2]}}]", `clusters[].cluster.certificate-authority-data of entry "cl" is not valid: it must be a string in base64`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := restconfig.FromKubeconfig([]byte(c.data), restconfig.Options{})
			expectError(t, cfg, err, c.want)
		})
	}
}

func TestAccepted(t *testing.T) {
	pair := clientPair()
	extensions := []clientcmdapiv1.NamedExtension{{Name: "x", Extension: k8sruntime.RawExtension{Raw: []byte(`{"a":[1,{"b":null}]}`)}}}
	base := func() *rest.Config {
		return &rest.Config{Host: testServer, BearerToken: testToken, TLSClientConfig: rest.TLSClientConfig{CAData: caPEM()}}
	}
	cases := map[string]struct {
		edit    edit
		options restconfig.Options
		want    func(cfg *rest.Config)
	}{
		"minimal":                {edit: func(*clientcmdapiv1.Config) {}},
		"no kind and apiVersion": {edit: func(f *clientcmdapiv1.Config) { f.Kind, f.APIVersion = "", "" }},
		"server":                 {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.Server = "https://host" }), want: func(cfg *rest.Config) { cfg.Host = "https://host" }},
		"server with a path": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.Server = "https://host/k8s/clusters/c-1" }),
			want: func(cfg *rest.Config) { cfg.Host = "https://host/k8s/clusters/c-1" }},
		"server IPv4": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.Server = "https://192.0.2.1:6443" }),
			want: func(cfg *rest.Config) { cfg.Host = "https://192.0.2.1:6443" }},
		"server IPv6": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.Server = "https://[2001:db8::1]:6443" }),
			want: func(cfg *rest.Config) { cfg.Host = "https://[2001:db8::1]:6443" }},
		"tls-server-name": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.TLSServerName = "kubernetes.default" }),
			want: func(cfg *rest.Config) { cfg.ServerName = "kubernetes.default" }},
		"disable-compression": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.DisableCompression = true }),
			want: func(cfg *rest.Config) { cfg.DisableCompression = true }},
		"CA bundle": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = append(bytes.Clone(pair[0]), caPEM()...) }),
			want: func(cfg *rest.Config) { cfg.CAData = append(bytes.Clone(pair[0]), caPEM()...) }},
		"token with a line break": {edit: user(func(u *clientcmdapiv1.AuthInfo) { u.Token += "\n" })},
		"token with a CRLF":       {edit: user(func(u *clientcmdapiv1.AuthInfo) { u.Token += "\r\n" })},
		"certificate": {edit: user(func(u *clientcmdapiv1.AuthInfo) {
			u.Token, u.ClientCertificateData, u.ClientKeyData = "", pair[0], pair[1]
		}), want: func(cfg *rest.Config) { cfg.BearerToken, cfg.CertData, cfg.KeyData = "", pair[0], pair[1] }},
		"certificate and token": {edit: user(func(u *clientcmdapiv1.AuthInfo) { u.ClientCertificateData, u.ClientKeyData = pair[0], pair[1] }),
			want: func(cfg *rest.Config) { cfg.CertData, cfg.KeyData = pair[0], pair[1] }},
		"unused fields": {edit: func(f *clientcmdapiv1.Config) {
			f.Preferences.Colors = true
			f.Preferences.Extensions = extensions
			f.Extensions = extensions
			f.Clusters[0].Cluster.Extensions, f.AuthInfos[0].AuthInfo.Extensions = extensions, extensions
			f.Contexts[0].Context.Namespace, f.Contexts[0].Context.Extensions = "kube-system", extensions
		}},
		"only context": {edit: func(f *clientcmdapiv1.Config) { f.CurrentContext = "" }},
		"context by option": {edit: func(f *clientcmdapiv1.Config) {
			f.AuthInfos = append(f.AuthInfos, clientcmdapiv1.NamedAuthInfo{Name: "us2", AuthInfo: clientcmdapiv1.AuthInfo{Token: "t2"}})
			f.Contexts = append(f.Contexts, clientcmdapiv1.NamedContext{Name: "ctx2", Context: clientcmdapiv1.Context{Cluster: "cl", AuthInfo: "us2"}})
		}, options: restconfig.Options{Context: "ctx2"}, want: func(cfg *rest.Config) { cfg.BearerToken = "t2" }},
		"insecure, allowed": {
			edit:    cluster(func(c *clientcmdapiv1.Cluster) { c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil }),
			options: restconfig.Options{InsecureSkipTLSVerify: true},
			want:    func(cfg *rest.Config) { cfg.Insecure, cfg.CAData = true, nil },
		},
		"server that ends in letters": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.Server = "https://10.0.0.1.nip.io.:6443" }),
			want: func(cfg *rest.Config) { cfg.Host = "https://10.0.0.1.nip.io.:6443" }},
		"server that is one hexadecimal word": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.Server = "https://beef" }),
			want: func(cfg *rest.Config) { cfg.Host = "https://beef" }},
		"insecure allowed, not asked for": {edit: func(*clientcmdapiv1.Config) {}, options: restconfig.Options{InsecureSkipTLSVerify: true}},
		"no CA": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = nil }),
			want: func(cfg *rest.Config) { cfg.CAData = nil }},
		"no CA, insecure allowed, not asked for": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = nil }),
			options: restconfig.Options{InsecureSkipTLSVerify: true}, want: func(cfg *rest.Config) { cfg.CAData = nil }},
		"no CA and a TLS name": {edit: cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData, c.TLSServerName = nil, "api.example.com" }),
			want: func(cfg *rest.Config) { cfg.CAData, cfg.ServerName = nil, "api.example.com" }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			data := edited(c.edit)
			asJSON, err := json.Marshal(func() any { f := validFile(); c.edit(f); return f }())
			must(err)
			want := base()
			if c.want != nil {
				c.want(want)
			}
			for form, data := range map[string][]byte{"YAML": data, "JSON": asJSON} {
				got, err := restconfig.FromKubeconfig(data, c.options)
				if err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				if !reflect.DeepEqual(want, got) {
					t.Errorf("%s: got %v, want %v", form, got, want)
				}
				if err := restconfig.Check(got, c.options); err != nil {
					t.Errorf("%s: the result does not pass Check: %v", form, err)
				}
				if _, err := rest.HTTPClientFor(got); err != nil {
					t.Errorf("%s: client-go refuses the result: %v", form, err)
				}
			}
		})
	}
}

// TestAcceptedForm has texts as tools write them and marshalling a struct does not.
func TestAcceptedForm(t *testing.T) {
	ca := base64.StdEncoding.EncodeToString(caPEM())
	folded := ""
	for i := 0; i < len(ca); i += 64 {
		folded += "      " + ca[i:min(i+64, len(ca))] + "\n"
	}
	cases := map[string]string{
		"nulls and comments": "# kubectl config view\n---\nkind: Config\npreferences: {}\nextensions: null\nusers: [{name: u, user: {token: t, exec: null, as-groups: [], tokenFile: ''}}]\n" +
			"contexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://h', certificate-authority-data: " + ca + "}}]\n...\n",
		"base64 in a block": "clusters:\n- name: c\n  cluster:\n    server: https://h\n    certificate-authority-data: |\n" + folded +
			"users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n",
		"byte order mark": "\ufeff" + string(encode(validFile())),
		"verification and no CA": "users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {server: 'https://h', insecure-skip-tls-verify: false}}]\n",
		"an empty CA": "users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {server: 'https://h', certificate-authority-data: ''}}]\n",
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := restconfig.FromKubeconfig([]byte(data), restconfig.Options{})
			if err != nil {
				t.Fatal(err)
			}
			expectVerification(t, cfg)
		})
	}
}

// expectVerification checks that a client of a config verifies its server: by the CA of the config or, without one, by the roots of
// the system, which a nil pool stands for.
func expectVerification(t *testing.T, cfg *rest.Config) {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Insecure || cfg.CAFile != "" || tlsConfig != nil && tlsConfig.InsecureSkipVerify ||
		(tlsConfig != nil && tlsConfig.RootCAs != nil) != (len(cfg.CAData) > 0) {
		t.Errorf("the server is verified in another way: %+v", cfg.TLSClientConfig)
	}
}

func TestInsecureOption(t *testing.T) {
	o := restconfig.Options{InsecureSkipTLSVerify: true}
	// That verification may be skipped does not mean that it is where there is no CA.
	cfg, err := restconfig.FromKubeconfig(edited(cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = nil })), o)
	if err != nil {
		t.Fatal(err)
	}
	expectVerification(t, cfg)
	cfg, err = restconfig.FromKubeconfig(edited(cluster(func(c *clientcmdapiv1.Cluster) { c.InsecureSkipTLSVerify = true })), o)
	expectError(t, cfg, err, `clusters[].cluster.certificate-authority-data of entry "cl" is not valid: a CA and skipped verification exclude each other; remove one`)
}

func TestContextOption(t *testing.T) {
	cfg, err := restconfig.FromKubeconfig(encode(validFile()), restconfig.Options{Context: "nope"})
	expectError(t, cfg, err, "context names an entry that does not exist: ask for a context of the file")
}

// TestUnusedEntriesKeepTheRules puts every broken entry into a context that is not the current one (threat 5).
func TestUnusedEntriesKeepTheRules(t *testing.T) {
	for name, c := range rows() {
		broken := validFile()
		c.edit(broken)
		if len(broken.Clusters) != 1 || len(broken.AuthInfos) != 1 || len(broken.Contexts) != 1 ||
			broken.CurrentContext != "ctx" || broken.Kind != "Config" || broken.APIVersion != "v1" {
			continue // rules about the whole file
		}
		t.Run(name, func(t *testing.T) {
			file := validFile()
			file.Clusters[0].Name, file.AuthInfos[0].Name, file.Contexts[0].Name = "good", "good", "good"
			file.Contexts[0].Context = clientcmdapiv1.Context{Cluster: "good", AuthInfo: "good"}
			file.CurrentContext = "good"
			file.Clusters = append(file.Clusters, broken.Clusters...)
			file.AuthInfos = append(file.AuthInfos, broken.AuthInfos...)
			file.Contexts = append(file.Contexts, broken.Contexts...)
			cfg, err := restconfig.FromKubeconfig(encode(file), restconfig.Options{})
			expectError(t, cfg, err, strings.ReplaceAll(c.want, "#1", "#2"))
		})
	}
}

// TestStable: the same failure has the same text, also when several rules are broken at once.
func TestStable(t *testing.T) {
	data := edited(func(f *clientcmdapiv1.Config) {
		f.AuthInfos[0].AuthInfo = clientcmdapiv1.AuthInfo{
			TokenFile: "/x", ImpersonateUserExtra: map[string][]string{"a": {"b"}, "c": {"d"}}, Exec: &clientcmdapiv1.ExecConfig{}, Username: "x",
		}
		f.CurrentContext = "nope"
	})
	for range 50 {
		cfg, err := restconfig.FromKubeconfig(data, restconfig.Options{})
		expectError(t, cfg, err, `users[].user.tokenFile of entry "us" is not accepted: file paths are not followed; put the token inline in token`)
	}
}

// TestFilePaths: the text is the same whether the file exists or not, and a FIFO does not block (threats 6 to 8).
func TestFilePaths(t *testing.T) {
	dir := t.TempDir()
	existing, fifo := filepath.Join(dir, "existing"), filepath.Join(dir, "fifo")
	must(os.WriteFile(existing, []byte("canary"), 0o600))
	must(syscall.Mkfifo(fifo, 0o600))
	setters := map[string]func(path string) edit{
		"certificate-authority": func(p string) edit {
			return cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthority, c.CertificateAuthorityData = p, nil })
		},
		"client-certificate": func(p string) edit { return user(func(u *clientcmdapiv1.AuthInfo) { u.ClientCertificate = p }) },
		"client-key":         func(p string) edit { return user(func(u *clientcmdapiv1.AuthInfo) { u.ClientKey = p }) },
		"tokenFile":          func(p string) edit { return user(func(u *clientcmdapiv1.AuthInfo) { u.TokenFile = p }) },
	}
	for name, set := range setters {
		t.Run(name, func(t *testing.T) {
			texts := map[string]bool{}
			for _, path := range []string{existing, filepath.Join(dir, "missing"), fifo, dir, "relative"} {
				done := make(chan error, 1)
				go func() {
					_, err := restconfig.FromKubeconfig(edited(set(path)), restconfig.Options{})
					done <- err
				}()
				select {
				case err := <-done:
					if err == nil {
						t.Fatalf("%s was accepted", path)
					}
					texts[err.Error()] = true
				case <-time.After(10 * time.Second):
					t.Fatalf("blocked on %s", path)
				}
			}
			if len(texts) != 1 {
				t.Errorf("the text depends on the file: %v", texts)
			}
		})
	}
}

// TestNoValueInErrors plants a sentinel in every string of the file, one kind of break at a time (threat 31).
func TestNoValueInErrors(t *testing.T) {
	const sentinel = "s3nt1nel-Value"
	// fill sets every string below v, except names, which errors may show.
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(sentinel)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			if v.Type().Elem().Kind() == reflect.Uint8 {
				v.SetBytes([]byte(sentinel))
				return
			}
			fill(v.Index(0))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			item := reflect.New(v.Type().Elem()).Elem()
			fill(item)
			v.SetMapIndex(reflect.ValueOf(sentinel), item)
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[k8sruntime.RawExtension]() {
				v.Set(reflect.ValueOf(k8sruntime.RawExtension{Raw: []byte(`{"` + sentinel + `":"` + sentinel + `"}`)}))
				return
			}
			for _, f := range v.Fields() {
				fill(f)
			}
		}
	}
	var inputs [][]byte
	// One field at a time, so that each rule gets to speak, then all at once.
	for _, typ := range []reflect.Type{reflect.TypeFor[clientcmdapiv1.Cluster](), reflect.TypeFor[clientcmdapiv1.AuthInfo](), reflect.TypeFor[clientcmdapiv1.Context](), reflect.TypeFor[clientcmdapiv1.Config]()} {
		for i := range typ.NumField() {
			file := validFile()
			target := map[string]reflect.Value{
				"Cluster": reflect.ValueOf(&file.Clusters[0].Cluster).Elem(), "AuthInfo": reflect.ValueOf(&file.AuthInfos[0].AuthInfo).Elem(),
				"Context": reflect.ValueOf(&file.Contexts[0].Context).Elem(), "Config": reflect.ValueOf(file).Elem(),
			}[typ.Name()]
			switch typ.Field(i).Name {
			case "Clusters", "AuthInfos", "Contexts":
				continue // names
			}
			fill(target.Field(i))
			inputs = append(inputs, encode(file))
		}
	}
	all := validFile()
	fill(reflect.ValueOf(&all.Clusters[0].Cluster).Elem())
	fill(reflect.ValueOf(&all.AuthInfos[0].AuthInfo).Elem())
	inputs = append(inputs, encode(all))
	for _, server := range []string{"https://u:%s@h", "https://%s@h", "http://%s", "https://h?%s", "https://h#%s", "https://h:%s", "%s", "https://%%zz%s", "https:%s", " %s", "https://h %s", "https://[%s"} {
		inputs = append(inputs, edited(cluster(func(c *clientcmdapiv1.Cluster) { c.Server = fmt.Sprintf(server, sentinel) })))
	}
	for _, data := range []string{
		sentinel, "a: b: " + sentinel, "{" + sentinel, "- " + sentinel, "kind: &" + sentinel + " x", "kind: *" + sentinel, "kind: !" + sentinel + " x",
		"%" + sentinel + "\n---\n", "\t" + sentinel, "kind: \"" + sentinel, "? " + sentinel + " x", "kind: !!int " + sentinel, "kind: !!float " + sentinel,
		"kind: !!bool " + sentinel, "kind: !!timestamp " + sentinel, "users: " + sentinel, "users: [" + sentinel + "]", "users: [{name: u, user: " + sentinel + "}]",
		"users: [{name: u, user: {token: {" + sentinel + ": x}}}]", "users: [{name: u, user: {token: [" + sentinel + "]}}]", "'" + sentinel + " x': y",
		"clusters: [{name: c, cluster: {insecure-skip-tls-verify: " + sentinel + "}}]", "clusters: [{name: c, cluster: {certificate-authority-data: '" + sentinel + "!'}}]",
		"users: [{name: u, user: {token: " + sentinel + "\"x}}]", "users: [{name: u, user: {token: x}}]\n---\n" + sentinel + ": [",
		"users: [{name: u, user: {token: x, token: " + sentinel + "}}]",
	} {
		inputs = append(inputs, []byte(data))
	}
	refused := 0
	for _, data := range inputs {
		_, err := restconfig.FromKubeconfig(data, restconfig.Options{})
		if err == nil {
			continue
		}
		refused++
		for text := range map[string]bool{err.Error(): true, fmt.Sprintf("%+v", err): true, fmt.Sprintf("%#v", err): true} {
			if strings.Contains(text, sentinel) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(sentinel))) {
				t.Errorf("a value is in the error: %s\ninput: %s", text, data)
			}
		}
	}
	if refused < 50 {
		t.Errorf("only %d of %d inputs were refused: the test has lost its object", refused, len(inputs))
	}
}

// TestResultIsIndependent: the input may be wiped, and two results do not share memory.
func TestResultIsIndependent(t *testing.T) {
	data := encode(validFile())
	first, err := restconfig.FromKubeconfig(data, restconfig.Options{})
	must(err)
	second, err := restconfig.FromKubeconfig(data, restconfig.Options{})
	must(err)
	clear(data)
	clear(first.CAData)
	if !bytes.Equal(second.CAData, caPEM()) {
		t.Error("two results share memory")
	}
	ca := bytes.Clone(caPEM())
	third, err := restconfig.FromToken(testServer, ca, testToken)
	must(err)
	clear(ca)
	if !bytes.Equal(third.CAData, caPEM()) {
		t.Error("the result of FromToken shares memory with its input")
	}
}

// TestHostileSizes: no input costs more memory than the ceiling, nor more time than the deadline (threat 20).
func TestHostileSizes(t *testing.T) {
	const (
		// ceiling is for all that is allocated during the call, in bytes, also what is freed again before its end.
		ceiling = 64 << 20
		// deadline is generous: machines of continuous integration are slow. Each takes well below a second.
		deadline = 20 * time.Second
	)
	fill := func(unit string) string { return strings.Repeat(unit, (restconfig.MaxSize-16)/len(unit)) }
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	cases := map[string]string{
		"alias bomb":             bomb,
		"2 MiB":                  strings.Repeat("a", 2<<20),
		"commas":                 "[" + fill(","),
		"nested flow lists":      fill("["),
		"nested flow mappings":   fill("{"),
		"nested block lists":     fill("- "),
		"nested complex keys":    fill("? "),
		"list items":             fill("- a\n"),
		"just below the limit":   "extensions: [" + strings.Repeat("a,", 65000) + "]",
		"mapping just below":     "extensions: [{name: x, extension: {" + strings.Repeat("a,", 65000) + "}}]",
		"deep just below":        "extensions: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"comments":               fill("#\n"),
		"long comment":           "#" + fill("a"),
		"line breaks":            fill("\n"),
		"carriage returns":       fill("\r"),
		"spaces":                 fill(" "),
		"tabs":                   fill("\t"),
		"one scalar":             fill("a"),
		"quotes":                 fill("'"),
		"double quotes":          `"` + fill("a"),
		"escapes":                `"` + fill(`\x41`),
		"anchors":                fill("&a "),
		"tags":                   fill("!a "),
		"directives":             fill("%YAML 1.1\n"),
		"documents":              fill("---\n"),
		"document ends":          fill("...\n"),
		"percent":                fill("%"),
		"block scalars":          fill("|\n"),
		"multi-line plain":       "kind: " + fill("a\n "),
		"exclamation":            fill("!"),
		"asterisks":              fill("*"),
		"NUL":                    fill("\x00"),
		"UTF-16":                 "\xff\xfe" + fill("a\x00"),
		"next line character":    fill("\u0085"),
		"comment before an item": fill("#\n- a\n"),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			input := []byte(data)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := restconfig.FromKubeconfig(input, restconfig.Options{})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("got no error")
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > ceiling {
				t.Errorf("allocated %d MiB", used>>20)
			}
			if took > deadline {
				t.Errorf("took %s", took)
			}
			t.Logf("%d KiB, %s: %v", (after.TotalAlloc-before.TotalAlloc)>>10, took.Round(time.Millisecond), err)
		})
	}
}

func TestLargeButHonest(t *testing.T) {
	file := validFile()
	for i := range 1200 {
		c, u := file.Clusters[0], file.AuthInfos[0]
		c.Name, u.Name = fmt.Sprintf("c%d", i), fmt.Sprintf("u%d", i)
		file.Clusters, file.AuthInfos = append(file.Clusters, c), append(file.AuthInfos, u)
		file.Contexts = append(file.Contexts, clientcmdapiv1.NamedContext{
			Name: fmt.Sprintf("x%d", i), Context: clientcmdapiv1.Context{Cluster: c.Name, AuthInfo: u.Name},
		})
	}
	data := encode(file)
	t.Logf("%d KiB", len(data)>>10)
	if _, err := restconfig.FromKubeconfig(data, restconfig.Options{}); err != nil {
		t.Error(err)
	}
}

func TestFromToken(t *testing.T) {
	const word = "token is not valid: it must hold no white space, line break or other special character"
	ca := string(caPEM())
	cases := map[string]struct{ server, ca, token, want string }{
		"good":                     {testServer, ca, testToken, ""},
		"line breaks":              {testServer + "\n", ca, testToken + "\n", ""},
		"no server":                {"", ca, testToken, "server is missing: write it as https://host:port"},
		"http":                     {"http://h", ca, testToken, "server is not accepted: only https is accepted; write it as https://host:port"},
		"no CA":                    {testServer, "", testToken, ""},
		"CA only a line break":     {testServer, "\n", testToken, "ca.crt is not valid: it must hold at least one certificate in PEM form"},
		"bad CA":                   {testServer, "x", testToken, "ca.crt is not valid: it must hold at least one certificate in PEM form"},
		"no token":                 {testServer, ca, "", "token is missing: put the bearer token there"},
		"token only a line break":  {testServer, ca, "\n", "token is missing: put the bearer token there"},
		"token with a line break":  {testServer, ca, "a\nX-Header: b", word},
		"everything wrong: server": {"x", "", "", "server is not accepted: only https is accepted; write it as https://host:port"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := restconfig.FromToken(c.server, []byte(c.ca), c.token)
			if c.want != "" {
				expectError(t, cfg, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := &rest.Config{Host: testServer, BearerToken: testToken, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(c.ca)}}
			if !reflect.DeepEqual(want, cfg) {
				t.Errorf("got %v, want %v", cfg, want)
			}
			expectVerification(t, cfg)
			if err := restconfig.Check(cfg, restconfig.Options{}); err != nil {
				t.Errorf("the result does not pass Check: %v", err)
			}
		})
	}
}

type persister struct{}

func (persister) Persist(map[string]string) error { return nil }

func TestCheck(t *testing.T) {
	const (
		not       = " is not accepted: the credential resolver must not set it"
		proxyText = "rest.Config.Proxy is not accepted: remove it, or use one that the administrator of the hub accepts"
	)
	proxyIs := func(address string, err error) func(cfg *rest.Config) {
		return func(cfg *rest.Config) {
			cfg.Proxy = func(req *http.Request) (*url.URL, error) {
				if address == "" || req.URL.String() != testServer {
					return nil, err
				}
				return url.Parse(address)
			}
		}
	}
	pair := clientPair()
	good := func() *rest.Config {
		return &rest.Config{Host: testServer, BearerToken: testToken, TLSClientConfig: rest.TLSClientConfig{CAData: caPEM()}}
	}
	cases := map[string]struct {
		edit    func(cfg *rest.Config)
		options restconfig.Options
		want    string
		// always: no option accepts it, although the reason is Denied.
		always bool
	}{
		"good": {edit: func(*rest.Config) {}},
		"settings": {edit: func(cfg *rest.Config) {
			cfg.QPS, cfg.Burst, cfg.UserAgent, cfg.Timeout, cfg.ContentType, cfg.NextProtos = 1, 2, "x", time.Second, "y", []string{"h2"}
		}},
		"token source": {edit: func(cfg *rest.Config) {
			cfg.BearerToken = ""
			cfg.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return rt }
		}},
		"certificate": {edit: func(cfg *rest.Config) { cfg.BearerToken, cfg.CertData, cfg.KeyData = "", pair[0], pair[1] }},

		"Username":            {edit: func(cfg *rest.Config) { cfg.Username = "x" }, want: "rest.Config.Username" + not},
		"Password":            {edit: func(cfg *rest.Config) { cfg.Password = "x" }, want: "rest.Config.Password" + not},
		"BearerTokenFile":     {edit: func(cfg *rest.Config) { cfg.BearerTokenFile = "x" }, want: "rest.Config.BearerTokenFile" + not},
		"AuthProvider":        {edit: func(cfg *rest.Config) { cfg.AuthProvider = &clientcmdapi.AuthProviderConfig{} }, want: "rest.Config.AuthProvider" + not},
		"AuthConfigPersister": {edit: func(cfg *rest.Config) { cfg.AuthConfigPersister = persister{} }, want: "rest.Config.AuthConfigPersister" + not},
		"ExecProvider":        {edit: func(cfg *rest.Config) { cfg.ExecProvider = &clientcmdapi.ExecConfig{} }, want: "rest.Config.ExecProvider" + not},
		"Transport":           {edit: func(cfg *rest.Config) { cfg.Transport = http.DefaultTransport }, want: "rest.Config.Transport" + not},
		"Dial": {edit: func(cfg *rest.Config) {
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, nil }
		}, want: "rest.Config.Dial" + not},
		"Proxy that is accepted": {edit: proxyIs(testProxy, nil), options: allOptions()},
		"Proxy that gives none":  {edit: proxyIs("", nil)},
		"Proxy":                  {edit: proxyIs(testProxy, nil), want: proxyText},
		"Proxy that fails":       {edit: proxyIs("", errors.New("x")), want: proxyText, options: allOptions(), always: true},
		"Proxy, another":         {edit: proxyIs("http://other.example.com:3128", nil), want: proxyText, options: allOptions(), always: true},
		"Proxy, another form":    {edit: proxyIs(testProxy+"/", nil), want: proxyText, options: allOptions(), always: true},
		"Impersonate.UserName":   {edit: func(cfg *rest.Config) { cfg.Impersonate.UserName = "x" }, want: "rest.Config.Impersonate.UserName" + not},
		"Impersonate.UID":        {edit: func(cfg *rest.Config) { cfg.Impersonate.UID = "x" }, want: "rest.Config.Impersonate.UID" + not},
		"Impersonate.Groups":     {edit: func(cfg *rest.Config) { cfg.Impersonate.Groups = []string{"x"} }, want: "rest.Config.Impersonate.Groups" + not},
		"Impersonate.Extra":      {edit: func(cfg *rest.Config) { cfg.Impersonate.Extra = map[string][]string{"x": nil} }, want: "rest.Config.Impersonate.Extra" + not},
		"CAFile":                 {edit: func(cfg *rest.Config) { cfg.CAFile = "x" }, want: "rest.Config.TLSClientConfig.CAFile" + not},
		"CertFile":               {edit: func(cfg *rest.Config) { cfg.CertFile = "x" }, want: "rest.Config.TLSClientConfig.CertFile" + not},
		"KeyFile":                {edit: func(cfg *rest.Config) { cfg.KeyFile = "x" }, want: "rest.Config.TLSClientConfig.KeyFile" + not},
		"Insecure":               {edit: func(cfg *rest.Config) { cfg.Insecure, cfg.CAData = true, nil }, want: "rest.Config.TLSClientConfig.Insecure" + not},
		"Insecure, allowed": {edit: func(cfg *rest.Config) { cfg.Insecure, cfg.CAData = true, nil },
			options: restconfig.Options{InsecureSkipTLSVerify: true}},
		"ServerName": {edit: func(cfg *rest.Config) { cfg.ServerName = "a b" },
			want: "rest.Config.TLSClientConfig.ServerName is not valid: write a host name or an IP address"},
		"no Host": {edit: func(cfg *rest.Config) { cfg.Host = "" }, want: "rest.Config.Host is missing: write it as https://host:port"},
		"host without scheme": {edit: func(cfg *rest.Config) { cfg.Host = "host:6443" },
			want: "rest.Config.Host is not accepted: only https is accepted; write it as https://host:port"},
		"user-info": {edit: func(cfg *rest.Config) { cfg.Host = "https://a:b@host" },
			want: "rest.Config.Host is not accepted: remove the user name and password from the address"},
		"no CA": {edit: func(cfg *rest.Config) { cfg.CAData = nil }},
		"bad CA": {edit: func(cfg *rest.Config) { cfg.CAData = []byte("x") },
			want: "rest.Config.TLSClientConfig.CAData is not valid: it must hold at least one certificate in PEM form"},
		"no credential": {edit: func(cfg *rest.Config) { cfg.BearerToken = "" },
			want: "rest.Config.BearerToken is missing: give a token, or a client certificate with its key"},
		"no key": {edit: func(cfg *rest.Config) { cfg.CertData = pair[0] },
			want: "rest.Config.TLSClientConfig.KeyData is missing: client-certificate-data and client-key-data must be PEM and belong together"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := good()
			c.edit(cfg)
			err := restconfig.Check(cfg, c.options)
			if c.want != "" {
				expectError(t, nil, err, c.want)
				if !c.always {
					expectDeniedIfOpened(t, err, restconfig.Check(cfg, allOptions()))
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("nil", func(t *testing.T) {
		expectError(t, nil, restconfig.Check(nil, restconfig.Options{}), "rest.Config is missing: the credential resolver must return one")
	})
}
