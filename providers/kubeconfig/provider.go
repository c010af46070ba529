// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformerv1 "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	// maxNoteLength leaves room below the 1 KiB at which the API server refuses an event.
	maxNoteLength = 1000
	// maxNamedSecrets bounds a condition's message, which may have 32 KiB.
	maxNamedSecrets = 5
)

// Options configure a Provider. All fields without a default are required.
type Options struct {
	// KubeClient reads import Secrets on the hub, one when an import needs it, the hub's own namespace kube-system, and the
	// CertificateSigningRequests of klusterlets that have not joined.
	KubeClient kubernetes.Interface
	// MetadataClient watches the metadata of import Secrets, and of Cluster API's clusters, on the hub.
	MetadataClient metadata.Interface
	// ClusterClient writes AnnotationImmediateImport and AnnotationClusterUID, and conditions after the import.
	ClusterClient clusterclientset.Interface
	// ManagedClusters is the informer that the importer uses. The caller starts it.
	ManagedClusters clusterinformerv1.ManagedClusterInformer
	// Resolvers build the credential of a managed cluster from an import Secret.
	Resolvers *credential.Set
	// Plan returns what the importer will put on a cluster.
	Plan func(ctx context.Context, cluster *clusterv1.ManagedCluster) (*Plan, error)
	// Recorder records events on import Secrets and ManagedClusters. It is not one of client-go's package events: that
	// takes two events of one reason for the same, whatever their text, and drops the second.
	Recorder record.EventRecorder
	// ImportNamespaces are the namespaces whose Secrets may import any cluster; DefaultImportNamespace alone when nil.
	ImportNamespaces []string
	// Policy returns what the administrator allows now; policy.Default when nil. Call PolicyChanged when it changes.
	Policy func() *policy.Policy
	// Connection bounds what is spent on one managed cluster.
	Connection ConnectionOptions
	// DeclineClusterAPI leaves clusters that Cluster API owns to another importer. Leave it off when Cluster API's
	// provider runs in the same importer: there the order of providers decides.
	DeclineClusterAPI bool
}

// Provider imports clusters by the credentials in annotated Secrets. Build it with New.
type Provider struct {
	kubeClient    kubernetes.Interface
	clusterClient clusterclientset.Interface
	clusters      clusterinformerv1.ManagedClusterInformer
	resolvers     *credential.Set
	policy        func() *policy.Policy
	plan          func(ctx context.Context, cluster *clusterv1.ManagedCluster) (*Plan, error)
	recorder      record.EventRecorder
	connection    ConnectionOptions

	secrets    *secrets
	clusterAPI *clusterAPI
	failures   *failures
	identities *identities
	progress   *progressController
	expiries   *expiryController
	// policyChanges counts calls of PolicyChanged.
	policyChanges atomic.Int64
	// controllers run beside the importer, each with so many workers.
	controllers map[factory.Controller]int
	// wake makes the importer look at a cluster now; Register sets it.
	wake func(clusterName string)
}

var _ providers.Interface = &Provider{}

// New returns a provider that watches nothing before Run. Errors name the option that is missing or wrong.
func New(o Options) (*Provider, error) {
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"KubeClient", o.KubeClient == nil},
		{"MetadataClient", o.MetadataClient == nil},
		{"ClusterClient", o.ClusterClient == nil},
		{"ManagedClusters", o.ManagedClusters == nil},
		{"Resolvers", o.Resolvers == nil},
		{"Plan", o.Plan == nil},
		{"Recorder", o.Recorder == nil},
	} {
		if required.missing {
			return nil, fmt.Errorf("option %s is required", required.name)
		}
	}
	o.Connection.Default()
	if errs := o.Connection.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("option Connection: %w", errors.Join(errs...))
	}
	if o.Policy == nil {
		unchanged := policy.Default()
		o.Policy = func() *policy.Policy { return unchanged }
	}
	if o.ImportNamespaces == nil {
		o.ImportNamespaces = []string{DefaultImportNamespace}
	}
	if err := ValidateImportNamespaces(o.ImportNamespaces); err != nil {
		return nil, fmt.Errorf("option ImportNamespaces: %w", err)
	}

	registerMetrics()
	p := &Provider{
		kubeClient:    o.KubeClient,
		clusterClient: o.ClusterClient,
		clusters:      o.ManagedClusters,
		resolvers:     o.Resolvers,
		policy:        o.Policy,
		plan:          o.Plan,
		recorder:      o.Recorder,
		connection:    o.Connection,
		failures:      newFailures(),
		wake:          func(string) {},
	}
	var err error
	if p.identities, err = newIdentities(o.KubeClient, o.ManagedClusters); err != nil {
		return nil, err
	}
	if p.secrets, err = newSecrets(o.MetadataClient, o.ImportNamespaces); err != nil {
		return nil, err
	}
	if err := p.secrets.onDelete(o.Resolvers.Forget); err != nil {
		return nil, err
	}
	if o.DeclineClusterAPI {
		if p.clusterAPI, err = newClusterAPI(o.MetadataClient); err != nil {
			return nil, err
		}
	}
	notices, err := newNoticeController(p)
	if err != nil {
		return nil, err
	}
	var progress, diagnoses, expiries factory.Controller
	if p.progress, progress, err = newProgressController(p); err != nil {
		return nil, err
	}
	if diagnoses, err = newDiagnosisController(p, p.progress); err != nil {
		return nil, err
	}
	if p.expiries, expiries, err = newExpiryController(p); err != nil {
		return nil, err
	}
	p.controllers = map[factory.Controller]int{
		notices: 1, newReimportController(p): 1, progress: progressWorkers, diagnoses: diagnosisWorkers, expiries: 1,
	}
	if _, err := p.clusters.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				p.forgetCluster(key)
			}
		},
	}); err != nil {
		return nil, fmt.Errorf("watching ManagedClusters: %w", err)
	}
	return p, nil
}

// ValidateImportNamespaces returns an error that names each value that is no namespace or stands twice.
func ValidateImportNamespaces(namespaces []string) error {
	var errs []error
	seen := map[string]bool{}
	for _, namespace := range namespaces {
		if messages := validation.IsDNS1123Label(namespace); len(messages) > 0 {
			errs = append(errs, fmt.Errorf("%q is not the name of a namespace: %s", namespace, strings.Join(messages, ", ")))
		}
		if seen[namespace] {
			errs = append(errs, fmt.Errorf("%q stands twice", namespace))
		}
		seen[namespace] = true
	}
	return errors.Join(errs...)
}

// IsManagedClusterOwner says whether the provider imports the cluster. It looks at metadata that is in memory only.
func (p *Provider) IsManagedClusterOwner(cluster *clusterv1.ManagedCluster) bool {
	if _, paused := cluster.Annotations[AnnotationDisableAutoImport]; paused {
		return false
	}
	if p.clusterAPI.owns(cluster) {
		return false
	}
	return len(p.secrets.forCluster(cluster.Name)) > 0 || len(p.secrets.misplaced(cluster.Name)) > 0 ||
		lostItsSecret(cluster)
}

// lostItsSecret finds a cluster that an import was tried of, by a Secret that is gone: without an owner its conditions
// would go on to tell of that.
func lostItsSecret(cluster *clusterv1.ManagedCluster) bool {
	condition := meta.FindStatusCondition(cluster.Status.Conditions, ConditionPreflightPassed)
	return condition != nil && condition.Reason != string(ReasonSecretNotFound) && !isImported(cluster)
}

// forgetCluster drops what is known of a cluster that was deleted.
func (p *Provider) forgetCluster(clusterName string) {
	p.failures.forget(clusterName)
	p.identities.release(clusterName)
	p.progress.forget(clusterName)
	p.expiries.forget(clusterName)
	for _, name := range p.failures.withReason(ReasonDuplicateCluster) {
		p.failures.forget(name)
		p.wake(name)
	}
}

// PolicyChanged makes the importer try the clusters again, now, that the policy denied: it may allow them since. What it denies
// since is denied when it is tried next. It may be called at any time.
func (p *Provider) PolicyChanged() {
	p.policyChanges.Add(1)
	p.retryDenied()
}

func (p *Provider) retryDenied() {
	for _, name := range p.failures.retry(ReasonPolicyDenied) {
		p.wake(name)
	}
}

// candidates returns the Secrets that may be the import Secret of a cluster. One that is misplaced counts when there is no
// other.
func (p *Provider) candidates(clusterName string) []*metav1.PartialObjectMetadata {
	if secrets := p.secrets.forCluster(clusterName); len(secrets) > 0 {
		return secrets
	}
	return p.secrets.misplaced(clusterName)
}

// Clients returns clients of the managed cluster after the preflight passed, or nil if there is no import Secret. What
// errors mean to the importer is said at outcome. Texts of errors hold no value of the Secret and are the same for two
// attempts that fail the same way.
//
// It sets ConditionPreflightPassed and ConditionCompleted on the cluster that it is given. The importer gives it the copy
// whose status it patches afterwards, so that all conditions change in one request and never contradict each other.
func (p *Provider) Clients(ctx context.Context, cluster *clusterv1.ManagedCluster) (*providers.Clients, error) {
	candidates := p.candidates(cluster.Name)
	if len(candidates) == 0 {
		p.failures.forget(cluster.Name)
		p.identities.release(cluster.Name)
		gone := &problem{reason: ReasonSecretNotFound, detail: "the import Secret is gone"}
		setCondition(cluster, ConditionPreflightPassed, metav1.ConditionFalse, gone.reason, gone.message())
		return nil, nil
	}
	// The importer comes back at once after each patch of the status, its own too.
	attempt := newAttempt(cluster, candidates)
	if last, err := p.failures.pending(attempt); err != nil {
		setFailed(cluster, attempt, last)
		return nil, err
	}
	if p.progress.hasBegun(cluster.Name) && p.isDone(ctx, cluster.Name) {
		// A change during an import brings the importer back when it has ended, before its cache has the result. What it makes of this
		// error it writes to an old version, which fails, and so it comes back once more.
		return nil, errDone
	}
	importsInFlight.Inc()
	defer importsInFlight.Dec()
	changes := p.policyChanges.Load()
	clients, valid, err := p.tryClients(ctx, cluster, attempt)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		p.identities.release(cluster.Name)
		failed := p.fail(ctx, cluster, attempt, err)
		if p.policyChanges.Load() != changes {
			// The attempt may have been denied by the policy of before, after PolicyChanged looked for those.
			p.retryDenied()
		}
		return nil, failed
	case clients == nil:
		// The Secret has changed, which wakes the importer.
		return nil, nil
	}
	p.failures.forget(cluster.Name)
	p.pass(cluster, attempt, valid)
	return clients, nil
}

var errDone = errors.New("the import is done already")

// isDone says whether a cluster is imported by what the hub says, which may be ahead of the cache. If the hub does not answer the
// import goes on, which at worst is done twice.
func (p *Provider) isDone(ctx context.Context, clusterName string) bool {
	ctx, cancel := context.WithTimeout(ctx, p.connection.RequestTimeout)
	defer cancel()
	latest, err := LatestManagedCluster(ctx, p.clusterClient.ClusterV1().ManagedClusters(), clusterName)
	return err == nil && latest != nil && isImported(latest)
}

// tryClients runs the preflight. It returns nil and no error when the Secret is not what it was in the informer.
func (p *Provider) tryClients(ctx context.Context, cluster *clusterv1.ManagedCluster, attempt attempt) (*providers.Clients, validity, error) {
	conn, valid, err := p.connect(ctx, cluster, attempt)
	if conn == nil || err != nil {
		return nil, valid, err
	}
	if err := p.preflight(ctx, conn, cluster); err != nil {
		conn.close()
		return nil, valid, err
	}
	clients, err := conn.clients()
	return clients, valid, err
}

// connect prepares the connection to a cluster by its import Secret. It sends nothing to the cluster, and returns nil and
// no error when the Secret is not what it was in the informer.
func (p *Provider) connect(ctx context.Context, cluster *clusterv1.ManagedCluster, attempt attempt) (*connection, validity, error) {
	config, valid, err := p.credential(ctx, cluster.Name, attempt)
	if config == nil || err != nil {
		return nil, valid, err
	}
	p.expiries.set(cluster.Name, attempt.secret(), valid)
	if p := valid.problem(time.Now()); p != nil {
		return nil, valid, p
	}
	conn, err := connect(config, p.connection, p.policy())
	if err != nil {
		return nil, valid, &problem{reason: ReasonCredentialInvalid, detail: err.Error(), cause: err}
	}
	return conn, valid, nil
}

// credential reads the import Secret and resolves its credential.
func (p *Provider) credential(ctx context.Context, clusterName string, attempt attempt) (*rest.Config, validity, error) {
	secret, err := p.readSecret(ctx, clusterName, attempt.secrets)
	if secret == nil || err != nil {
		return nil, validity{}, err
	}
	return p.usable(ctx, clusterName, secret)
}

// usable resolves the credential of an import Secret and checks that the policy lets it live so long.
func (p *Provider) usable(ctx context.Context, clusterName string, secret *corev1.Secret) (*rest.Config, validity, error) {
	config, err := p.resolve(ctx, clusterName, secret)
	if err != nil {
		return nil, validity{}, err
	}
	valid, err := validityOf(config)
	if err != nil {
		return nil, validity{}, err
	}
	if denied := limitsProblem(config, p.policy().StaticCredentials(), time.Now()); denied != nil {
		return nil, validity{}, denied
	}
	return config, valid, nil
}

// readSecret returns the import Secret of a cluster, or nil when it is not one any more.
func (p *Provider) readSecret(ctx context.Context, clusterName string, candidates []*metav1.PartialObjectMetadata) (*corev1.Secret, error) {
	defer observeStage(stageSecret)()
	if len(candidates) > 1 {
		keys := make([]string, 0, maxNamedSecrets)
		for _, candidate := range candidates[:min(len(candidates), maxNamedSecrets)] {
			keys = append(keys, objectKey(candidate))
		}
		detail := "it is not the only one for this cluster: " + strings.Join(keys, ", ")
		if more := len(candidates) - len(keys); more > 0 {
			detail += fmt.Sprintf(" and %d more", more)
		}
		return nil, &problem{reason: ReasonSecretAmbiguous, detail: detail}
	}
	candidate := candidates[0]
	ctx, cancel := context.WithTimeout(ctx, p.connection.RequestTimeout)
	defer cancel()
	secret, err := p.kubeClient.CoreV1().Secrets(candidate.Namespace).Get(ctx, candidate.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, &problem{reason: ReasonHubReadFailed, detail: "it cannot be read from the hub", cause: err}
	case secret.Annotations[AnnotationManagedCluster] == "":
		return nil, nil
	case !p.secrets.claims(secret, clusterName):
		return nil, &problem{reason: ReasonSecretMisplaced, detail: "its annotation names another cluster"}
	}
	return secret, nil
}

func (p *Provider) resolve(ctx context.Context, clusterName string, secret *corev1.Secret) (*rest.Config, error) {
	defer observeStage(stageCredential)()
	// The deadline is that of the requests to the cluster: a resolver may ask other servers.
	ctx, cancel := context.WithTimeout(ctx, p.connection.ImportTimeout)
	defer cancel()
	config, err := p.resolvers.Resolve(ctx, credential.Request{ClusterName: clusterName, Secret: secret})
	if err != nil {
		return nil, credentialProblem(err)
	}
	return config, nil
}

// pass says that the preflight passed. That the klusterlet has not joined is true until the import is followed.
func (p *Provider) pass(cluster *clusterv1.ManagedCluster, attempt attempt, valid validity) {
	countAttempt(ReasonPreflightPassed)
	reason, message := passedText(attempt, valid, time.Now())
	if before := meta.FindStatusCondition(cluster.Status.Conditions, ConditionPreflightPassed); before == nil || before.Status != metav1.ConditionTrue {
		p.both(attempt.secrets, cluster, corev1.EventTypeNormal, ReasonPreflightPassed, message)
	}
	setCondition(cluster, ConditionPreflightPassed, metav1.ConditionTrue, reason, message)
	waiting := notJoined("")
	setCondition(cluster, ConditionCompleted, metav1.ConditionFalse, waiting.reason, waiting.message())
	p.progress.started(cluster.Name)
}

// passedText is reason and message of a passed preflight.
func passedText(attempt attempt, valid validity, now time.Time) (Reason, string) {
	message := attempt.about("the preflight passed")
	if expiry := valid.String(); expiry != "" {
		message += "; " + expiry
	}
	if valid.expiresSoon(now) {
		return ReasonCredentialExpiring, message
	}
	return ReasonPreflightPassed, message
}

func setFailed(cluster *clusterv1.ManagedCluster, attempt attempt, p *problem) {
	setCondition(cluster, ConditionPreflightPassed, metav1.ConditionFalse, p.reason, attempt.about(p.message()))
}

// fail records a failed attempt and returns what the importer shall see of it. An event is recorded when the failure
// is a new one.
func (p *Provider) fail(ctx context.Context, cluster *clusterv1.ManagedCluster, attempt attempt, err error) error {
	failed := problemOf(err)
	countAttempt(failed.reason)
	setFailed(cluster, attempt, failed)
	text := attempt.about(failed.Error())
	isNew, result := p.failures.add(attempt, text, failed)
	logger := klog.FromContext(ctx)
	if failed.cause != nil && (isNew || logger.V(4).Enabled()) {
		logger.Info("Import failed", "managedCluster", cluster.Name, "secret", attempt.secretKey, "reason", failed.reason,
			"cause", redactedCause(failed))
	}
	if isNew {
		p.both(attempt.secrets, cluster, corev1.EventTypeWarning, failed.reason, text)
	}
	return result
}

// both records an event on the import Secret, or each of several, and on the ManagedCluster.
func (p *Provider) both(secrets []*metav1.PartialObjectMetadata, cluster *clusterv1.ManagedCluster, eventType string, reason Reason, note string) {
	for _, secret := range secrets {
		p.event(notice{regarding: secretReference(secret), eventType: eventType, reason: reason, note: note})
	}
	p.event(notice{regarding: clusterReference(cluster), eventType: eventType, reason: reason, note: note})
}

// redactedCause is the part of a cause that may be logged: errors of resolvers and of managed clusters may quote
// what they were given, unless they promise not to.
func redactedCause(p *problem) string {
	failed, minting := errors.AsType[*credential.MintError](p.cause)
	switch {
	case p.reason == ReasonHubReadFailed:
		return p.cause.Error()
	case minting && failed.Cause != nil:
		return failed.Cause.Error()
	default:
		return fmt.Sprintf("%T", errors.Unwrap(p))
	}
}

func (p *Provider) event(n notice) {
	note := n.note
	if len(note) > maxNoteLength {
		note = strings.ToValidUTF8(note[:maxNoteLength], "") + "…"
	}
	p.recorder.Event(n.regarding, n.eventType, string(n.reason), note)
}

// Register makes the importer's queue take the name of a managed cluster when an import Secret of it changes.
func (p *Provider) Register(syncCtx factory.SyncContext) {
	p.wake = func(clusterName string) { syncCtx.Queue().Add(clusterName) }
	utilruntime.HandleError(errors.Join(p.secrets.onChange(p.wake), p.clusterAPI.onChange(p.wake)))
}

// Run watches import Secrets until the context ends.
func (p *Provider) Run(ctx context.Context) {
	p.secrets.run(ctx)
	p.clusterAPI.run(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), p.HasSynced) {
		return
	}
	setMetricsSource(p)
	defer setMetricsSource(nil)
	var running sync.WaitGroup
	for controller, workers := range p.controllers {
		running.Go(func() { controller.Run(ctx, workers) })
	}
	running.Wait()
}

// managedClusters and expiryTimes are what the metrics of the state are computed from.
func (p *Provider) managedClusters() []*clusterv1.ManagedCluster {
	// The lister reads memory, which does not fail.
	clusters, _ := p.clusters.Lister().List(labels.Everything())
	return clusters
}

func (p *Provider) expiryTimes() map[string]time.Time { return p.expiries.times() }

// HasSynced says whether all import Secrets that existed when Run was called are known.
func (p *Provider) HasSynced() bool {
	return p.secrets.hasSynced() && p.clusterAPI.hasSynced()
}

func secretReference(secret *metav1.PartialObjectMetadata) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID,
	}
}

func clusterReference(cluster *clusterv1.ManagedCluster) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Name: cluster.Name, UID: cluster.UID,
	}
}
