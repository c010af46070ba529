// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	operatorv1 "open-cluster-management.io/api/operator/v1"
)

var (
	errImportTimeout    = errors.New("the requests of this import took too long together")
	errResponseTooLarge = errors.New("the answer is too large")
	errBodyBroken       = errors.New("the answer broke off")
)

// stage is how far a request came, which tells one timeout from another.
type stage int32

const (
	stageDial stage = iota
	stageTLS
	stageAnswer
)

// stageError is a failed request with the stage that it failed in.
type stageError struct {
	stage stage
	err   error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// boundedTransport reads each answer whole, within the bounds of time and size. After the first failure that is not
// an answer it fails every further request at once: an import goes on to its next object after an error, and would
// wait for the same timeout a dozen times.
type boundedTransport struct {
	next      http.RoundTripper
	closeIdle func()
	deadline  time.Time
	timeout   time.Duration
	maxBytes  int64

	lock   sync.Mutex // guards broken, for the time of reading or writing it
	broken error
}

func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.lock.Lock()
	broken := t.broken
	t.lock.Unlock()
	if broken != nil {
		return nil, broken
	}
	resp, err := t.roundTrip(req)
	logger := klog.FromContext(req.Context()).WithValues("method", req.Method, "path", req.URL.Path)
	switch {
	case err != nil:
		logger.Info("Request to managed cluster failed", "reason", requestProblem(err).reason)
	case codeProblem(resp.StatusCode) != nil:
		logger.Info("Managed cluster refused request", "code", resp.StatusCode)
	}
	// A caller that gives up says nothing about the cluster.
	if err != nil && req.Context().Err() == nil {
		t.lock.Lock()
		t.broken = err
		t.lock.Unlock()
	}
	return resp, err
}

// CloseIdleConnections is for http.Client.
func (t *boundedTransport) CloseIdleConnections() { t.closeIdle() }

func (t *boundedTransport) roundTrip(req *http.Request) (*http.Response, error) {
	remaining := time.Until(t.deadline)
	if remaining <= 0 {
		return nil, errImportTimeout
	}
	ctx, cancel := context.WithTimeout(req.Context(), min(t.timeout, remaining))
	defer cancel()
	var reached atomic.Int32
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				reached.Store(int32(stageTLS))
			}
		},
		GotConn: func(httptrace.GotConnInfo) { reached.Store(int32(stageAnswer)) },
	})
	// failed says which bound was hit, if it was one.
	failed := func(in stage, err error) error {
		if ctx.Err() != nil && req.Context().Err() == nil && time.Until(t.deadline) <= 0 {
			return errImportTimeout
		}
		return &stageError{stage: in, err: err}
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, failed(stage(reached.Load()), err)
	}
	defer resp.Body.Close()
	body, release, err := readAnswer(ctx, resp.Body, t.maxBytes)
	switch {
	case ctx.Err() != nil:
		err = failed(stageAnswer, ctx.Err())
	case err != nil:
		err = fmt.Errorf("%w: %w", errBodyBroken, err)
	case int64(len(body)) > t.maxBytes:
		err = errResponseTooLarge
	}
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &heldAnswer{Reader: bytes.NewReader(body), release: release}
	resp.ContentLength = int64(len(body))
	return resp, nil
}

const (
	// smallAnswer is more than any answer that an import gets of a cluster that is what it should be: a CRD has 50 KiB.
	smallAnswer = 256 << 10
	// maxLargeAnswers is how many larger ones are in memory at the same time, read or being read.
	maxLargeAnswers = 16
)

// largeAnswers has a place for each large answer, of whichever cluster: hundreds of imports run at the same time, and clusters
// that send as much as they may must not use up the memory of all.
var largeAnswers = make(chan struct{}, maxLargeAnswers)

// readAnswer reads a body, and no more than one byte beyond maxBytes. release gives the place of a large one back, and must be called.
func readAnswer(ctx context.Context, body io.Reader, maxBytes int64) (answer []byte, release func(), err error) {
	release = func() {}
	answer, err = io.ReadAll(io.LimitReader(body, min(smallAnswer, maxBytes)+1))
	if err != nil || int64(len(answer)) <= smallAnswer || int64(len(answer)) > maxBytes {
		return answer, release, err //nolint:wrapcheck // the caller says what it means.
	}
	select {
	case largeAnswers <- struct{}{}:
		release = sync.OnceFunc(func() { <-largeAnswers })
	case <-ctx.Done():
		return nil, release, ctx.Err()
	}
	rest, err := io.ReadAll(io.LimitReader(body, maxBytes+1-int64(len(answer))))
	return append(answer, rest...), release, err //nolint:wrapcheck // the same.
}

// heldAnswer is a body that was read. Closing it says that it is not needed any more.
type heldAnswer struct {
	*bytes.Reader
	release func()
}

func (a *heldAnswer) Close() error {
	a.release()
	return nil
}

// sanitizingTransport gives the importer's clients nothing of an answer but objects of known kinds and status codes. The
// importer copies the text of an error into a condition that others read; an error of client-go or of a decoder
// quotes what the server sent, and a server may send back the token that it was given. A failure becomes a Status with
// a text that depends on the request and the kind of failure alone.
type sanitizingTransport struct {
	next *boundedTransport
}

// CloseIdleConnections is for http.Client.
func (t *sanitizingTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

func (t *sanitizingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if ctxErr := req.Context().Err(); ctxErr != nil {
		return nil, ctxErr
	}
	if err == nil {
		resp, err = sanitize(req, resp)
	}
	if err != nil {
		return problemResponse(req, requestProblem(err)), nil
	}
	return resp, nil
}

// sanitize returns an answer that holds nothing of another but an object of a known kind, or a status code that is no success. The
// error is a problem.
func sanitize(req *http.Request, resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent {
		return refusal(req, resp.StatusCode), nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading a buffered answer: %w", err)
	}
	// client-go takes a Status of a failure for one whatever the code, with a text of the server.
	object, _, err := answerDecoder.Decode(body, nil, nil)
	if status, ok := object.(*metav1.Status); err != nil || ok && status.Status != metav1.StatusSuccess {
		return nil, notKubernetes()
	}
	// Headers are left out: of those a client acts on, Retry-After would let the cluster hold the worker.
	return response(req, resp.StatusCode, body), nil
}

// reportingTransport sanitizes answers, and gives the failure of a request that got none, or none of a Kubernetes API server, as a
// problem for clusterProblem. It has no cause: a source of tokens keeps the error, and a cluster may fill that with certificates.
type reportingTransport struct {
	next *boundedTransport
}

// CloseIdleConnections is for http.Client.
func (t *reportingTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

func (t *reportingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, requestProblem(err).withoutCause()
	}
	if resp.StatusCode == http.StatusNotFound {
		// Other servers say that of every path. An API server says of which object.
		defer resp.Body.Close()
		if _, err := decodeObject(resp, "Status", nil); err != nil {
			return nil, err
		}
	}
	return sanitize(req, resp)
}

// answerDecoder decodes the kinds of which the klusterlet's manifests are made.
var answerDecoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(operatorv1.Install(scheme))
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// refusal is a Status for a status code that is no success, with the reason that an API server gives for it.
func refusal(req *http.Request, code int) *http.Response {
	reason := metav1.StatusReasonUnknown
	switch code {
	case http.StatusUnauthorized:
		reason = metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		reason = metav1.StatusReasonForbidden
	case http.StatusNotFound:
		reason = metav1.StatusReasonNotFound
	case http.StatusConflict:
		reason = metav1.StatusReasonConflict
		if req.Method == http.MethodPost {
			reason = metav1.StatusReasonAlreadyExists
		}
	case http.StatusUnprocessableEntity:
		reason = metav1.StatusReasonInvalid
	}
	if p := codeProblem(code); p != nil {
		return statusResponse(req, code, reason, p.Error())
	}
	return statusResponse(req, code, reason, strings.TrimSpace(fmt.Sprintf("the answer is %d %s", code, http.StatusText(code))))
}

// answerPrefix starts every text that the importer's clients give for an answer.
const answerPrefix = "managed cluster: "

// problemResponse is a Status that says a problem. Its reason is one that an apply does not take for the absence of the
// object. Its text leaves the request out: the importer applies its objects in random order, and a condition with a
// text that changes wakes the importer again.
func problemResponse(req *http.Request, p *problem) *http.Response {
	return statusResponse(req, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, p.Error())
}

func statusResponse(req *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     int32(code), //nolint:gosec // a status code has three digits.
		Reason:   reason,
		Message:  answerPrefix + message,
	})
	if err != nil {
		// A Status of strings and a number always marshals.
		utilruntime.HandleErrorWithContext(req.Context(), err, "Marshalling a Status")
	}
	return response(req, code, body)
}

func response(req *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", code, http.StatusText(code)),
		StatusCode:    code,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}
}
