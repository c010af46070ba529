// Copyright Contributors to the Open Cluster Management project

package exec

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	strictjson "sigs.k8s.io/json"

	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	execCredential = "ExecCredential"
	// execInfo is the variable in which a plugin gets its request.
	execInfo = "KUBERNETES_EXEC_INFO"
)

// environment is the whole environment of a plugin.
func environment(plugin policy.Plugin, config *rest.Config) ([]string, error) {
	// Both versions have the same fields.
	request := clientauthenticationv1.ExecCredential{TypeMeta: metav1.TypeMeta{APIVersion: plugin.APIVersion, Kind: execCredential}}
	if plugin.ProvideClusterInfo {
		request.Spec.Cluster = &clientauthenticationv1.Cluster{
			Server: config.Host, TLSServerName: config.ServerName, CertificateAuthorityData: config.CAData,
		}
	}
	data, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("building the request for a plugin: %w", err)
	}
	var env []string
	for _, name := range plugin.PassEnv {
		if value, found := os.LookupEnv(name); found {
			env = append(env, name+"="+value)
		}
	}
	// The last one counts, should the policy pass that of this process.
	return append(env, execInfo+"="+string(data)), nil
}

// decode reads what a plugin printed, strictly. The error says what is wrong with it, as the rest of a sentence, and nothing of it.
func decode(output []byte, version string, config *rest.Config, now time.Time) (tokensource.Token, error) {
	var printed clientauthenticationv1.ExecCredential
	if strict, err := strictjson.UnmarshalStrict(output, &printed); err != nil || len(strict) > 0 {
		return tokensource.Token{}, errors.New("did not print one JSON document with the fields of an ExecCredential")
	}
	if printed.Kind != execCredential || printed.APIVersion != version {
		return tokensource.Token{}, errors.New("did not print an ExecCredential of version " + version)
	}
	if printed.Status == nil {
		return tokensource.Token{}, errors.New("printed an ExecCredential without status")
	}
	token := tokensource.Token{
		Value: printed.Status.Token, Certificate: []byte(printed.Status.ClientCertificateData), Key: []byte(printed.Status.ClientKeyData),
	}
	// What a kubeconfig may have as its credential: a token of visible characters, a certificate with its key, or both.
	usable := &rest.Config{
		Host: config.Host, BearerToken: token.Value,
		TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData, CertData: token.Certificate, KeyData: token.Key},
	}
	if restconfig.Check(usable, restconfig.Options{}) != nil {
		return tokensource.Token{}, errors.New("printed neither a token nor a client certificate with its key that can be used")
	}
	if printed.Status.ExpirationTimestamp != nil {
		token.Expiry = printed.Status.ExpirationTimestamp.Time
	}
	if end := notAfter(token.Certificate); !end.IsZero() && (token.Expiry.IsZero() || end.Before(token.Expiry)) {
		token.Expiry = end
	}
	if !token.Expiry.IsZero() && !token.Expiry.After(now) {
		return tokensource.Token{}, errors.New("printed a credential that has expired; check the clocks of the hub and of the service")
	}
	return token, nil
}

// notAfter is the end of a client certificate, the first of a chain; zero without one.
func notAfter(certificate []byte) time.Time {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return time.Time{}
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return parsed.NotAfter
}
