// Copyright Contributors to the Open Cluster Management project

package gke

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"cloud.google.com/go/compute/metadata"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	// scope is what both the Kubernetes Engine API and the clusters want; roles limit what it is good for.
	scope = "https://www.googleapis.com/auth/cloud-platform"
	// lifetime of a token of another service account: the longest that needs no policy of the organisation.
	lifetime = "3600s"

	metadataHostVariable = "GCE_METADATA_HOST"
	// metadataAddress is the same in all of Google Cloud, as its documentation has it.
	metadataAddress = "169.254.169.254"
	// metadataTimeout bounds all attempts together: the client tries again by itself, also after a time-out.
	metadataTimeout = 10 * time.Second
	metadataDial    = 2 * time.Second

	// provisioningRetry is a fraction of the five minutes and more that the creation of a cluster takes.
	provisioningRetry = 30 * time.Second

	// clusterFields are all that is asked for. A whole cluster is large, and an old one has a client key in it.
	clusterFields = "status,endpoint,masterAuth/clusterCaCertificate,privateClusterConfig(privateEndpoint,publicEndpoint)," +
		"controlPlaneEndpointsConfig(dnsEndpointConfig(endpoint,allowExternalTraffic),ipEndpointsConfig(enabled,privateEndpoint,publicEndpoint))"
)

// newMetadataClient returns a client for the metadata server alone, which no proxy stands in front of. It is where the platform
// says, by the variable that all of Google's libraries read.
func newMetadataClient(getenv func(string) string) *http.Client {
	next := &http.Transport{DialContext: (&net.Dialer{Timeout: metadataDial}).DialContext}
	return cloud.Bounded(&http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.URL.Host = cmp.Or(getenv(metadataHostVariable), metadataAddress)
		req.Host = req.URL.Host
		return next.RoundTrip(req)
	})})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// hubToken mints a token of the hub's own service account. The metadata server keeps them, so it is asked each time.
func (r *resolver) hubToken(ctx context.Context) (tokensource.Token, error) {
	bounded, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	now := r.options.Clock.Now()
	text, err := metadata.NewClient(r.metadata).GetWithContext(bounded,
		"instance/service-accounts/default/token?"+url.Values{"scopes": {scope}}.Encode())
	if ctx.Err() != nil {
		return tokensource.Token{}, ctx.Err()
	}
	answer := struct {
		Token   string `json:"access_token"`
		Seconds int    `json:"expires_in"`
	}{}
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	var undefined metadata.NotDefinedError
	switch {
	case errors.As(err, &undefined):
		return tokensource.Token{}, credential.MintFailed(errors.New("the hub has no service account of Google Cloud: let the administrator of " +
			"the hub attach one, by Workload Identity Federation for GKE or to its machine"))
	case err != nil || answer.Token == "" || answer.Seconds <= 0:
		return tokensource.Token{}, credential.MintFailedBecause(causeOf(err), errors.New("the metadata server of Google Cloud gives no token: the hub must run on "+
			"Google Cloud with a service account that it may use; let the administrator of the hub check that"))
	}
	return tokensource.Token{Value: answer.Token, Expiry: now.Add(time.Duration(answer.Seconds) * time.Second)}, nil
}

// impersonate mints a token of another service account with one of the hub's own.
func (r *resolver) impersonate(ctx context.Context, own tokensource.Token, email string) (tokensource.Token, error) {
	_, base := r.services()
	answer := struct {
		Token  string    `json:"accessToken"`
		Expiry time.Time `json:"expireTime"`
	}{}
	status, err := r.call(ctx, http.MethodPost, base+"/v1/projects/-/serviceAccounts/"+url.PathEscape(email)+":generateAccessToken",
		own.Value, map[string]any{"scope": []string{scope}, "lifetime": lifetime}, &answer)
	switch {
	case ctx.Err() != nil:
		return tokensource.Token{}, ctx.Err()
	case status == http.StatusForbidden:
		return tokensource.Token{}, credential.MintFailed(errors.New("the IAM Service Account Credentials API refuses a token of the service " +
			"account that it names: let its administrator give the hub's service account roles/iam.serviceAccountTokenCreator on it, and " +
			"enable the API in the hub's project"))
	case status == http.StatusNotFound, status == http.StatusBadRequest:
		return tokensource.Token{}, credential.Invalid(errors.New("the service account that it names does not exist: correct its email"))
	case err != nil || answer.Token == "" || !answer.Expiry.After(r.options.Clock.Now()):
		return tokensource.Token{}, credential.MintFailedBecause(causeOf(err), errors.New("the IAM Service Account Credentials API gives no token: let the "+
			"administrator of the hub check that it is reached from there"))
	}
	return tokensource.Token{Value: answer.Token, Expiry: answer.Expiry}, nil
}

// clusterAnswer is a Cluster of the Kubernetes Engine API, as far as clusterFields ask for it.
type clusterAnswer struct {
	Status     string `json:"status"`
	Endpoint   string `json:"endpoint"`
	MasterAuth struct {
		CA string `json:"clusterCaCertificate"`
	} `json:"masterAuth"`
	Private      addresses `json:"privateClusterConfig"`
	ControlPlane struct {
		DNS struct {
			Endpoint string `json:"endpoint"`
			// Open says whether it is for others than services of Google Cloud. The endpoint is reported in either case.
			Open bool `json:"allowExternalTraffic"`
		} `json:"dnsEndpointConfig"`
		IP struct {
			addresses
			// Enabled is absent where there is no choice: then they are.
			Enabled *bool `json:"enabled"`
		} `json:"ipEndpointsConfig"`
	} `json:"controlPlaneEndpointsConfig"`
}

type addresses struct {
	Private string `json:"privateEndpoint"`
	Public  string `json:"publicEndpoint"`
}

// endpoint asks the Kubernetes Engine API where the cluster is. The token goes to the API alone. server is where the kubeconfig
// leads to, if there is one.
func (r *resolver) endpoint(ctx context.Context, req credential.Request, t target, server string) (cloud.Endpoint, error) {
	base, _ := r.services()
	token, err := r.tokens(req, &rest.Config{Host: base}, t).Token(ctx)
	if err != nil {
		return cloud.Endpoint{}, err //nolint:wrapcheck // it is ours: see hubToken and impersonate.
	}
	var answer clusterAnswer
	status, err := r.call(ctx, http.MethodGet, base+"/v1/projects/"+url.PathEscape(t.project)+"/locations/"+url.PathEscape(t.location)+
		"/clusters/"+url.PathEscape(t.cluster)+"?"+url.Values{"fields": {clusterFields}}.Encode(), token.Value, nil, &answer)
	switch {
	case ctx.Err() != nil:
		return cloud.Endpoint{}, ctx.Err()
	case status == http.StatusForbidden:
		return cloud.Endpoint{}, credential.MintFailed(errors.New("the Kubernetes Engine API does not show the cluster to the service account " +
			"that is used: let the administrator of its project give that one roles/container.clusterViewer there, and enable the API"))
	case status == http.StatusNotFound, status == http.StatusBadRequest:
		return cloud.Endpoint{}, credential.Invalid(errors.New("the cluster that it names does not exist: correct its project, location and name"))
	case err != nil:
		return cloud.Endpoint{}, credential.MintFailedBecause(causeOf(err), errors.New("the Kubernetes Engine API does not say where the cluster is: let the "+
			"administrator of the hub check that the API is reached from there"))
	}
	// The states are those of the API's enum Cluster.Status.
	switch answer.Status {
	case "RUNNING", "RECONCILING", "DEGRADED":
	case "PROVISIONING":
		return cloud.Endpoint{}, credential.Pending(errors.New("the cluster is being created"), provisioningRetry)
	case "STOPPING":
		return cloud.Endpoint{}, credential.MintFailed(errors.New("the cluster is being deleted: delete the import Secret too"))
	default:
		return cloud.Endpoint{}, credential.MintFailed(errors.New("the cluster is in a state of error: repair it in Google Cloud"))
	}
	return answer.where(server)
}

// where is the endpoint of a cluster: the IP addresses with its CA, and the DNS name, whose certificate is Google's.
func (a *clusterAnswer) where(server string) (cloud.Endpoint, error) {
	var endpoint cloud.Endpoint
	if dns := a.ControlPlane.DNS; dns.Endpoint != "" {
		switch public := "https://" + dns.Endpoint; {
		case dns.Open:
			endpoint.PublicServers = []string{public}
		case policy.SameServer(public, server):
			return cloud.Endpoint{}, credential.MintFailed(errors.New("the DNS endpoint of the cluster takes no traffic from outside of Google " +
				"Cloud's services: let the administrator of the cluster allow it, or use a kubeconfig for an IP endpoint"))
		}
	}
	if enabled := a.ControlPlane.IP.Enabled; enabled == nil || *enabled {
		for _, address := range []string{
			a.Endpoint, a.ControlPlane.IP.Public, a.ControlPlane.IP.Private, a.Private.Public, a.Private.Private,
		} {
			if server := serverOf(address); server != "" && !slices.Contains(endpoint.Servers, server) {
				endpoint.Servers = append(endpoint.Servers, server)
			}
		}
	}
	switch {
	case len(endpoint.Servers) > 0:
		ca, err := base64.StdEncoding.DecodeString(a.MasterAuth.CA)
		if err != nil || !policy.SameCA(ca, ca) {
			return cloud.Endpoint{}, credential.MintFailed(errors.New("the Kubernetes Engine API reports no CA of the cluster: let the " +
				"administrator of the cluster check it"))
		}
		endpoint.CA = ca
	case len(endpoint.PublicServers) == 0:
		return cloud.Endpoint{}, credential.MintFailed(errors.New("the control plane of the cluster has neither an IP endpoint nor a DNS " +
			"endpoint that takes traffic from outside of Google Cloud's services: let the administrator of the cluster enable one"))
	}
	return endpoint, nil
}

// serverOf is the address of a server at an IP address, with a port where that is not 443; "" if it is none.
func serverOf(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip.Is6() {
			return "https://[" + ip.String() + "]"
		}
		return "https://" + ip.String()
	}
	if ip, err := netip.ParseAddrPort(address); err == nil {
		return "https://" + ip.String()
	}
	return ""
}

// causeOf is what the log may say of an error: not what a service said, nor a URL, which names a cluster of a tenant.
func causeOf(err error) error {
	if refused, ok := errors.AsType[*metadata.Error](err); ok {
		return fmt.Errorf("HTTP status %d", refused.Code)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// services are the addresses of the Kubernetes Engine API and of the IAM Service Account Credentials API.
func (r *resolver) services() (container, iamCredentials string) {
	gcp := r.options.Policy().Clouds().GCP
	universe := cmp.Or(gcp.Universe, "googleapis.com")
	return cmp.Or(gcp.Container, "https://container."+universe), cmp.Or(gcp.IAMCredentials, "https://iamcredentials."+universe)
}

// call sends a request to a service of Google Cloud. The status is 0 without an answer. The error is not fit for a condition, nor
// is the body of a refusal, which is not read.
func (r *resolver) call(ctx context.Context, method, address, token string, body, answer any) (status int, err error) {
	var content io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, fmt.Errorf("encoding a request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return 0, fmt.Errorf("building a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.options.HTTPClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("sending a request: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return resp.StatusCode, fmt.Errorf("reading an answer: %w", err)
	}
	return resp.StatusCode, nil
}
