// Copyright Contributors to the Open Cluster Management project

package restconfig_test

import (
	"testing"

	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

func BenchmarkFromKubeconfig(b *testing.B) {
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"token", encode(validFile())},
		{"client certificate", edited(func(file *clientcmdapiv1.Config) {
			user := &file.AuthInfos[0].AuthInfo
			user.Token = ""
			user.ClientCertificateData, user.ClientKeyData = clientPair()[0], clientPair()[1]
		})},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := restconfig.FromKubeconfig(c.data, restconfig.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
