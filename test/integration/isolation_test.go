// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
)

var _ = Describe("A cluster that accepts connections and never answers", func() {
	// Longer than the imports of nine clusters take on a busy machine, so that all of them fall into the first attempt.
	const handshake = "--spoke-tls-timeout=3m"

	It("holds up no other cluster", func(ctx SpecContext) {
		// Nine API servers would be too much for the machines that run this: three of them serve three clusters each.
		launch(ctx, component.Options{Args: []string{"--leader-elect=false", handshake, "--spoke-import-timeout=3m", "--spoke-request-timeout=3m"}})
		for _, spoke := range spokes {
			spoke.clean(ctx)
		}
		hung := newName("hung")
		createSecret(ctx, kubeconfigSecret(hung, harness.TokenKubeconfig("https://"+listenTCP(ctx), spokes[0].CAData(), sentinel)))
		createCluster(ctx, hung)
		var healthy []string
		for _, spoke := range spokes {
			for range 3 {
				name := newName("healthy")
				healthy = append(healthy, name)
				createSecret(ctx, kubeconfigSecret(name, asAnotherCluster(spoke, name).kubeconfig()))
				createCluster(ctx, name, kubeconfig.AnnotationTakeover, hub.URL())
			}
		}
		for _, name := range healthy {
			expectImported(ctx, name)
		}
		Expect(condition(hung)(ctx)).To(BeNil(), "its first attempt has not ended")
	})

	It("does not keep the component from ending", func(ctx SpecContext) {
		c := launch(ctx, component.Options{Args: []string{handshake, "--spoke-import-timeout=3m", "--spoke-request-timeout=3m"}})
		hung := newName("hung")
		accepted := make(chan struct{})
		createSecret(ctx, kubeconfigSecret(hung, harness.TokenKubeconfig("https://"+listenTCPFunc(ctx, func() { close(accepted) }),
			spokes[0].CAData(), sentinel)))
		createCluster(ctx, hung)
		Eventually(accepted).WithContext(ctx).Should(BeClosed())
		started := time.Now()
		// The grace period of the Deployment is 30 s.
		Expect(c.Stop()).To(BeTrue())
		Expect(time.Since(started)).To(BeNumerically("<", 30*time.Second))
		Expect(c.ExitCode()).To(BeZero())
		Expect(condition(hung)(ctx)).To(BeNil(), "an import that was broken off says nothing about the cluster")
	})
})
