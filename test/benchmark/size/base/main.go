// Copyright Contributors to the Open Cluster Management project

// Command base is what every controller has: a client for Kubernetes. Its size is compared with that of clouds.
package main

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	fmt.Println(kubernetes.NewForConfig(&rest.Config{}))
}
