// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// klusterletNamespace is where the importer puts the klusterlet operator.
const klusterletNamespace = "open-cluster-management-agent"

// preflight asks the cluster for one object that an import reads, and returns nil if it answers as an API server
// does to a credential that may read it. Without it a dead cluster would be told by the errors of every object of
// the import. The path is one that an API server answers to authenticated users alone.
func (c *connection) preflight(ctx context.Context) error {
	if p := clientCertificateProblem(c.config, time.Now()); p != nil {
		return p
	}
	var namespace corev1.Namespace
	found, err := c.read(ctx, "Namespace", &namespace, false, "api/v1/namespaces", klusterletNamespace)
	if err != nil {
		return err
	}
	if found && namespace.Status.Phase == corev1.NamespaceTerminating {
		return &problem{reason: ReasonLeftovers,
			detail: "the namespace " + klusterletNamespace + " of an earlier import is being deleted"}
	}
	return nil
}

// read gets an object of a kind from the cluster and says whether there is one. A kind that may not be served is
// absent too when it is not.
func (c *connection) read(ctx context.Context, kind string, into any, mayBeUnserved bool, path ...string) (found bool, err error) {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return false, serverProblem(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(path...).String(), http.NoBody)
	if err != nil {
		return false, serverProblem(err)
	}
	req.Header.Set("Accept", runtime.ContentTypeJSON)
	resp, err := c.raw.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		return false, requestProblem(err)
	}
	defer resp.Body.Close()
	if mayBeUnserved && resp.StatusCode == http.StatusNotFound {
		// A path that is not served is answered in plain text.
		return false, nil
	}
	return decodeObject(resp, kind, into)
}

func serverProblem(err error) *problem {
	return &problem{reason: ReasonCredentialInvalid, detail: "the server of the credential is not a URL", invalid: true, cause: err}
}

// decodeObject classifies the answer of an API server to a request that may find its object or not.
func decodeObject(resp *http.Response, kind string, into any) (found bool, err error) {
	if p := answerProblem(resp.StatusCode); p != nil {
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
	case err == nil && resp.StatusCode == http.StatusOK && object.Kind == kind && json.Unmarshal(body, into) == nil:
		return true, nil
	}
	return false, &problem{reason: ReasonNotKubernetes, detail: "the server does not answer like a Kubernetes API server"}
}

// answerProblem returns the problem that a status code tells by itself, or nil.
func answerProblem(code int) *problem {
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

// requestProblem classifies the error of a request that got no answer. The texts are fixed: errors of net and tls carry
// ports and times that change with every attempt.
func requestProblem(err error) *problem {
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
	case errors.Is(err, errImportTimeout), errors.Is(err, errResponseTooLarge), errors.Is(err, errBodyBroken):
		p.reason, p.detail = ReasonServerFailed, "the cluster's API server does not answer within the bounds: "+boundText(err)
	case errors.As(err, &dnsErr):
		p.reason, p.detail = ReasonNameNotResolved, "the name of the cluster's API server does not resolve"
	case errors.As(err, &hostnameErr):
		p.reason, p.detail = ReasonTLSNameMismatch, "the serving certificate is for other names than the server of the credential"
	case errors.As(err, &authorityErr):
		p.reason, p.detail = ReasonTLSUntrusted, "the serving certificate is not signed by the CA of the credential"
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

// clientCertificateProblem tells an expired client certificate before it is used: the API server would say no more
// than 401.
func clientCertificateProblem(config *rest.Config, now time.Time) *problem {
	if len(config.CertData) == 0 {
		return nil
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return &problem{reason: ReasonCredentialInvalid, detail: "the client certificate and its key do not fit", invalid: true}
	}
	if leaf := pair.Leaf; leaf != nil && config.BearerToken == "" {
		switch {
		case now.After(leaf.NotAfter):
			return &problem{reason: ReasonCredentialExpired, detail: "the client certificate is expired", invalid: true}
		case now.Before(leaf.NotBefore):
			return &problem{reason: ReasonCredentialExpired, detail: "the client certificate is not yet valid"}
		}
	}
	return nil
}
