// Copyright Contributors to the Open Cluster Management project

// Package exec is the resolver for plugins that the administrator of the hub provides: programs that print an
// ExecCredential, for clusters whose tokens no other resolver can mint.
//
// # Usage
//
// The administrator puts the programs into a directory that is mounted read-only, and names each in the policy: its file and
// digest, the arguments and what stands for parameters in them, the hosts that its tokens may be sent to.
//
//	resolver := exec.New(exec.Options{Policy: source.Current, Tokens: tokens, Directory: "/plugins"})
//
// An import Secret has a kubeconfig whose exec stanza has the name of a plugin as the base name of its command, or no
// kubeconfig and the field exec of a credential.Document.
//
// # What a tenant decides
//
// Which of the plugins runs that the policy lists for the namespace, and the values of parameters, within the regular
// expressions of the policy. Never the program: the path of the command is not looked at. Never the form of the arguments: a
// stanza is compared with the template of the policy, and what runs is the template filled in. Never the environment: it
// has the variables that the policy passes and KUBERNETES_EXEC_INFO. Never where the credential goes: the policy has the
// hosts.
//
// # What runs
//
// The file is opened inside of the directory, hashed, and the open file is run, not its name: what was hashed is what
// runs, whatever happens to the directory meanwhile. It is a process group of its own, which is killed as a whole when it is over,
// or when the time, the size of the output or the context is. Its standard error is logged in part; its output is never shown.
//
// # Trade-offs
//
// Each run hashes the file, about 1 ms for 1 MB: a check that is done once would have to trust the directory ever after.
// At most 16 plugins run at the same time, since each is a process with its own memory; those that hang hold up other plugins,
// no other imports, for as long as their timeout. A plugin runs as the user of the hub's process and may read what
// that may, its ServiceAccount token included; a process that leaves its group survives the plugin. Plugins run on Linux only.
package exec
