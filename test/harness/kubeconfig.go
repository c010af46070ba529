// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// entryName is the name of the only cluster, user and context of the kubeconfigs that this package makes.
const entryName = "default"

// TokenKubeconfig returns a kubeconfig for server (a URL) with a bearer token. ca is PEM; nil means the system's roots. Its
// one context is called "default" and is the current one.
func TokenKubeconfig(server string, ca []byte, token string) []byte {
	return kubeconfig(server, ca, &clientcmdapi.AuthInfo{Token: token})
}

// CertKubeconfig returns a kubeconfig for server (a URL) with a client certificate. ca, cert and key are PEM, inline in the
// result; a nil ca means the system's roots. Its one context is called "default" and is the current one.
func CertKubeconfig(server string, ca, cert, key []byte) []byte {
	return kubeconfig(server, ca, &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

func kubeconfig(server string, ca []byte, user *clientcmdapi.AuthInfo) []byte {
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{entryName: {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{entryName: user},
		Contexts:       map[string]*clientcmdapi.Context{entryName: {Cluster: entryName, AuthInfo: entryName}},
		CurrentContext: entryName,
	})
	if err != nil {
		// Encoding a struct of strings and bytes cannot fail.
		panic(fmt.Sprintf("encode a kubeconfig: %v", err))
	}
	return data
}
