// Copyright Contributors to the Open Cluster Management project

package policy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"open-cluster-management.io/import-provider/pkg/policy"
)

const header = "apiVersion: config.import.open-cluster-management.io/v1alpha1\nkind: ImportPolicy\n"

// parse reads a policy, as YAML without apiVersion and kind.
func parse(t testing.TB, spec string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(header + spec))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newCA returns a self-signed certificate in PEM form.
func newCA(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// inYAML is a text in a block of YAML that is so far indented.
func inYAML(text []byte, indent string) string {
	return "|\n" + indent + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n"+indent) + "\n"
}
