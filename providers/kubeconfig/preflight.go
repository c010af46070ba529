// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// MinKubernetesVersion is the oldest version that serves what an import uses: CustomResourceDefinitions in
// apiextensions.k8s.io/v1, and server-side apply without a feature gate.
const MinKubernetesVersion = "1.16"

// preflight looks at the cluster, in this order and up to the first failure: does it answer, and accept the credential;
// is its version supported; may the credential do what the import does; which cluster is it; whose klusterlet does it
// have. Without it a cluster would be told by the errors of every object of the import, after some were written.
// It writes nothing. Each request has its own bounds (ConnectionOptions), and all together ImportTimeout.
func (p *Provider) preflight(ctx context.Context, conn *connection, cluster *clusterv1.ManagedCluster) error {
	mayAll, err := conn.mayDoEverything(ctx)
	if err != nil {
		return err
	}
	// Before the authorization: a server that is far too old does not know what a dry run is.
	if err := conn.checkVersion(ctx); err != nil {
		return err
	}
	plan := sync.OnceValues(func() (*Plan, error) {
		defer observeStage(stagePlan)()
		return p.plan(ctx, cluster)
	})
	if !mayAll {
		if err := authorize(ctx, conn, cluster, plan); err != nil {
			return err
		}
	}
	if err := p.checkIdentity(ctx, conn, cluster); err != nil {
		return err
	}
	return guard(ctx, conn, cluster, plan)
}

// mayDoEverything asks the cluster for the first time. It answers the path to authenticated users alone.
func (c *connection) mayDoEverything(ctx context.Context) (bool, error) {
	defer observeStage(stageConnection)()
	return c.may(ctx, everything)
}

// authorize returns a problem when the credential may not do what is planned.
func authorize(ctx context.Context, conn *connection, cluster *clusterv1.ManagedCluster, plan func() (*Plan, error)) error {
	planned, err := plan()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		// The importer fails in the same way when it renders, before it writes, and says why. The error may quote what is in
		// cluster-import-config.
		klog.FromContext(ctx).Info("Klusterlet cannot be rendered, permissions are not checked", "managedCluster", cluster.Name)
		return nil
	}
	defer observeStage(stageAuthorization)()
	return conn.authorize(ctx, planned.Objects)
}

// checkVersion refuses a cluster that is older than MinKubernetesVersion.
func (c *connection) checkVersion(ctx context.Context) error {
	defer observeStage(stageVersion)()
	var info apimachineryversion.Info
	resp, err := c.request(ctx, http.MethodGet, nil, "version")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if p := answerProblem(resp); p != nil {
		return p
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&info) != nil {
		return notKubernetes()
	}
	// Some vendors' versions are no semantic versions but for their first numbers.
	served, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return notKubernetes()
	}
	if oldest := version.MustParseGeneric(MinKubernetesVersion); served.LessThan(oldest) {
		return &problem{reason: ReasonClusterTooOld, detail: fmt.Sprintf(
			"the cluster has Kubernetes %d.%d, an import needs %s", served.Major(), served.Minor(), MinKubernetesVersion)}
	}
	return nil
}

// read gets an object of a kind from the cluster and says whether there is one. A kind that may not be served is
// absent too when it is not.
func (c *connection) read(ctx context.Context, kind string, into any, mayBeUnserved bool, path ...string) (found bool, err error) {
	resp, err := c.request(ctx, http.MethodGet, nil, path...)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if mayBeUnserved && resp.StatusCode == http.StatusNotFound {
		// A path that is not served is answered in plain text.
		return false, nil
	}
	return decodeObject(resp, kind, into)
}

// request sends a request to the cluster and returns its answer, whatever the code.
func (c *connection) request(ctx context.Context, method string, body any, path ...string) (*http.Response, error) {
	return c.requestWith(ctx, method, nil, body, path...)
}

func (c *connection) requestWith(ctx context.Context, method string, query url.Values, body any, path ...string) (*http.Response, error) {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, serverProblem(err)
	}
	var reader io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("marshalling a request: %w", err)
		}
		reader = bytes.NewReader(data)
	}
	target := base.JoinPath(path...)
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), reader)
	if err != nil {
		return nil, serverProblem(err)
	}
	req.Header.Set("Accept", runtime.ContentTypeJSON)
	if body != nil {
		req.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	resp, err := c.raw.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, requestProblem(err)
	}
	return resp, nil
}

func serverProblem(err error) *problem {
	return &problem{reason: ReasonCredentialInvalid, detail: "the server of the credential is not a URL; correct it in the Secret", cause: err}
}

func notKubernetes() *problem {
	return &problem{reason: ReasonNotKubernetes, detail: "the server does not answer like a Kubernetes API server"}
}

// decodeObject classifies the answer of an API server to a request that may find its object or not.
func decodeObject(resp *http.Response, kind string, into any) (found bool, err error) {
	if p := answerProblem(resp); p != nil {
		return false, p
	}
	body, err := io.ReadAll(resp.Body)
	var object metav1.TypeMeta
	if err == nil {
		err = json.Unmarshal(body, &object)
	}
	switch {
	case err == nil && resp.StatusCode == http.StatusNotFound && object.Kind == "Status":
		return false, nil
	case err == nil && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated) && object.Kind == kind && json.Unmarshal(body, into) == nil:
		return true, nil
	}
	return false, notKubernetes()
}

// answerProblem returns the problem that an answer's status code tells by itself, or nil.
func answerProblem(resp *http.Response) *problem {
	p := codeProblem(resp.StatusCode)
	if p != nil && p.reason == ReasonServerFailed {
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
			p.after = time.Duration(min(seconds, int(lastRetry/time.Second))) * time.Second
		}
	}
	return p
}

func codeProblem(code int) *problem {
	switch {
	case code == http.StatusUnauthorized:
		return &problem{reason: ReasonUnauthorized, detail: "the cluster's API server does not accept the credential"}
	case code == http.StatusForbidden:
		return &problem{reason: ReasonForbidden, detail: "the credential may not do all that an import does"}
	case code == http.StatusTooManyRequests:
		return &problem{reason: ReasonServerFailed, detail: "the cluster's API server throttles"}
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return &problem{reason: ReasonNotKubernetes, detail: "the server redirects to another place, which is not followed"}
	case code >= http.StatusInternalServerError:
		return &problem{reason: ReasonServerFailed, detail: "the cluster's API server answers with an error"}
	}
	return nil
}

// clusterProblem classifies the error of a client with the transport of NewHTTPClient, as that of the same request of a preflight.
func clusterProblem(err error) *problem {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	if !answered {
		return requestProblem(err)
	}
	p := codeProblem(int(status.ErrStatus.Code))
	if p == nil {
		p = notKubernetes()
	}
	p.cause = err
	return p
}

// requestProblem classifies the error of a request that got no answer. The texts are fixed: errors of net and tls carry
// ports and times that change with every attempt.
func requestProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	p := &problem{reason: ReasonUnreachable, cause: err}
	var (
		dnsErr       *net.DNSError
		authorityErr x509.UnknownAuthorityError
		hostnameErr  x509.HostnameError
		invalidErr   x509.CertificateInvalidError
		verifyErr    *tls.CertificateVerificationError
		alertErr     tls.AlertError
		recordErr    tls.RecordHeaderError
		netErr       net.Error
		stageErr     *stageError
	)
	failedIn := stageDial
	if errors.As(err, &stageErr) {
		// Without the wrapping of http.Client, whose error would answer Timeout for the one it wraps.
		failedIn, err = stageErr.stage, stageErr.err
	}
	switch {
	case errors.Is(err, policy.ErrAddressDenied):
		p.reason, p.detail = ReasonPolicyDenied, policy.ErrAddressDenied.Error()
	case errors.Is(err, errProxyDenied):
		p.reason, p.detail = ReasonPolicyDenied, errProxyDenied.Error()
	case errors.Is(err, errProxyRefuses):
		p.detail = errProxyRefuses.Error()
	case isProxyFailure(err):
		p.detail = "the proxy of the kubeconfig cannot be reached"
	case credential.IsMintFailed(err), credential.IsDenied(err), credential.IsInvalid(err), credential.IsClusterFailed(err):
		// A token source could not renew its token.
		return credentialProblem(err)
	case errors.Is(err, errImportTimeout), errors.Is(err, errResponseTooLarge), errors.Is(err, errBodyBroken):
		p.reason, p.detail = ReasonServerFailed, "the cluster's API server does not answer within the bounds: "+boundText(err)
	case errors.As(err, &dnsErr):
		p.reason, p.detail = ReasonNameNotResolved, "the name of the cluster's API server does not resolve"
	case errors.As(err, &hostnameErr):
		p.reason, p.detail = ReasonTLSNameMismatch, "the serving certificate is for other names than the server of the credential"
	case errors.As(err, &authorityErr):
		p.reason, p.detail = ReasonTLSUntrusted, "the serving certificate is not signed by the CA of the credential or, without one, by a public authority"
	case errors.As(err, &invalidErr) && invalidErr.Reason == x509.Expired:
		p.reason, p.detail = ReasonTLSUntrusted, "the serving certificate is expired or not yet valid"
	case errors.As(err, &invalidErr), errors.As(err, &verifyErr):
		p.reason, p.detail = ReasonTLSUntrusted, "the serving certificate cannot be verified"
	case errors.As(err, &recordErr):
		p.reason, p.detail = ReasonTLSFailed, "the server does not speak TLS"
	case errors.As(err, &alertErr), isRemoteAlert(err):
		p.reason, p.detail = ReasonTLSFailed, "the server refuses the TLS handshake"
	case errors.Is(err, syscall.ECONNREFUSED):
		p.detail = "the connection is refused"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		p.detail = timeoutText(failedIn)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		p.detail = "there is no route to the cluster's API server"
	default:
		p.detail = "the connection is closed before the answer"
	}
	return p
}

// isRemoteAlert finds a TLS alert of the server, which crypto/tls wraps as a net.OpError of its own operation.
func isRemoteAlert(err error) bool {
	var opErr *net.OpError
	return errors.As(err, &opErr) && opErr.Op == "remote error"
}

func timeoutText(failedIn stage) string {
	switch failedIn {
	case stageDial:
		return "no connection within the dial timeout"
	case stageTLS:
		return "the connection is accepted, the TLS handshake does not finish within its timeout"
	default:
		return "the connection is accepted, no answer comes within the timeout"
	}
}

func boundText(err error) string {
	for _, bound := range []error{errImportTimeout, errResponseTooLarge, errBodyBroken} {
		if errors.Is(err, bound) {
			return bound.Error()
		}
	}
	return ""
}
