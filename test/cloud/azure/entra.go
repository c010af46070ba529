// Copyright Contributors to the Open Cluster Management project

package azure

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sentinel is in the texts of all errors, where Azure has IDs of requests and times.
const Sentinel = "trace-5e471e1-sentinel"

// Refusal is an answer of Entra ID with an error code.
func Refusal(code int) Answer {
	return Answer{Status: http.StatusUnauthorized, Body: fmt.Sprintf(
		`{"error":"invalid_client","error_description":"AADSTS%d: made up. Trace ID: %s Timestamp: %s","error_codes":[%d],"trace_id":%q}`,
		code, Sentinel, time.Now().Format(time.RFC3339Nano), code, Sentinel)}
}

// serveEntra has the discovery document and the token endpoint of each tenant.
func (c *Cloud) serveEntra(w http.ResponseWriter, r Request) {
	tenant, path, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	refuse := func(code int) {
		answer := Refusal(code)
		w.WriteHeader(answer.Status)
		_, _ = w.Write([]byte(answer.Body))
	}
	switch {
	case r.Method == http.MethodGet && path == "v2.0/.well-known/openid-configuration":
		base := "https://" + r.Host + "/" + tenant
		reply(w, http.StatusOK, map[string]any{
			"issuer": base + "/v2.0", "token_endpoint": base + "/oauth2/v2.0/token", "authorization_endpoint": base + "/oauth2/v2.0/authorize",
		})
	case r.Method == http.MethodPost && path == "oauth2/v2.0/token":
		identity, known := c.identity(func(i Identity) bool {
			return i.Assertion != "" && i.ClientID == r.Form.Get("client_id") && i.TenantID == tenant
		})
		scopes := strings.Fields(r.Form.Get("scope"))
		at := slices.IndexFunc(scopes, func(scope string) bool { return strings.HasSuffix(scope, "/.default") })
		switch {
		case r.Form.Get("grant_type") != "client_credentials":
			refuse(70003)
		case !known:
			refuse(700016)
		case r.Form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer":
			refuse(50027)
		case r.Form.Get("client_assertion") != identity.Assertion:
			refuse(700213)
		case at < 0 || !issuable(strings.TrimSuffix(scopes[at], "/.default")):
			refuse(500011)
		default:
			token := c.issue(identity, strings.TrimSuffix(scopes[at], "/.default"))
			seconds := int(time.Until(token.Expiry).Round(time.Second).Seconds())
			reply(w, http.StatusOK, map[string]any{
				"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": token.Value,
			})
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func issuable(audience string) bool {
	return audience == KubernetesServer || slices.Contains(managerAudiences(), audience)
}

// serveMetadata gives tokens to managed identities.
func (c *Cloud) serveMetadata(w http.ResponseWriter, r Request) {
	refuse := func(status int, code string) {
		reply(w, status, map[string]any{"error": code, "error_description": Sentinel})
	}
	identity, known := c.identity(func(i Identity) bool {
		id := r.Query.Get("client_id")
		return i.Assertion == "" && (id == "" && i.System || id != "" && id == i.ClientID)
	})
	resource := r.Query.Get("resource")
	switch {
	case r.Method != http.MethodGet || r.Path != "/metadata/identity/oauth2/token":
		refuse(http.StatusNotFound, "not_found")
	case r.Header.Get("Metadata") != "true":
		refuse(http.StatusBadRequest, "bad_request_102")
	case r.Query.Get("api-version") != "2018-02-01":
		refuse(http.StatusBadRequest, "bad_request_101")
	case !known:
		refuse(http.StatusBadRequest, "invalid_request")
	case !issuable(resource):
		refuse(http.StatusBadRequest, "invalid_resource")
	default:
		token := c.issue(identity, resource)
		seconds := strconv.Itoa(int(time.Until(token.Expiry).Round(time.Second).Seconds()))
		reply(w, http.StatusOK, map[string]any{
			"token_type": "Bearer", "resource": resource, "client_id": identity.ClientID, "access_token": token.Value,
			"expires_in": seconds, "ext_expires_in": seconds, "expires_on": strconv.FormatInt(token.Expiry.Unix(), 10),
		})
	}
}
