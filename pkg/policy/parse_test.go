// Copyright Contributors to the Open Cluster Management project

package policy_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	sampleFile   = "../../manifests/samples/import-policy.yaml"
	documentFile = "../../docs/policy.md"
)

func TestParseRefuses(t *testing.T) {
	digest := strings.Repeat("a", 64)
	plugin := func(more string) string {
		return "plugins: [{name: p, sha256: {linux/amd64: " + digest + "}, hosts: [h], " + more + "}]"
	}
	const (
		name       = "must be a name of lower-case letters, digits and hyphens, or a pattern with *"
		host       = "must be a host in lower case without scheme, port or a dot at an end, or a pattern with *"
		file       = "must be the name of a file: letters, digits, dots, underscores and hyphens, the first no dot or hyphen"
		role       = "must be the ARN of a role, or a pattern with * that begins with arn:"
		externalID = "must have 2 to 1000 letters, digits and +=,.@:/-, and no braces but {namespace} and {cluster}"
		proxy      = `endpoints.proxies[0]: Invalid value: "…": must be http://host:port or https://host:port, without user, path or query`
		server     = `endpoints.pinned[0].server: Invalid value: "…": must be https://host:port as in the kubeconfig`
		service    = `Invalid value: "…": must be https://host or https://host:port, without user, path or query`
		loader     = "is not passed: it would change what the plugin does beyond its digest"
	)
	rule := func(more string) string { return "rules: [{namespaces: [a], resolvers: [b], " + more + "}]" }
	proxies := func(value string) string { return "endpoints: {proxies: ['" + value + "']}" }
	pinned := func(value string) string {
		return "endpoints:\n  pinned:\n  - server: '" + value + "'\n    certificateAuthorityData: " + inYAML(newCA(t), "      ")
	}
	cases := map[string]struct {
		spec string
		want string // lines in their order
	}{
		// The form.
		"unknown key":             {"rule: []", `unknown field "rule"`},
		"unknown key, deep":       {"rules: [{namespaces: [a], resolvers: [b], eks: {role: x}}]", `unknown field "rules[0].eks.role"`},
		"key in another case":     {"Endpoints: {}", `unknown field "Endpoints"`},
		"two unknown keys":        {"a: 1\nb: 2", "unknown field \"a\"\nunknown field \"b\""},
		"type":                    {"rules: {}", "json: cannot unmarshal object into Go struct field ImportPolicy.rules of type []policy.Rule"},
		"duration":                {plugin("timeout: 1y"), `plugins[0].timeout: Invalid value: "1y": must be a duration such as 30s or 24h`},
		"duration without a unit": {"staticCredentials: {maxLifetime: 30}", `staticCredentials.maxLifetime: Invalid value: "": must be a duration such as 30s or 24h`},
		"two documents":           {"---\n" + header, "the file must be one YAML document"},

		// Rules.
		"rule without anything": {"rules: [{}]", "rules[0].namespaces: Required value: must not be empty\nrules[0].resolvers: Required value: must not be empty"},
		"second rule": {"rules: [{namespaces: [a], resolvers: [b]}, {namespaces: [], resolvers: [b]}]",
			"rules[1].namespaces: Required value: must not be empty"},
		"namespace":                  {"rules: [{namespaces: [A], resolvers: [b]}]", `rules[0].namespaces[0]: Invalid value: "A": ` + name},
		"empty namespace":            {"rules: [{namespaces: [''], resolvers: [b]}]", `rules[0].namespaces[0]: Invalid value: "": ` + name},
		"resolver":                   {"rules: [{namespaces: [a], resolvers: [b, c.d]}]", `rules[0].resolvers[1]: Invalid value: "c.d": ` + name},
		"role of all":                {rule("eks: {roles: ['*']}"), `rules[0].eks.roles[0]: Invalid value: "*": ` + role},
		"role without account":       {rule("eks: {roles: ['arn:aws:iam::1:role/x']}"), `rules[0].eks.roles[0]: Invalid value: "arn:aws:iam::1:role/x": ` + role},
		"user in the place of role":  {rule("eks: {roles: ['arn:aws:iam::123456789012:user/x']}"), `rules[0].eks.roles[0]: Invalid value: "arn:aws:iam::123456789012:user/x": ` + role},
		"external ID, placeholder":   {rule("eks: {externalID: 'x-{name}'}"), `rules[0].eks.externalID: Invalid value: "x-{name}": ` + externalID},
		"external ID, brace":         {rule("eks: {externalID: 'x-{cluster'}"), `rules[0].eks.externalID: Invalid value: "x-{cluster": ` + externalID},
		"external ID, short":         {rule("eks: {externalID: 'x'}"), `rules[0].eks.externalID: Invalid value: "x": ` + externalID},
		"service account":            {rule("gke: {serviceAccounts: ['a b']}"), `rules[0].gke.serviceAccounts[0]: Invalid value: "a b": must be the email of a service account, or a pattern with *`},
		"client ID":                  {rule("aks: {clientIDs: ['a b']}"), `rules[0].aks.clientIDs[0]: Invalid value: "a b": must be a client ID, or a pattern with *`},
		"subscription":               {rule("aks: {subscriptions: [prod]}"), `rules[0].aks.subscriptions[0]: Invalid value: "prod": must be the ID of a subscription, a UUID`},
		"subscription, pattern":      {rule("aks: {subscriptions: ['*']}"), `rules[0].aks.subscriptions[0]: Invalid value: "*": must be the ID of a subscription, a UUID`},
		"plugin of a rule":           {rule("plugins: [p]"), `rules[0].plugins[0]: Not found: "p"`},
		"plugin of a rule, a path":   {rule("plugins: ['/*']"), `rules[0].plugins[0]: Invalid value: "/*": must be the name of a plugin, or a pattern with *`},
		"namespace of a profile":     {rule("clusterProfiles: {namespaces: [A]}"), `rules[0].clusterProfiles.namespaces[0]: Invalid value: "A": ` + name},
		"empty role":                 {rule("eks: {roles: ['']}"), `rules[0].eks.roles[0]: Invalid value: "": ` + role},
		"token request not a bool":   {rule("tokenRequest: 'no'"), "json: cannot unmarshal string into Go struct field Rule.rules.tokenRequest of type bool"},
		"hub identity not a bool":    {rule("eks: {hubIdentity: 1}"), "json: cannot unmarshal number into Go struct field EKS.rules.eks.hubIdentity of type bool"},
		"duplicate key, with a line": {"rules: []\nrules: []", "yaml: unmarshal errors:\n  line 4: key \"rules\" already set in map"},

		// Endpoints.
		"host, upper case":        {"endpoints: {allowHosts: [A.example.com]}", `endpoints.allowHosts[0]: Invalid value: "A.example.com": ` + host},
		"host with a port":        {"endpoints: {denyHosts: ['a:6443']}", `endpoints.denyHosts[0]: Invalid value: "a:6443": ` + host},
		"host with a scheme":      {"endpoints: {denyHosts: ['https://a']}", `endpoints.denyHosts[0]: Invalid value: "https://a": ` + host},
		"host with a dot at end":  {"endpoints: {denyHosts: [a.]}", `endpoints.denyHosts[0]: Invalid value: "a.": ` + host},
		"host with a dot first":   {"endpoints: {denyHosts: [.a]}", `endpoints.denyHosts[0]: Invalid value: ".a": ` + host},
		"host not ASCII":          {"endpoints: {denyHosts: [é]}", `endpoints.denyHosts[0]: Invalid value: "é": ` + host},
		"empty host":              {"endpoints: {denyHosts: ['']}", `endpoints.denyHosts[0]: Invalid value: "": ` + host},
		"host, long IPv6":         {"endpoints: {denyHosts: ['2001:DB8::0:1']}", `endpoints.denyHosts[0]: Invalid value: "2001:DB8::0:1": must be written as 2001:db8::1`},
		"host, mapped":            {"endpoints: {denyHosts: ['::ffff:10.0.0.1']}", `endpoints.denyHosts[0]: Invalid value: "::ffff:10.0.0.1": must be written as 10.0.0.1`},
		"host, zone":              {"endpoints: {allowHosts: ['fe80::1%eth0']}", `endpoints.allowHosts[0]: Invalid value: "fe80::1%eth0": must be written as fe80::1`},
		"range, third":            {"endpoints: {allowCIDRs: [10.0.0.0/8, 0.0.0.0/0, 10.0.0.1]}", `endpoints.allowCIDRs[2]: Invalid value: "10.0.0.1": must be a range of addresses such as 10.0.0.0/8`},
		"range with host bits":    {"endpoints: {denyCIDRs: [10.0.0.1/8]}", `endpoints.denyCIDRs[0]: Invalid value: "10.0.0.1/8": has bits beyond its length: did you mean 10.0.0.0/8?`},
		"range, mapped":           {"endpoints: {denyCIDRs: ['::ffff:10.0.0.0/104']}", `endpoints.denyCIDRs[0]: Invalid value: "::ffff:10.0.0.0/104": must be written as a range of IPv4`},
		"range, zone":             {"endpoints: {denyCIDRs: ['fe80::1%eth0/128']}", `endpoints.denyCIDRs[0]: Invalid value: "fe80::1%eth0/128": must be a range of addresses such as 10.0.0.0/8`},
		"proxy with a password":   {proxies("http://user:s3nt1nel@proxy:3128"), proxy},
		"proxy of SOCKS":          {proxies("socks5://proxy:1080"), proxy},
		"proxy with a slash":      {proxies("http://proxy:3128/"), proxy},
		"proxy with a query":      {proxies("http://proxy:3128?a"), proxy},
		"proxy with a fragment":   {proxies("http://proxy:3128#a"), proxy},
		"proxy without a scheme":  {proxies("proxy:3128"), proxy},
		"proxy without a host":    {proxies("http://:3128"), proxy},
		"proxy with port 0":       {proxies("http://proxy:0"), proxy},
		"proxy with a colon":      {proxies("http://proxy:"), proxy},
		"proxy in another form":   {proxies("HTTP://proxy:3128"), proxy},
		"empty proxy":             {proxies(""), proxy},
		"pinned http":             {pinned("http://a"), server},
		"pinned with user":        {pinned("https://u@a"), server},
		"pinned without a host":   {pinned("https://"), server},
		"pinned without anything": {"endpoints: {pinned: [{}]}", server + "\n" + `endpoints.pinned[0].certificateAuthorityData: Invalid value: "…": must hold at least one certificate in PEM form`},

		// Static credentials.
		"negative lifetime": {"staticCredentials: {maxLifetime: -1s}", `staticCredentials.maxLifetime: Invalid value: "-1s": must not be negative`},

		// Plugins.
		"plugin without anything": {"plugins: [{}]", `plugins[0].name: Invalid value: "": ` + file + "\n" +
			"plugins[0].sha256: Required value: must have the digest for each platform of the hub\nplugins[0].hosts: Required value: must not be empty"},
		"plugin of a path": {"plugins: [{name: ../sh, file: /bin/sh, sha256: {linux/amd64: " + digest + "}, hosts: [h]}]",
			`plugins[0].name: Invalid value: "../sh": ` + file + "\n" + `plugins[0].file: Invalid value: "/bin/sh": ` + file},
		"plugin of a hidden file": {plugin("file: .x"), `plugins[0].file: Invalid value: ".x": ` + file},
		"plugin of an option":     {plugin("file: '-x'"), `plugins[0].file: Invalid value: "-x": ` + file},
		"plugin twice": {"plugins: [{name: p, sha256: {linux/amd64: " + digest + "}, hosts: [h]}, {name: p, sha256: {linux/amd64: " + digest + "}, hosts: [h]}]",
			`plugins[1].name: Duplicate value: "p"`},
		"digest, short": {"plugins: [{name: p, sha256: {linux/amd64: aa}, hosts: [h]}]",
			`plugins[0].sha256[linux/amd64]: Invalid value: "aa": must be a SHA-256 in 64 hexadecimal digits`},
		"digest for no platform": {"plugins: [{name: p, sha256: {linux: " + digest + "}, hosts: [h]}]",
			`plugins[0].sha256[linux]: Invalid value: "linux": must be a platform such as linux/amd64`},
		"placeholder not declared": {plugin("args: ['{x}']"), `plugins[0].args[0]: Invalid value: "{x}": has a placeholder that is not one of parameters: {x}`},
		"parameter not used":       {plugin("parameters: {x: a}"), `plugins[0].parameters[x]: Invalid value: "x": is not used in args`},
		"parameter name": {plugin("args: ['{-x}'], parameters: {-x: a}"),
			`plugins[0].parameters[-x]: Invalid value: "-x": must begin with a letter, and have letters, digits, underscores and hyphens`},
		"parameter, not a pattern": {plugin("args: ['{x}'], parameters: {x: '('}"), `plugins[0].parameters[x]: Invalid value: "(": must be a regular expression (RE2)`},
		"parameter, breaks out":    {plugin("args: ['{x}'], parameters: {x: 'a)|(?:b'}"), `plugins[0].parameters[x]: Invalid value: "a)|(?:b": must be a regular expression (RE2)`},
		"variable":                 {plugin("passEnv: ['A=b']"), `plugins[0].passEnv[0]: Invalid value: "A=b": must be the name of a variable`},
		"loader variables": {plugin("passEnv: [HOME, LD_PRELOAD, DYLD_X, GODEBUG]"), `plugins[0].passEnv[1]: Invalid value: "LD_PRELOAD": ` + loader + "\n" +
			`plugins[0].passEnv[2]: Invalid value: "DYLD_X": ` + loader + "\n" + `plugins[0].passEnv[3]: Invalid value: "GODEBUG": ` + loader},
		"host of a plugin":  {"plugins: [{name: p, sha256: {linux/amd64: " + digest + "}, hosts: [H]}]", `plugins[0].hosts[0]: Invalid value: "H": ` + host},
		"version":           {plugin("apiVersion: v2"), `plugins[0].apiVersion: Unsupported value: "v2": supported values: "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"`},
		"timeout, short":    {plugin("timeout: 1ms"), `plugins[0].timeout: Invalid value: "1ms": must be from 1s to 5m`},
		"timeout, long":     {plugin("timeout: 301s"), `plugins[0].timeout: Invalid value: "5m1s": must be from 1s to 5m`},
		"timeout, negative": {plugin("timeout: -1s"), `plugins[0].timeout: Invalid value: "-1s": must be from 1s to 5m`},
		"output, negative":  {plugin("maxOutputBytes: -1"), `plugins[0].maxOutputBytes: Invalid value: -1: must be from 1 to 1048576`},
		"output, large":     {plugin("maxOutputBytes: 1048577"), `plugins[0].maxOutputBytes: Invalid value: 1048577: must be from 1 to 1048576`},

		// Clouds.
		"cloud, http":        {"clouds: {aws: {sts: 'http://a'}}", "clouds.aws.sts: " + service},
		"cloud, path":        {"clouds: {aws: {eks: 'https://a/b'}}", "clouds.aws.eks: " + service},
		"cloud, user":        {"clouds: {gcp: {container: 'https://u@a'}}", "clouds.gcp.container: " + service},
		"cloud, port":        {"clouds: {gcp: {iamCredentials: 'https://a:x'}}", "clouds.gcp.iamCredentials: " + service},
		"cloud, host":        {"clouds: {azure: {authority: a}}", "clouds.azure.authority: " + service},
		"cloud, query":       {"clouds: {azure: {resourceManager: 'https://a?b'}}", "clouds.azure.resourceManager: " + service},
		"cloud, universe":    {"clouds: {gcp: {universe: 'https://a'}}", `clouds.gcp.universe: Invalid value: "https://a": must be a domain in lower case`},
		"cloud, environment": {"clouds: {azure: {environment: x}}", `clouds.azure.environment: Unsupported value: "x": supported values: "AzurePublicCloud", "AzureUSGovernmentCloud", "AzureChinaCloud"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := policy.Parse([]byte(header + c.spec))
			if err == nil || p != nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "s3nt1nel") {
				t.Error("a password is in the error")
			}
		})
	}

	for name, c := range map[string]struct{ data, want string }{
		"empty":         {"", "the file is empty"},
		"comment":       {"# nothing", "the file is empty"},
		"no version":    {"{}", "apiVersion: Invalid value: \"\": must be config.import.open-cluster-management.io/v1alpha1\nkind: Invalid value: \"\": must be ImportPolicy"},
		"other version": {strings.Replace(header, "v1alpha1", "v1", 1), `apiVersion: Invalid value: "config.import.open-cluster-management.io/v1": must be config.import.open-cluster-management.io/v1alpha1`},
		"other kind":    {strings.Replace(header, "ImportPolicy", "Policy", 1), `kind: Invalid value: "Policy": must be ImportPolicy`},
		"not YAML":      {"a: b: c", "yaml: mapping values are not allowed in this context"},
		"not a mapping": {"[]", "json: cannot unmarshal array into Go value of type policy.ImportPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := policy.Parse([]byte(c.data)); err == nil || err.Error() != c.want {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}

	t.Run("all that is wrong", func(t *testing.T) {
		_, err := policy.Parse([]byte("kind: ImportPolicy\nrules: [{}]\nendpoints: {allowCIDRs: [p, q]}\nclouds: {azure: {environment: x}}"))
		if err == nil || len(strings.Split(err.Error(), "\n")) != 6 {
			t.Errorf("got %v", err)
		}
	})
}

func TestParseDefaults(t *testing.T) {
	everybody := policy.Rule{Namespaces: []string{"*"}, Resolvers: []string{"kubeconfig", "token"}}
	for name, p := range map[string]*policy.Policy{
		"no policy": policy.Default(), "nothing": parse(t, ""), "null": parse(t, "rules: null"), "other fields": parse(t, "endpoints: {allowHosts: [a]}"),
	} {
		if diff := cmp.Diff(everybody, p.Rule("any")); diff != "" {
			t.Errorf("%s: rule (-want +got):\n%s", name, diff)
		}
	}
	if rule := parse(t, "rules: []").Rule("any"); len(rule.Resolvers) != 0 {
		t.Errorf("without a rule: %+v", rule)
	}

	digest := strings.Repeat("Ab", 32)
	p := parse(t, "plugins: [{name: p, sha256: {linux/arm64: "+digest+"}, hosts: [h], args: ['--x={x}'], parameters: {x: 'a|b'}}]")
	want := policy.Plugin{
		Name: "p", File: "p", SHA256: map[string]string{"linux/arm64": strings.ToLower(digest)}, Hosts: []string{"h"}, Args: []string{"--x={x}"},
		Parameters: map[string]string{"x": "^(?:a|b)$"}, APIVersion: "client.authentication.k8s.io/v1",
		Timeout: metav1.Duration{Duration: 30 * time.Second}, MaxOutputBytes: 65536,
	}
	if got, found := p.Plugin("p"); !found || !reflect.DeepEqual(want, got) {
		t.Errorf("plugin (-want +got):\n%s", cmp.Diff(want, got))
	}
	if _, found := p.Plugin("q"); found {
		t.Error("a plugin that is not there is found")
	}
}

// sample returns the sample of manifests/, which has a value in each field.
func sample(t testing.TB) *policy.Policy {
	t.Helper()
	data, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(data)
	if err != nil {
		t.Fatalf("%s: %v", sampleFile, err)
	}
	return p
}

// TestExamples: what people start from must work.
func TestExamples(t *testing.T) {
	p := sample(t)
	if got := p.Rule("payments-a").Resolvers; !slices.Contains(got, "eks") {
		t.Errorf("resolvers of the sample: %q", got)
	}
	page, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		if !strings.Contains(example, "kind: "+policy.Kind) || strings.Contains(example, "kind: ConfigMap") {
			continue
		}
		count++
		if _, err := policy.Parse([]byte(example)); err != nil {
			t.Errorf("%s: %v\n%s", documentFile, err, example)
		}
	}
	if count == 0 {
		t.Error("there is no example")
	}
}

// paths returns the paths of the fields below a type, as errors and the documentation write them.
func paths(typ reflect.Type, prefix string) []string {
	var found []string
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue // apiVersion and kind
		}
		path := strings.TrimPrefix(prefix+"."+name, ".")
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner, path = inner.Elem(), path+"[]"
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[metav1.Duration]() {
			found = append(found, paths(inner, path)...)
			continue
		}
		found = append(found, strings.TrimSuffix(path, "[]"))
	}
	return found
}

// TestDocumentedFields compares the tables of docs/policy.md with the types.
func TestDocumentedFields(t *testing.T) {
	page, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 {
			continue
		}
		documented = append(documented, strings.Trim(cells[0], "|` "))
	}
	if diff := cmp.Diff(paths(reflect.TypeFor[policy.ImportPolicy](), ""), documented); diff != "" {
		t.Errorf("%s has other fields than the code (-code +document):\n%s", documentFile, diff)
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(sampleFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(header + "endpoints: {allowCIDRs: [::/0], proxies: ['http://a:1']}"))
	f.Add([]byte(header + "plugins: [{name: a, args: ['{a}'], parameters: {a: '(?m)a'}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policy.Parse(data)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v and %v", p, err)
		}
		if err != nil {
			if _, again := policy.Parse(data); again == nil || again.Error() != err.Error() {
				t.Fatalf("two texts for one input: %v and %v", err, again)
			}
			return
		}
		for _, plugin := range p.Plugins() {
			if strings.ContainsAny(plugin.File, `/\`) || plugin.Timeout.Duration <= 0 || plugin.MaxOutputBytes <= 0 || len(plugin.Hosts) == 0 {
				t.Fatalf("a plugin with an open end: %+v", plugin)
			}
		}
	})
}
