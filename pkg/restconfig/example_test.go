// Copyright Contributors to the Open Cluster Management project

package restconfig_test

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

func ExampleFromKubeconfig() {
	// A kubeconfig as "kubectl config view --raw --flatten --minify" writes it.
	data := encode(validFile())

	cfg, err := restconfig.FromKubeconfig(data, restconfig.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Host)
	// Output: https://api.example.com:6443
}

func ExampleFromKubeconfig_refused() {
	data := []byte(`
users:
- name: admin
  user:
    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
`)
	_, err := restconfig.FromKubeconfig(data, restconfig.Options{})
	fmt.Println(err)

	if broken, ok := errors.AsType[*restconfig.FieldError](err); ok {
		fmt.Println(broken.Reason)
	}
	// Output:
	// users[].user.tokenFile of entry "admin" is not accepted: file paths are not followed; put the token inline in token
	// Forbidden
}

func ExampleFromToken() {
	cfg, err := restconfig.FromToken("https://api.example.com:6443", caPEM(), "a-token")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Host)
	// Output: https://api.example.com:6443
}

func ExampleCheck() {
	// A config that some other code built.
	cfg := &rest.Config{Host: "https://api.example.com", BearerTokenFile: "/etc/token"}
	fmt.Println(restconfig.Check(cfg, restconfig.Options{}))
	// Output: rest.Config.BearerTokenFile is not accepted: the credential resolver must not set it
}
