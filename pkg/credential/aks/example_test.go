// Copyright Contributors to the Open Cluster Management project

package aks_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/aks"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// A policy that names no subscription allows no cluster.
func ExampleNew() {
	resolver := aks.New(cloud.Options{Policy: policy.Default, Tokens: tokensource.NewCache(tokensource.Options{})})
	_, err := resolver.Resolve(context.Background(), credential.Request{
		ClusterName: "cluster1",
		Secret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "open-cluster-management-import", Name: "cluster1"},
			Data: map[string][]byte{credential.DocumentKey: []byte(
				"aks: {subscription: 00000000-0000-0000-0000-000000000000, resourceGroup: platform, cluster: prod}",
			)},
		},
	})
	fmt.Println(credential.IsDenied(err), err)
	// Output:
	// true data key credential.yaml: the policy of the hub does not allow aks.subscription: correct it, or let the administrator of the hub add it to aks.subscriptions
}
