// Copyright Contributors to the Open Cluster Management project

package credential_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

const (
	testServer = "https://api.example.com:6443"
	testToken  = "s3nt1nel-token"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// caPEM is a self-signed certificate; nothing verifies against it.
var caPEM = sync.OnceValue(func() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
})

// kubeconfig returns a file with the contexts one and two, none of them current, whose tokens end in their names.
func kubeconfig(edits ...func(file *clientcmdapiv1.Config)) []byte {
	file := &clientcmdapiv1.Config{
		Clusters: []clientcmdapiv1.NamedCluster{{Name: "cl", Cluster: clientcmdapiv1.Cluster{Server: testServer, CertificateAuthorityData: caPEM()}}},
	}
	for _, name := range []string{"one", "two"} {
		file.AuthInfos = append(file.AuthInfos, clientcmdapiv1.NamedAuthInfo{Name: name, AuthInfo: clientcmdapiv1.AuthInfo{Token: testToken + "-" + name}})
		file.Contexts = append(file.Contexts, clientcmdapiv1.NamedContext{Name: name, Context: clientcmdapiv1.Context{Cluster: "cl", AuthInfo: name}})
	}
	file.CurrentContext = "one"
	for _, edit := range edits {
		edit(file)
	}
	data, err := yaml.Marshal(file)
	must(err)
	return data
}

// newSecret returns a Secret with annotations (key, value, key, value ...).
func newSecret(data map[string][]byte, annotations ...string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "import"}, Data: data}
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotations[i], annotations[i+1])
	}
	return secret
}

func kubeconfigSecret(annotations ...string) *corev1.Secret {
	return newSecret(map[string][]byte{"kubeconfig": kubeconfig()}, annotations...)
}

// tokenSecret returns a Secret for the token resolver without the given keys.
func tokenSecret(without ...string) *corev1.Secret {
	secret := newSecret(map[string][]byte{"server": []byte(testServer), "token": []byte(testToken), "ca.crt": caPEM()})
	for _, key := range without {
		delete(secret.Data, key)
	}
	return secret
}
