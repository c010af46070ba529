// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

const (
	// KlusterletNamespace is where the importer puts the klusterlet operator.
	KlusterletNamespace = "open-cluster-management-agent"
	// klusterletName is the Klusterlet that the importer applies.
	klusterletName = "klusterlet"
	klusterletCRD  = "klusterlets.operator.open-cluster-management.io"
	// hubKubeconfigKey is the data key of the Secrets that a klusterlet knows its hub by.
	hubKubeconfigKey = "kubeconfig"
)

// hubSecrets are the Secrets of a klusterlet that say which hub it belongs to: that of a hub it has joined, then that of
// a hub it shall join.
var hubSecrets = []string{"hub-kubeconfig-secret", "bootstrap-hub-kubeconfig"}

// HubIdentity is how a klusterlet knows a hub. Two identities are of one hub when their servers or their CAs are equal:
// a hub may have several addresses.
type HubIdentity struct {
	// Server is the URL of the API server.
	Server string
	// CAData is the PEM bundle that verifies it.
	CAData []byte
}

// HubIdentityOf returns the hub that a klusterlet's kubeconfig leads to, or the zero value if it leads to none. The
// kubeconfig is read for its server and CA alone and never used to build a client, so the rules for kubeconfigs of
// managed clusters do not apply.
func HubIdentityOf(kubeconfig []byte) HubIdentity {
	var config clientcmdapiv1.Config
	if yaml.Unmarshal(kubeconfig, &config) != nil || len(config.Clusters) != 1 {
		return HubIdentity{}
	}
	return HubIdentity{
		Server: config.Clusters[0].Cluster.Server,
		CAData: config.Clusters[0].Cluster.CertificateAuthorityData,
	}
}

func (h HubIdentity) isUnknown() bool { return h.Server == "" && len(h.CAData) == 0 }

func (h HubIdentity) equals(other HubIdentity) bool {
	return h.Server != "" && h.Server == other.Server ||
		len(h.CAData) > 0 && bytes.Equal(bytes.TrimSpace(h.CAData), bytes.TrimSpace(other.CAData))
}

// guard waits for leftovers of a klusterlet that is being removed, and refuses a cluster whose klusterlet is another hub's
// or another cluster's: the importer overwrites it without a look. It reads and never writes. The plan, which says how the
// klusterlet would know this hub, is asked for when the cluster has a klusterlet.
func guard(ctx context.Context, conn *connection, cluster *clusterv1.ManagedCluster, plan func() (*Plan, error)) error {
	defer observeStage(stageOwnership)()
	var namespace corev1.Namespace
	found, err := conn.read(ctx, "Namespace", &namespace, false, "api/v1/namespaces", KlusterletNamespace)
	if err != nil {
		return err
	}
	if found && namespace.Status.Phase == corev1.NamespaceTerminating {
		return &problem{reason: ReasonLeftovers,
			detail: "the namespace " + KlusterletNamespace + " of an earlier import is being deleted"}
	}
	var klusterlet operatorv1.Klusterlet
	found, err = conn.read(ctx, "Klusterlet", &klusterlet, true, "apis", operatorv1.GroupVersion.String(), "klusterlets", klusterletName)
	switch {
	case err != nil:
		return err
	case !found:
		return guardCRD(ctx, conn)
	case !klusterlet.DeletionTimestamp.IsZero():
		return &problem{reason: ReasonLeftovers, detail: "the klusterlet of an earlier import is being deleted"}
	}
	owner, err := klusterletHub(ctx, conn, &klusterlet)
	if err != nil {
		return err
	}
	sameName := klusterlet.Spec.ClusterName == cluster.Name
	if sameName && owner.isUnknown() {
		// It never knew a hub.
		return nil
	}
	planned, err := plan()
	if err != nil {
		return &problem{reason: ReasonHubReadFailed, detail: "the hub's own address cannot be read"}
	}
	if sameName && owner.equals(planned.Hub) {
		return nil
	}
	server := printableServer(owner.Server)
	if takeover, asked := cluster.Annotations[AnnotationTakeover]; asked && takeover == server {
		return nil
	}
	return &problem{reason: ReasonOwnedByAnotherHub, detail: fmt.Sprintf(
		"the cluster has a klusterlet of hub %s, where its name is %s; delete that klusterlet, "+
			"or set annotation %s of the ManagedCluster to %s to replace it",
		server, printableName(klusterlet.Spec.ClusterName), AnnotationTakeover, server)}
}

// guardCRD waits for the end of a CRD that is being deleted: a Klusterlet that is applied now would go with it.
func guardCRD(ctx context.Context, conn *connection) error {
	var crd metav1.PartialObjectMetadata
	found, err := conn.read(ctx, "CustomResourceDefinition", &crd, false,
		"apis/apiextensions.k8s.io/v1/customresourcedefinitions", klusterletCRD)
	if err != nil {
		return err
	}
	if found && !crd.DeletionTimestamp.IsZero() {
		return &problem{reason: ReasonLeftovers, detail: "the CustomResourceDefinition of Klusterlets is being deleted"}
	}
	return nil
}

// agentNamespace is where the agents of a Klusterlet with this spec.namespace are.
func agentNamespace(specified string) string {
	if len(validation.IsDNS1123Label(specified)) > 0 {
		return KlusterletNamespace
	}
	return specified
}

// klusterletHub returns the hub that a klusterlet belongs to.
func klusterletHub(ctx context.Context, conn *connection, klusterlet *operatorv1.Klusterlet) (HubIdentity, error) {
	namespace := agentNamespace(klusterlet.Spec.Namespace)
	for _, name := range hubSecrets {
		var secret corev1.Secret
		found, err := conn.read(ctx, "Secret", &secret, false, "api/v1/namespaces", namespace, "secrets", name)
		if err != nil {
			return HubIdentity{}, err
		}
		if !found {
			continue
		}
		if hub := HubIdentityOf(secret.Data[hubKubeconfigKey]); !hub.isUnknown() {
			return hub, nil
		}
	}
	return HubIdentity{}, nil
}

// serverPattern is what of a server's URL may reach a condition: it was read from the cluster.
var serverPattern = regexp.MustCompile(`^https://[a-zA-Z0-9.\-\[\]:]{1,128}$`)

func printableServer(server string) string {
	if parsed, err := url.Parse(server); err == nil {
		server = parsed.Scheme + "://" + parsed.Host
	}
	if !serverPattern.MatchString(server) {
		return "unknown"
	}
	return server
}

func printableName(name string) string {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return "unknown"
	}
	return name
}
