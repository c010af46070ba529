// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	clusterinformerv1 "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

const (
	// indexByUID finds the ManagedClusters of a cluster by the UID that is recorded on them.
	indexByUID = "by-kube-system-uid"
)

// identities knows which cluster is imported under which name. A cluster is known by the UID of its namespace kube-system,
// which lives as long as the cluster. It is recorded on the ManagedCluster after the import; until then it is claimed
// here, so that two imports of one cluster at the same time don't both pass.
type identities struct {
	kubeClient kubernetes.Interface
	clusters   cache.Indexer

	lock   sync.Mutex // guards the fields below, for the time of a look-up or a change
	claims map[types.UID]claim
	hub    types.UID
}

// claim is a ManagedCluster that is being imported. It is void when that object is gone: an import may still run then.
type claim struct {
	name string
	uid  types.UID
}

func newIdentities(kubeClient kubernetes.Interface, clusters clusterinformerv1.ManagedClusterInformer) (*identities, error) {
	informer := clusters.Informer()
	if err := informer.AddIndexers(cache.Indexers{indexByUID: func(obj any) ([]string, error) {
		cluster, ok := obj.(*clusterv1.ManagedCluster)
		if !ok || cluster.Annotations[AnnotationClusterUID] == "" {
			return nil, nil
		}
		return []string{cluster.Annotations[AnnotationClusterUID]}, nil
	}}); err != nil {
		return nil, fmt.Errorf("indexing ManagedClusters by cluster: %w", err)
	}
	return &identities{kubeClient: kubeClient, clusters: informer.GetIndexer(), claims: map[types.UID]claim{}}, nil
}

// check returns a problem when the cluster with the UID can't be imported under the name, and claims it else.
func (i *identities) check(ctx context.Context, cluster *clusterv1.ManagedCluster, uid types.UID) error {
	hub, err := i.hubUID(ctx)
	if err != nil {
		return &problem{reason: ReasonHubReadFailed, detail: "the hub's namespace " + metav1.NamespaceSystem + " cannot be read", cause: err}
	}
	if uid == hub && cluster.Labels[LabelLocalCluster] != "true" {
		return &problem{reason: ReasonHubAsSpoke, detail: "the cluster is the hub itself"}
	}
	if recorded := cluster.Annotations[AnnotationClusterUID]; recorded != "" && recorded != string(uid) {
		return &problem{reason: ReasonClusterSwapped, detail: "it leads to another cluster than the one that was imported under this name"}
	}
	if other := i.claim(cluster, uid); other != "" {
		return &problem{reason: ReasonDuplicateCluster, detail: "the cluster is imported as ManagedCluster " + other + " already"}
	}
	return nil
}

// hubUID returns the UID of the hub's own namespace kube-system.
func (i *identities) hubUID(ctx context.Context) (types.UID, error) {
	i.lock.Lock()
	hub := i.hub
	i.lock.Unlock()
	if hub != "" {
		return hub, nil
	}
	namespace, err := i.kubeClient.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	i.lock.Lock()
	defer i.lock.Unlock()
	i.hub = namespace.UID
	return i.hub, nil
}

// claim gives the cluster with the UID to a ManagedCluster, or returns the name of the one that has it.
func (i *identities) claim(cluster *clusterv1.ManagedCluster, uid types.UID) (other string) {
	i.lock.Lock()
	defer i.lock.Unlock()
	// The index exists, which is the only error there could be.
	recorded, _ := i.clusters.ByIndex(indexByUID, string(uid))
	for _, obj := range recorded {
		if found, ok := obj.(*clusterv1.ManagedCluster); ok && found.Name != cluster.Name && (other == "" || found.Name < other) {
			other = found.Name
		}
	}
	if other != "" {
		return other
	}
	if owner, claimed := i.claims[uid]; claimed && owner.name != cluster.Name && i.exists(owner) {
		return owner.name
	}
	// A name has one cluster: that of its last preflight.
	i.releaseLocked(cluster.Name)
	i.claims[uid] = claim{cluster.Name, cluster.UID}
	return ""
}

func (i *identities) exists(owner claim) bool {
	obj, _, _ := i.clusters.GetByKey(owner.name)
	cluster, ok := obj.(*clusterv1.ManagedCluster)
	return ok && cluster.UID == owner.uid
}

// claimed returns the cluster that a ManagedCluster has claimed, if any.
func (i *identities) claimed(cluster *clusterv1.ManagedCluster) types.UID {
	i.lock.Lock()
	defer i.lock.Unlock()
	for uid, owner := range i.claims {
		if owner == (claim{cluster.Name, cluster.UID}) {
			return uid
		}
	}
	return ""
}

// release gives back what a name has claimed: its import failed, is recorded, or is not wanted any more.
func (i *identities) release(clusterName string) {
	i.lock.Lock()
	defer i.lock.Unlock()
	i.releaseLocked(clusterName)
}

func (i *identities) releaseLocked(clusterName string) {
	for uid, owner := range i.claims {
		if owner.name == clusterName {
			delete(i.claims, uid)
		}
	}
}

// checkIdentity returns a problem when the cluster can't be imported under its name.
func (p *Provider) checkIdentity(ctx context.Context, conn *connection, cluster *clusterv1.ManagedCluster) error {
	defer observeStage(stageIdentity)()
	uid, err := conn.clusterUID(ctx)
	if err != nil {
		return err
	}
	return p.identities.check(ctx, cluster, uid)
}

// clusterUID reads the identity of a cluster.
func (c *connection) clusterUID(ctx context.Context) (types.UID, error) {
	var namespace corev1.Namespace
	found, err := c.read(ctx, "Namespace", &namespace, false, "api/v1/namespaces", metav1.NamespaceSystem)
	if err != nil {
		return "", err
	}
	if !found || namespace.UID == "" {
		return "", &problem{reason: ReasonNotKubernetes, detail: "the cluster has no namespace " + metav1.NamespaceSystem}
	}
	return namespace.UID, nil
}
