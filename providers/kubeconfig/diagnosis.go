package kubeconfig

import (
	"context"

	"k8s.io/client-go/kubernetes"
)

func (c *connection) diagnose(context.Context) (*problem, error)                 { return nil, nil }
func csrProblem(context.Context, kubernetes.Interface, string) (*problem, error) { return nil, nil }
