// Copyright Contributors to the Open Cluster Management project

package exec_test

import (
	"fmt"

	"open-cluster-management.io/import-provider/pkg/credential/exec"
	"open-cluster-management.io/import-provider/pkg/policy"
)

func ExampleVerify() {
	p, err := policy.Parse([]byte("apiVersion: config.import.open-cluster-management.io/v1alpha1\nkind: ImportPolicy\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, verdict := range exec.Verify(p, "/does/not/exist") {
		fmt.Printf("%s: %s; %s\n", verdict.File, verdict.Problem, verdict.Next)
	}
	// Output:
	// .: the plugin directory cannot be opened; mount it, and set --plugin-directory to where
}
