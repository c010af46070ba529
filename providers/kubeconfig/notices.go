// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"
)

// notice is what an event says of an object that no import is tried with. Failed imports have events of their own.
type notice struct {
	regarding *corev1.ObjectReference
	eventType string
	reason    Reason
	note      string
}

// noticeController records the notices of a cluster when they change.
type noticeController struct {
	provider *Provider

	lock sync.Mutex // guards said, for the time of a look-up or a change
	// said is the last notice by cluster and object: an event is recorded once, not with each change.
	said map[string]map[types.UID]string
}

func newNoticeController(p *Provider) (factory.Controller, error) {
	c := &noticeController{provider: p, said: map[string]map[types.UID]string{}}
	syncCtx := factory.NewSyncContext("import-notices")
	enqueue := func(clusterName string) { syncCtx.Queue().Add(clusterName) }
	if err := p.secrets.onChange(enqueue); err != nil {
		return nil, err
	}
	if err := p.clusterAPI.onChange(enqueue); err != nil {
		return nil, err
	}
	return factory.New().
		WithSyncContext(syncCtx).
		WithInformersQueueKeysFunc(clusterName, p.clusters.Informer()).
		WithSync(c.sync).
		ToController("import-notices"), nil
}

func clusterName(obj runtime.Object) []string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return []string{accessor.GetName()}
}

func (c *noticeController) sync(_ context.Context, _ factory.SyncContext, clusterName string) error {
	notices, err := c.notices(clusterName)
	if err != nil {
		return err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	said := c.said[clusterName]
	delete(c.said, clusterName)
	for _, notice := range notices {
		if said[notice.regarding.UID] != notice.note {
			c.provider.event(notice)
		}
		if c.said[clusterName] == nil {
			c.said[clusterName] = map[types.UID]string{}
		}
		c.said[clusterName][notice.regarding.UID] = notice.note
	}
	return nil
}

func (c *noticeController) notices(clusterName string) ([]notice, error) {
	secrets := c.provider.secrets.forCluster(clusterName)
	misplaced := c.provider.secrets.misplaced(clusterName)
	if len(secrets) == 0 && len(misplaced) == 0 {
		return nil, nil
	}
	cluster, err := c.provider.managedCluster(clusterName)
	if err != nil {
		return nil, err
	}
	var notices []notice
	for _, secret := range misplaced {
		notices = append(notices, notice{secretReference(secret), corev1.EventTypeWarning, ReasonSecretMisplaced,
			fmt.Sprintf("annotation %s names another cluster than %s, whose namespace this is; set it to %s",
				AnnotationManagedCluster, clusterName, clusterName)})
	}
	for _, secret := range secrets {
		about := notice{regarding: secretReference(secret), eventType: corev1.EventTypeWarning}
		switch {
		case len(validation.IsDNS1123Subdomain(clusterName)) > 0:
			about.reason = ReasonAnnotationInvalid
			about.note = fmt.Sprintf("annotation %s is not the name of a ManagedCluster; set it to one", AnnotationManagedCluster)
		case cluster == nil:
			// Not a warning: Secret and ManagedCluster come in either order.
			about.eventType = corev1.EventTypeNormal
			about.reason = ReasonManagedClusterNotFound
			about.note = fmt.Sprintf("there is no ManagedCluster %s; create it, or correct annotation %s",
				clusterName, AnnotationManagedCluster)
		case c.provider.clusterAPI.owns(cluster):
			about.reason = ReasonOwnedByClusterAPI
			about.note = fmt.Sprintf("ManagedCluster %s is imported by Cluster API's provider; this Secret is not used", clusterName)
		case len(secrets) > 1:
			about.reason = ReasonSecretAmbiguous
			about.note = fmt.Sprintf("%d Secrets are for ManagedCluster %s, none is used; %s",
				len(secrets), clusterName, reasonInfos[ReasonSecretAmbiguous].next)
		default:
			continue
		}
		notices = append(notices, about)
	}
	if cluster != nil {
		notices = append(notices, c.clusterNotices(cluster)...)
	}
	return notices, nil
}

func (c *noticeController) clusterNotices(cluster *clusterv1.ManagedCluster) []notice {
	if isImported(cluster) {
		return nil
	}
	if _, paused := cluster.Annotations[AnnotationDisableAutoImport]; paused {
		return []notice{{clusterReference(cluster), corev1.EventTypeNormal, ReasonImportPaused,
			fmt.Sprintf("annotation %s pauses the import; remove it to go on", AnnotationDisableAutoImport)}}
	}
	if c.provider.clusterAPI.owns(cluster) {
		return []notice{{clusterReference(cluster), corev1.EventTypeWarning, ReasonOwnedByClusterAPI,
			"Cluster API's provider imports this cluster; its import Secret is not used"}}
	}
	return nil
}
