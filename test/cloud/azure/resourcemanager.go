// Copyright Contributors to the Open Cluster Management project

package azure

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// UserCredential is what a kubeconfig of a cluster without Entra ID holds, in place of a certificate.
const UserCredential = "5e471e1-credential-of-arm"

// ID is its resource ID, in which Azure writes resourcegroups in small letters.
func (c Cluster) ID() string {
	return "/subscriptions/" + c.Subscription + "/resourcegroups/" + c.ResourceGroup + "/providers/Microsoft.ContainerService/managedClusters/" + c.Name
}

func (c Cluster) path() string { return strings.ToLower(c.ID()) }

func (c Cluster) readableBy(clientID string) bool {
	return len(c.Readers) == 0 || slices.Contains(c.Readers, clientID)
}

func (c Cluster) resource() map[string]any {
	return map[string]any{
		"id": c.ID(), "name": c.Name, "type": "Microsoft.ContainerService/ManagedClusters", "location": "westeurope",
		"properties": map[string]any{
			"fqdn": c.FQDN, "privateFQDN": c.PrivateFQDN, "azurePortalFQDN": c.PortalFQDN, "provisioningState": c.ProvisioningState,
			"powerState": map[string]any{"code": c.PowerState}, "kubernetesVersion": "1.34.4",
		},
	}
}

// UserKubeconfig is the kubeconfig that users of a cluster get, without a credential.
func (c Cluster) UserKubeconfig() []byte {
	if c.Kubeconfig != nil {
		return c.Kubeconfig
	}
	user := fmt.Sprintf(`{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: kubelogin, provideClusterInfo: false, env: null,
      args: [get-token, --environment, AzurePublicCloud, --server-id, %s, --client-id, 80faf920-1908-4b52-b5ef-a8e7bedfc67a,
        --tenant-id, 11111111-1111-1111-1111-111111111111, --login, devicecode]}}`, KubernetesServer)
	if c.WithoutEntra {
		user = "{token: " + UserCredential + "}"
	}
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster: {server: %[3]q, certificate-authority-data: %[4]s}
contexts:
- name: %[1]s
  context: {cluster: %[1]s, user: clusterUser_%[2]s_%[1]s}
current-context: %[1]s
preferences: {}
users:
- name: clusterUser_%[2]s_%[1]s
  user: %[5]s
`, c.Name, c.ResourceGroup, c.Server, base64.StdEncoding.EncodeToString(c.CA), user)
}

// serveResourceManager has the managed clusters.
func (c *Cloud) serveResourceManager(w http.ResponseWriter, r Request) {
	refuse := func(status int, code string) {
		reply(w, status, map[string]any{"error": map[string]any{"code": code, "message": Sentinel}})
	}
	c.lock.Lock()
	clusters := slices.Clone(c.clusters)
	at := slices.IndexFunc(c.tokens, func(t Token) bool {
		return r.Header.Get("Authorization") == "Bearer "+t.Value && slices.Contains(managerAudiences(), t.Audience) && time.Now().Before(t.Expiry)
	})
	reader := ""
	if at >= 0 {
		reader = c.tokens[at].ClientID
	}
	c.lock.Unlock()
	slices.SortFunc(clusters, func(a, b Cluster) int { return cmp.Compare(a.path(), b.path()) })

	path, action := strings.ToLower(r.Path), ""
	if before, found := strings.CutSuffix(path, "/listclusterusercredential"); found {
		path, action = before, "listClusterUserCredential"
	}
	if at < 0 {
		refuse(http.StatusUnauthorized, "InvalidAuthenticationToken")
		return
	}
	if r.Query.Get("api-version") == "" {
		refuse(http.StatusBadRequest, "MissingApiVersionParameter")
		return
	}
	if subscription, found := strings.CutSuffix(path, "/providers/microsoft.containerservice/managedclusters"); found && r.Method == http.MethodGet {
		list(w, r, subscription, reader, clusters, refuse)
		return
	}
	found := slices.IndexFunc(clusters, func(cluster Cluster) bool { return cluster.path() == path })
	switch {
	case found < 0:
		refuse(http.StatusNotFound, "ResourceNotFound")
	case !clusters[found].readableBy(reader):
		refuse(http.StatusForbidden, "AuthorizationFailed")
	case action == "" && r.Method == http.MethodGet:
		reply(w, http.StatusOK, clusters[found].resource())
	case action != "" && r.Method == http.MethodPost && r.Query.Get("format") == "exec":
		reply(w, http.StatusOK, map[string]any{"kubeconfigs": []any{map[string]any{"name": "clusterUser", "value": clusters[found].UserKubeconfig()}}})
	default:
		refuse(http.StatusBadRequest, "BadRequest")
	}
}

// list answers with a page of the clusters of a subscription that the reader may read; if there are some and none is readable,
// the list is refused.
func list(w http.ResponseWriter, r Request, subscription, reader string, clusters []Cluster, refuse func(int, string)) {
	clusters = slices.DeleteFunc(clusters, func(cluster Cluster) bool { return !strings.HasPrefix(cluster.path(), subscription+"/") })
	all := len(clusters)
	clusters = slices.DeleteFunc(clusters, func(cluster Cluster) bool { return !cluster.readableBy(reader) })
	if all > 0 && len(clusters) == 0 {
		refuse(http.StatusForbidden, "AuthorizationFailed")
		return
	}
	from, err := strconv.Atoi(r.Query.Get("$skiptoken"))
	if err != nil || from < 0 || from > len(clusters) {
		from = 0
	}
	page := map[string]any{}
	to := min(from+pageSize, len(clusters))
	values := []any{}
	for _, cluster := range clusters[from:to] {
		values = append(values, cluster.resource())
	}
	page["value"] = values
	if to < len(clusters) {
		query := url.Values{"api-version": r.Query["api-version"], "$skiptoken": {strconv.Itoa(to)}}
		page["nextLink"] = "https://" + r.Host + r.Path + "?" + query.Encode()
	}
	reply(w, http.StatusOK, page)
}
