// Copyright Contributors to the Open Cluster Management project

// Command clouds is base with the resolvers of the three clouds.
package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/aks"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/eks"
	"open-cluster-management.io/import-provider/pkg/credential/gke"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

func main() {
	fmt.Println(kubernetes.NewForConfig(&rest.Config{}))
	o := cloud.Options{Policy: policy.Default, Tokens: tokensource.NewCache(tokensource.Options{})}
	for _, resolver := range []credential.Resolver{eks.New(o), gke.New(o), aks.New(o)} {
		fmt.Println(resolver.Resolve(context.Background(), credential.Request{}))
	}
}
