// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	clusterfake "open-cluster-management.io/api/client/cluster/clientset/versioned/fake"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	// sentinel is part of every value that must not be repeated.
	sentinel  = "s3nt1nel"
	testToken = sentinel + "-token"

	testCluster = "cluster1"
	testSecret  = "secret1"

	// giveUp bounds a test whose defence is gone; no test comes near it otherwise.
	giveUp = 20 * time.Second
)

// authority is a CA for serving and client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate, and its key, as PEM. It is valid now, for 127.0.0.1.
func (a *authority) issue(t testing.TB, edits ...func(*x509.Certificate)) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: sentinel + "-name"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4zero},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, edit := range edits {
		edit(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// spoke is a server in the place of a managed cluster's API server.
type spoke struct {
	*httptest.Server
	lock        sync.Mutex // guards the fields below
	connections int
	requests    []*http.Request
}

// startSpoke starts a TLS server, with HTTP/2 as API servers have it, and returns a config that it accepts.
func startSpoke(t testing.TB, handler http.HandlerFunc, edits ...func(*httptest.Server)) (*spoke, *rest.Config) {
	t.Helper()
	ca := newAuthority(t)
	certPEM, keyPEM := ca.issue(t)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	s := &spoke{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.lock.Lock()
		s.requests = append(s.requests, r)
		s.lock.Unlock()
		handler(w, r)
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.lock.Lock()
			defer s.lock.Unlock()
			s.connections++
		}
	}
	for _, edit := range edits {
		edit(s.Server)
	}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s, &rest.Config{Host: s.URL, BearerToken: testToken, TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem}}
}

// requested returns method and path of the requests so far.
func (s *spoke) requested() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	var result []string
	for _, request := range s.requests {
		result = append(result, request.Method+" "+request.URL.Path)
	}
	return result
}

func (s *spoke) requestCount() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return len(s.requests)
}

func (s *spoke) connectionCount() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.connections
}

// answer is a handler that always answers the same.
func answer(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

const (
	namespaceJSON = `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"open-cluster-management-agent"}}`
	notFoundJSON  = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	versionJSON   = `{"major":"1","minor":"34","gitVersion":"v1.34.4"}`
	allowedJSON   = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`
	deniedJSON    = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`

	// reviewCode is how an access review is answered.
	reviewCode = http.StatusCreated

	// The paths that the preflight asks a cluster without a klusterlet for, in their order.
	reviewPath     = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	versionPath    = "/version"
	kubeSystemPath = "/api/v1/namespaces/kube-system"
	agentPath      = "/api/v1/namespaces/open-cluster-management-agent"
	klusterletPath = "/apis/operator.open-cluster-management.io/v1/klusterlets/klusterlet"
	crdPath        = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/klusterlets.operator.open-cluster-management.io"

	// clusterUID and hubUID are those of the namespaces kube-system.
	clusterUID = "uid-of-the-cluster"
	hubUID     = "uid-of-the-hub"
)

// preflightRequests are what the preflight sends, with the credential of an administrator, to a cluster without a
// klusterlet.
var preflightRequests = []string{
	"POST " + reviewPath, "GET " + versionPath, "GET " + kubeSystemPath, "GET " + agentPath, "GET " + klusterletPath, "GET " + crdPath,
}

// kubeSystem answers with the namespace kube-system of a cluster.
func kubeSystem(uid string) http.HandlerFunc {
	return answer(http.StatusOK, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"`+uid+`"}}`)
}

// apiServer answers the preflight as the API server of a cluster that has no klusterlet yet does to an administrator,
// but for the paths of overrides.
func apiServer(overrides map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		override, found := overrides[r.URL.Path]
		switch {
		case found:
			override(w, r)
		case r.Method == http.MethodPost && r.URL.Path == reviewPath:
			answer(reviewCode, allowedJSON)(w, r)
		case r.Method != http.MethodGet:
			answer(http.StatusMethodNotAllowed, "")(w, r)
		case r.URL.Path == versionPath:
			answer(http.StatusOK, versionJSON)(w, r)
		case r.URL.Path == kubeSystemPath:
			kubeSystem(clusterUID)(w, r)
		case strings.Contains(r.URL.Path, "/klusterlets/"):
			// A path that is not served is answered in plain text.
			http.NotFound(w, r)
		default:
			answer(http.StatusNotFound, notFoundJSON)(w, r)
		}
	}
}

// healthy is the API server of a cluster that can be imported.
var healthy = apiServer(nil)

// tcpListener listens on loopback and gives each connection to serve, which owns it.
func tcpListener(t testing.TB, serve func(net.Conn)) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		close(done)
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { serve(conn) })
			// net/http goes on with a connection after the request that it was for has ended.
			conns.Go(func() {
				<-done
				_ = conn.Close()
			})
		}
	})
	return listener
}

// silent keeps a connection open until the peer closes it, and never answers.
func silent(conn net.Conn) {
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

// loopbackPolicy is the default one with the addresses of test servers.
var loopbackPolicy = sync.OnceValue(func() *policy.Policy {
	p, err := policy.Parse([]byte("apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind +
		"\nendpoints: {allowCIDRs: [0.0.0.0/0, 0.0.0.0/8, 127.0.0.0/8, \"::/0\", \"::1/128\"]}\n"))
	if err != nil {
		panic(err)
	}
	return p
})

// patient are options whose every bound is far beyond the end of a test.
func patient(edits ...func(*ConnectionOptions)) ConnectionOptions {
	o := ConnectionOptions{
		DialTimeout: maxTimeout, TLSHandshakeTimeout: maxTimeout, ResponseHeaderTimeout: maxTimeout,
		RequestTimeout: maxTimeout, ImportTimeout: maxTimeout,
	}
	o.Default()
	for _, edit := range edits {
		edit(&o)
	}
	return o
}

func mustConnect(t testing.TB, config *rest.Config, o ConnectionOptions) *connection {
	t.Helper()
	conn, err := connect(config, o, loopbackPolicy())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// preflight runs the preflight of a cluster by a provider of its own.
func preflight(ctx context.Context, t testing.TB, conn *connection) error {
	t.Helper()
	return newFixture(t).provider.preflight(ctx, conn, managedCluster())
}

// testContext ends when a test takes far too long, and collects the log at every level.
func testContext(t testing.TB) (context.Context, *logBuffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	t.Cleanup(cancel)
	logs := &logBuffer{}
	logger := funcr.New(logs.add, funcr.Options{Verbosity: 10})
	return klog.NewContext(ctx, logger), logs
}

type logBuffer struct {
	lock sync.Mutex // guards text
	text strings.Builder
}

func (b *logBuffer) add(prefix, args string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	fmt.Fprintln(&b.text, prefix, args)
}

func (b *logBuffer) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.text.String()
}

// expectNoSecret fails when a text repeats a value of the Secret or of the cluster.
func expectNoSecret(t testing.TB, what, text string, more ...string) {
	t.Helper()
	for _, value := range append([]string{sentinel, "127.0.0.1"}, more...) {
		if strings.Contains(text, value) {
			t.Errorf("%s holds %q: %s", what, value, text)
		}
	}
}

// testHub is the address of the hub that fixtures belong to.
const testHub = "https://hub.example.com:6443"

// recordedEvent is what an event says and of which object.
type recordedEvent struct {
	Regarding, Type, Reason, Note string
}

// eventRecorder records events in order.
type eventRecorder struct {
	lock   sync.Mutex // guards events
	events []recordedEvent
}

var _ record.EventRecorder = &eventRecorder{}

func (r *eventRecorder) Eventf(regarding runtime.Object, eventType, reason, note string, args ...any) {
	r.Event(regarding, eventType, reason, fmt.Sprintf(note, args...))
}

func (r *eventRecorder) AnnotatedEventf(regarding runtime.Object, _ map[string]string, eventType, reason, note string, args ...any) {
	r.Event(regarding, eventType, reason, fmt.Sprintf(note, args...))
}

func (r *eventRecorder) Event(regarding runtime.Object, eventType, reason, note string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	what := "?"
	if reference, ok := regarding.(*corev1.ObjectReference); ok {
		what = strings.TrimPrefix(reference.Kind+" "+reference.Namespace+"/"+reference.Name, "/")
	}
	r.events = append(r.events, recordedEvent{what, eventType, reason, note})
}

// take returns the events since it was last called.
func (r *eventRecorder) take() []recordedEvent {
	r.lock.Lock()
	defer r.lock.Unlock()
	events := r.events
	r.events = nil
	return events
}

// subjects are the events without their notes.
func subjects(events []recordedEvent) []string {
	var result []string
	for _, event := range events {
		result = append(result, event.Type+" "+event.Reason+" "+event.Regarding)
	}
	return result
}

// fixture is a provider with fakes around it.
type fixture struct {
	t        testing.TB
	policy   func() *policy.Policy
	provider *Provider
	kube     *kubefake.Clientset
	metadata *metadatafake.FakeMetadataClient
	clusters *clusterfake.Clientset
	informer clusterinformers.SharedInformerFactory
	resolver *credentialtest.Fake
	recorder *eventRecorder
	syncCtx  factory.SyncContext
	// noticing and reimporting are controllers like those of the provider.
	noticing, reimporting factory.Controller
}

// newFixture returns a provider whose caches a test fills by itself, with set and setCluster.
func newFixture(t testing.TB, edits ...func(*Options)) *fixture {
	t.Helper()
	return newPolicyFixture(t, loopbackPolicy, edits...)
}

// newPolicyFixture is newFixture with a policy.
func newPolicyFixture(t testing.TB, current func() *policy.Policy, edits ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, policy: current,
		kube: kubefake.NewClientset(&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: hubUID},
		}),
		metadata: newMetadataClient(),
		clusters: clusterfake.NewSimpleClientset(),
		resolver: &credentialtest.Fake{},
		recorder: &eventRecorder{},
		syncCtx:  factory.NewSyncContext("test"),
	}
	t.Cleanup(f.syncCtx.Queue().ShutDown)
	f.informer = clusterinformers.NewSharedInformerFactory(f.clusters, 0)
	o := f.options()
	for _, edit := range edits {
		edit(&o)
	}
	provider, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.provider = provider
	if f.noticing, err = newNoticeController(provider); err != nil {
		t.Fatal(err)
	}
	f.reimporting = newReimportController(provider)
	t.Cleanup(f.noticing.SyncContext().Queue().ShutDown)
	t.Cleanup(f.reimporting.SyncContext().Queue().ShutDown)
	return f
}

func (f *fixture) options() Options {
	f.t.Helper()
	resolvers, err := credential.NewSet(
		map[string]credential.Resolver{credential.ResolverKubeconfig: f.resolver}, credential.SetOptions{Policy: f.policy})
	if err != nil {
		f.t.Fatal(err)
	}
	return Options{
		KubeClient:      f.kube,
		MetadataClient:  f.metadata,
		ClusterClient:   f.clusters,
		ManagedClusters: f.informer.Cluster().V1().ManagedClusters(),
		Resolvers:       resolvers,
		Policy:          f.policy,
		Plan: func(context.Context, *clusterv1.ManagedCluster) (*Plan, error) {
			return &Plan{Hub: HubIdentity{Server: testHub, CAData: []byte("hub CA")}}, nil
		},
		Recorder: f.recorder,
	}
}

// newMetadataClient returns a fake that keeps to the field selector of a list, as an API server does.
func newMetadataClient(objects ...runtime.Object) *metadatafake.FakeMetadataClient {
	scheme := metadatafake.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme)
	client := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{}
		restrictions := action.(clienttesting.ListAction).GetListRestrictions()
		tracked, err := client.Tracker().List(action.GetResource(),
			schema.GroupVersionKind{Group: "fake-metadata-client-group", Version: "v1"}, action.GetNamespace())
		if err != nil {
			return true, nil, fmt.Errorf("listing: %w", err)
		}
		tracked.(*metav1.List).DeepCopyInto(list)
		list.Items = slices.DeleteFunc(list.Items, func(item runtime.RawExtension) bool {
			object, ok := item.Object.(*metav1.PartialObjectMetadata)
			return ok && !restrictions.Fields.Matches(fields.Set{metav1.ObjectNameField: object.Name})
		})
		return true, list, nil
	})
	return client
}

// partial is the metadata of a Secret, with annotation AnnotationManagedCluster unless clusterName is "-".
func partial(namespace, name, clusterName string, edits ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), ResourceVersion: "1",
		},
	}
	if clusterName != "-" {
		object.Annotations = map[string]string{AnnotationManagedCluster: clusterName}
	}
	for _, edit := range edits {
		edit(object)
	}
	return object
}

func resourceVersion(version string) func(*metav1.PartialObjectMetadata) {
	return func(object *metav1.PartialObjectMetadata) { object.ResourceVersion = version }
}

// set puts the metadata of Secrets into the caches that an API server would send them to, and the Secrets on the hub.
func (f *fixture) set(objects ...*metav1.PartialObjectMetadata) {
	f.t.Helper()
	for _, object := range objects {
		secret := &corev1.Secret{
			ObjectMeta: *object.ObjectMeta.DeepCopy(),
			Data:       map[string][]byte{"kubeconfig": []byte(testToken)},
		}
		if err := f.kube.Tracker().Add(secret); err != nil {
			f.t.Fatal(err)
		}
		f.cacheOnly(object)
	}
}

func (f *fixture) cacheOnly(object *metav1.PartialObjectMetadata) {
	f.t.Helper()
	informers := f.provider.secrets.informers
	last := len(informers) - 1
	kept, err := keepOwnMetadata(object.DeepCopy())
	if err != nil {
		f.t.Fatal(err)
	}
	for i, informer := range informers {
		if i < last && object.Namespace == f.provider.secrets.importNamespaces[i] || i == last && object.Name == SecretName {
			if err := informer.GetIndexer().Add(kept); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// unset takes a Secret out of the caches and off the hub.
func (f *fixture) unset(object *metav1.PartialObjectMetadata) {
	f.t.Helper()
	for _, informer := range f.provider.secrets.informers {
		if err := informer.GetIndexer().Delete(object); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), object.Namespace, object.Name); err != nil {
		f.t.Fatal(err)
	}
}

func managedCluster(edits ...func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: testCluster, UID: "uid-of-" + testCluster}}
	for _, edit := range edits {
		edit(cluster)
	}
	return cluster
}

func annotated(key, value string) func(*clusterv1.ManagedCluster) {
	return func(cluster *clusterv1.ManagedCluster) { metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, key, value) }
}

func labelled(key, value string) func(*clusterv1.ManagedCluster) {
	return func(cluster *clusterv1.ManagedCluster) { metav1.SetMetaDataLabel(&cluster.ObjectMeta, key, value) }
}

func named(name string) func(*clusterv1.ManagedCluster) {
	return func(cluster *clusterv1.ManagedCluster) { cluster.Name, cluster.UID = name, types.UID("uid-of-"+name) }
}

// withCondition sets the condition of the importer.
func withCondition(status metav1.ConditionStatus, reason, message string) func(*clusterv1.ManagedCluster) {
	return func(cluster *clusterv1.ManagedCluster) {
		meta.SetStatusCondition(&cluster.Status.Conditions,
			metav1.Condition{Type: conditionImported, Status: status, Reason: reason, Message: message})
	}
}

// withPreflight sets the condition of the preflight.
func withPreflight(status metav1.ConditionStatus, reason Reason) func(*clusterv1.ManagedCluster) {
	return func(cluster *clusterv1.ManagedCluster) {
		setCondition(cluster, ConditionPreflightPassed, status, reason, "as it was found before")
	}
}

// ownConditions are those of the provider, by their types.
func ownConditions(cluster *clusterv1.ManagedCluster) map[string]metav1.Condition {
	result := map[string]metav1.Condition{}
	for _, condition := range cluster.Status.Conditions {
		if condition.Type != conditionImported {
			result[condition.Type] = condition
		}
	}
	return result
}

// setCluster puts a ManagedCluster on the hub and into the cache.
func (f *fixture) setCluster(cluster *clusterv1.ManagedCluster) {
	f.t.Helper()
	resource := schema.GroupVersionResource{Group: clusterv1.GroupName, Version: "v1", Resource: "managedclusters"}
	if err := f.clusters.Tracker().Update(resource, cluster, ""); err != nil {
		if err := f.clusters.Tracker().Add(cluster); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.provider.clusters.Informer().GetIndexer().Update(cluster); err != nil {
		f.t.Fatal(err)
	}
}

// elapseBackOff is the passing of a back-off.
func (f *fixture) elapseBackOff() {
	f.provider.failures.lock.Lock()
	defer f.provider.failures.lock.Unlock()
	for name, failure := range f.provider.failures.byCluster {
		failure.until = time.Now().Add(-time.Second)
		f.provider.failures.byCluster[name] = failure
	}
}

// eventually waits for something that another goroutine does.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, giveUp, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
