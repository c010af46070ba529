// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// authenticator is the webhook that an API server asks whose a bearer token is.
type authenticator struct {
	server *httptest.Server
	config string
}

// startAuthenticator starts a webhook and writes the file that leads an API server to it.
func startAuthenticator(config string, authenticate func(token string) (user string, groups []string)) (*authenticator, error) {
	a := &authenticator{config: config}
	a.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, "not a TokenReview", http.StatusBadRequest)
			return
		}
		user, groups := authenticate(review.Spec.Token)
		review.Spec = authenticationv1.TokenReviewSpec{}
		review.Status = authenticationv1.TokenReviewStatus{
			Authenticated: user != "", User: authenticationv1.UserInfo{Username: user, Groups: groups},
		}
		w.Header().Set("Content-Type", "application/json")
		// An API server that gave up asks again.
		_ = json.NewEncoder(w).Encode(review)
	}))
	file := clientcmdapi.NewConfig()
	file.Clusters["webhook"] = &clientcmdapi.Cluster{
		Server: a.server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw,
		}),
	}
	file.AuthInfos["webhook"] = clientcmdapi.NewAuthInfo()
	file.Contexts["webhook"] = &clientcmdapi.Context{Cluster: "webhook", AuthInfo: "webhook"}
	file.CurrentContext = "webhook"
	data, err := clientcmd.Write(*file)
	if err == nil {
		err = os.WriteFile(config, data, 0o600)
	}
	if err != nil {
		a.server.Close()
		return nil, fmt.Errorf("write the configuration of the authenticator: %w", err)
	}
	return a, nil
}

func (a *authenticator) flags() []string {
	return []string{
		"--authentication-token-webhook-config-file=" + a.config,
		"--authentication-token-webhook-version=v1",
		// What a test changes counts at once.
		"--authentication-token-webhook-cache-ttl=0s",
	}
}

func (a *authenticator) stop() {
	if a != nil {
		a.server.Close()
	}
}
