// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/fleet/soak"
)

var _ = Describe("A soak", func() {
	// The long form is `make soak`. A hub of its own, since it is restarted.
	It("loses nothing, imports nothing twice and leaks nothing", func(ctx SpecContext) {
		dir := filepath.Join(workDir, "soak")
		Expect(os.Mkdir(dir, 0o700)).To(Succeed())
		Expect(soak.Run(ctx, soak.Options{
			Duration: 20 * time.Second, SettleLimit: 90 * time.Second, Clusters: 15,
			ChangeEvery: 200 * time.Millisecond, FaultEvery: time.Second, Seed: uint64(GinkgoRandomSeed()),
			// Short leases: the one of a killed leader is waited for twice.
			Args:            []string{"--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms"},
			ControlPlaneBin: controlPlaneBinaries, Dir: dir, LogDir: dir,
			Progress: func(text string) { GinkgoWriter.Println(text) },
			Figure: func(name string, value float64, unit string) {
				GinkgoWriter.Println(figures.Line(name, value, figures.None, unit))
			},
		})).To(Succeed())
	}, SpecTimeout(4*time.Minute))
})
