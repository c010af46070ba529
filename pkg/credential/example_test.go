// Copyright Contributors to the Open Cluster Management project

package credential_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

func ExampleSet() {
	set, err := credential.NewSet(map[string]credential.Resolver{
		credential.ResolverKubeconfig: credential.NewKubeconfigResolver(credential.KubeconfigOptions{}),
		credential.ResolverToken:      credential.NewTokenResolver(),
	}, credential.SetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}

	secret := newSecret(map[string][]byte{"kubeconfig": kubeconfig()})
	cfg, err := set.Resolve(context.Background(), credential.Request{ClusterName: "cluster1", Secret: secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Host)

	secret = newSecret(nil, credential.AnnotationCredentialResolver, "my-cloud")
	_, err = set.Resolve(context.Background(), credential.Request{ClusterName: "cluster1", Secret: secret})
	fmt.Println(err)
	fmt.Println(credential.IsDenied(err))
	// Output:
	// https://api.example.com:6443
	// its credential resolver is not enabled: set the annotation import.open-cluster-management.io/credential-resolver to one of kubeconfig, token, or let the administrator of the hub allow it
	// true
}

func ExampleNewKubeconfigResolver() {
	resolver := credential.NewKubeconfigResolver(credential.KubeconfigOptions{})
	// The Secret that Cluster API writes has the kubeconfig under the key value.
	secret := newSecret(map[string][]byte{"value": kubeconfig()})
	cfg, err := resolver.Resolve(context.Background(), credential.Request{ClusterName: "cluster1", Secret: secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Host)
	// Output: https://api.example.com:6443
}

func ExampleNewTokenResolver() {
	resolver := credential.NewTokenResolver()
	secret := newSecret(map[string][]byte{
		"server": []byte("https://api.example.com:6443"),
		"token":  []byte("a-token"),
		"ca.crt": []byte("not a certificate"), // to be left out where the certificate is of a public authority
	})
	_, err := resolver.Resolve(context.Background(), credential.Request{ClusterName: "cluster1", Secret: secret})
	fmt.Println(err)

	secret.Data["ca.crt"] = caPEM()
	cfg, err := resolver.Resolve(context.Background(), credential.Request{ClusterName: "cluster1", Secret: secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Host)
	// Output:
	// data key ca.crt is not valid: it must hold at least one certificate in PEM form
	// https://api.example.com:6443
}

// A resolver of one's own: an account in the Secret, and the address and a token from elsewhere.
func ExampleResolverFunc() {
	resolver := credential.ResolverFunc(func(_ context.Context, req credential.Request) (*rest.Config, error) {
		account := string(req.Secret.Data["account"])
		if account == "" {
			return nil, credential.Invalid(errors.New("data key account is missing"))
		}
		if account == "new" {
			return nil, credential.Pending(errors.New("the account is being set up"), time.Minute)
		}
		return restconfig.FromToken("https://api.example.com:6443", caPEM(), "a-token")
	})

	for _, account := range []string{"", "new", "old"} {
		secret := newSecret(map[string][]byte{"account": []byte(account)})
		_, err := resolver.Resolve(context.Background(), credential.Request{Secret: secret})
		after, pending := credential.IsPending(err)
		fmt.Println(err, credential.IsInvalid(err), pending, after)
	}
	// Output:
	// data key account is missing true false 0s
	// the account is being set up false true 1m0s
	// <nil> false false 0s
}
