// Copyright Contributors to the Open Cluster Management project

package restconfig_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"time"

	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

const (
	testServer = "https://api.example.com:6443"
	testToken  = "test-token"
)

// newPair returns a self-signed certificate and its key, both PEM.
func newPair() (cert, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

var (
	caPEM = sync.OnceValue(func() []byte { cert, _ := newPair(); return cert })
	// clientPair is the certificate and the key of a client.
	clientPair = sync.OnceValue(func() [2][]byte { cert, key := newPair(); return [2][]byte{cert, key} })
	otherPair  = sync.OnceValue(func() [2][]byte { cert, key := newPair(); return [2][]byte{cert, key} })
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// validFile is a kubeconfig that passes, for tests to break.
func validFile() *clientcmdapiv1.Config {
	return &clientcmdapiv1.Config{
		Kind: "Config", APIVersion: "v1", CurrentContext: "ctx",
		Clusters: []clientcmdapiv1.NamedCluster{{Name: "cl", Cluster: clientcmdapiv1.Cluster{
			Server: testServer, CertificateAuthorityData: caPEM(),
		}}},
		AuthInfos: []clientcmdapiv1.NamedAuthInfo{{Name: "us", AuthInfo: clientcmdapiv1.AuthInfo{Token: testToken}}},
		Contexts:  []clientcmdapiv1.NamedContext{{Name: "ctx", Context: clientcmdapiv1.Context{Cluster: "cl", AuthInfo: "us"}}},
	}
}

func encode(file *clientcmdapiv1.Config) []byte {
	data, err := yaml.Marshal(file)
	must(err)
	return data
}

// edited is validFile with one change, as YAML.
func edited(edit func(file *clientcmdapiv1.Config)) []byte {
	file := validFile()
	edit(file)
	return encode(file)
}
