// Copyright Contributors to the Open Cluster Management project

// Package restconfig is the security boundary of the import provider: it turns the bytes of a kubeconfig, which is
// untrusted input, into a rest.Config, or refuses with an error that is safe to publish.
//
// # Usage
//
//	cfg, err := restconfig.FromKubeconfig(data, restconfig.Options{})
//
// FromToken does the same for a server address, a CA bundle, which may be absent, and a bearer token. Parse hands an exec
// stanza on to who can serve it without running it. Check applies the same rules to a rest.Config that other code built.
//
// # What it promises
//
// The package does no I/O: it opens no file, resolves no name, reads no environment, runs no program. It reads the file
// strictly, applies one table of rules (fields.go) to every entry, also to entries that the chosen context does not use,
// and only then copies the fields that the table accepts into a new rest.Config. Nothing that is not named in the table
// can pass, and a test by reflection fails when client-go adds a field that the table does not name.
//
// Errors are of type *FieldError. They name the key, the entry and the next step, never a value; none of them wraps an
// error of the YAML, URL, TLS or base64 library, since those quote their input. The same input gives the same text.
//
// # Trade-offs
//
// The rules are stricter than kubectl's. A file that refers to other files, runs a plugin, or has a broken entry that
// nobody uses is refused as a whole: whoever made it can export one context with
// "kubectl config view --raw --flatten --minify", and a rule with exceptions is a rule to get round. YAML anchors and
// aliases are refused although a kubeconfig may hold them, since no tool writes them and they are how a small file grows large.
// Keys match by exact case, strings that look like numbers need quotes, as for kubectl.
//
// A server is verified by the CA of the input or, without one, by the roots that the program trusts: clusters with a
// certificate of a public authority have kubeconfigs without a CA, which kubectl takes in the same way. A missing CA never
// turns verification off, and a CA that cannot be read is refused and not taken for none.
//
// The addresses a server name resolves to are not this package's business (it does no I/O): the dialer checks those.
package restconfig
