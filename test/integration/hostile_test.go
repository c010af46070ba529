// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	nextServerFailed  = "check the health of the cluster's API server; the import is tried again"
	nextNotKubernetes = "correct the server of the kubeconfig"
	notKubernetes     = "NotKubernetes: the server does not answer like a Kubernetes API server; " + nextNotKubernetes
	redirects         = "NotKubernetes: the server redirects to another place, which is not followed; " + nextNotKubernetes
	throttles         = "ServerFailed: the cluster's API server throttles; " + nextServerFailed
	answersError      = "ServerFailed: the cluster's API server answers with an error; " + nextServerFailed
	tooLarge          = "ServerFailed: the cluster's API server does not answer within the bounds: the answer is too large; " + nextServerFailed
)

// handlers of hostile servers. Each gives back what it was sent, in every way that it can.
func answerHTML(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprintf(w, "<html><body>please log in, %s</body></html>", echo(r))
}

func answerStatus(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.Header().Set("X-Echo", echo(r))
		w.Header().Add("Warning", fmt.Sprintf("299 - %q", echo(r)))
		respond(w, code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q,
			"details":{"name":%q,"retryAfterSeconds":3600,"causes":[{"reason":%q,"message":%q,"field":%q}]}}`,
			echo(r), code, echo(r), echo(r), echo(r), echo(r), echo(r)))
	}
}

func answerText(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, echo(r))
	}
}

func answerWrongTypes(w http.ResponseWriter, r *http.Request) {
	respond(w, http.StatusOK, fmt.Sprintf(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":{%q:[%q]},"labels":%q}}`,
		echo(r), echo(r), echo(r)))
}

func answerUnknownKind(w http.ResponseWriter, r *http.Request) {
	respond(w, http.StatusOK, fmt.Sprintf(`{"kind":%q,"apiVersion":%q}`, echo(r), echo(r)))
}

func answerEndless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"Namespace","metadata":{"name":"`+echo(r))
	chunk := strings.Repeat("x", 64<<10)
	for {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

func answerGzipBomb() http.HandlerFunc {
	bomb := gzipBomb(64 << 20)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb)
	}
}

func answerHugeHeader(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Huge", echo(r)+strings.Repeat("x", 1<<20))
	respond(w, http.StatusOK, `{"kind":"Namespace"}`)
}

var _ = Describe("A hostile server", func() {
	// target is where redirects lead to. No request may come there.
	target := func() string {
		f := newFakeServer(answerUnknownKind)
		DeferCleanup(func() { Expect(f.requests.Load()).To(BeZero(), "requests after a redirect") })
		return f.server.URL
	}
	redirect := func(code int) http.HandlerFunc {
		url := target()
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", url+r.URL.Path+"?q="+strings.ReplaceAll(echo(r), " ", "+"))
			w.WriteHeader(code)
		}
	}
	always := func(handler http.HandlerFunc) func() *fakeServer {
		return func() *fakeServer { return newFakeServer(handler) }
	}
	later := func(handler http.HandlerFunc) func() *fakeServer {
		return func() *fakeServer { return newFakeServer(afterPreflight(handler)) }
	}

	describeFailures("answers", nil,
		failureCase{name: "with HTML", secret: withServer(always(answerHTML)), text: notKubernetes},
		failureCase{name: "with HTML later", secret: withServer(later(answerHTML)), importFailed: notKubernetes},
		failureCase{
			name: "with a redirect", secret: withServer(func() *fakeServer { return newFakeServer(redirect(http.StatusFound)) }),
			text: redirects,
		},
		failureCase{
			name: "with a redirect that keeps the method", secret: withServer(func() *fakeServer { return newFakeServer(redirect(http.StatusPermanentRedirect)) }),
			text: redirects,
		},
		failureCase{name: "with a redirect later", secret: withServer(func() *fakeServer { return newFakeServer(afterPreflight(redirect(http.StatusTemporaryRedirect))) }), importFailed: redirects},
		failureCase{name: "without end", secret: withServer(always(answerEndless)), text: tooLarge},
		failureCase{name: "without end later", secret: withServer(later(answerEndless)), importFailed: tooLarge},
		failureCase{name: "with a gzip bomb", secret: withServer(func() *fakeServer { return newFakeServer(answerGzipBomb()) }), text: tooLarge},
		failureCase{name: "with a gzip bomb later", secret: withServer(func() *fakeServer { return newFakeServer(afterPreflight(answerGzipBomb())) }), importFailed: tooLarge},
		failureCase{
			name: "with a huge header", secret: withServer(always(answerHugeHeader)),
			text: "Unreachable: the connection is closed before the answer; " + nextUnreachable,
		},
		failureCase{
			name: "that it throttles", secret: withServer(always(answerStatus(http.StatusTooManyRequests))),
			text: throttles,
		},
		failureCase{
			name: "that it throttles, later", secret: withServer(later(answerStatus(http.StatusTooManyRequests))), importFailed: throttles,
		},
		failureCase{
			name: "that it is unavailable", secret: withServer(always(answerStatus(http.StatusServiceUnavailable))),
			text: answersError,
		},
		failureCase{
			name: "that it is unavailable, later", secret: withServer(later(answerStatus(http.StatusServiceUnavailable))), importFailed: answersError,
		},
		failureCase{
			name: "401 with the token in the body", secret: withServer(always(answerStatus(http.StatusUnauthorized))),
			text: "Unauthorized: the cluster's API server does not accept the credential; " + nextUnauthorized,
		},
		failureCase{
			name: "403 with the token in the body", secret: withServer(always(answerStatus(http.StatusForbidden))),
			text: "Forbidden: the credential may not create selfsubjectaccessreviews.authorization.k8s.io; " + nextGrant,
		},
		failureCase{
			name: "409 with the token in the body, later", secret: withServer(later(answerStatus(http.StatusConflict))), importFailed: "the answer is 409 Conflict",
		},
		failureCase{
			name: "422 with the token in the body, later", secret: withServer(later(answerStatus(http.StatusUnprocessableEntity))), importFailed: "the answer is 422 Unprocessable Entity",
		},
		failureCase{
			name: "418 with the token in a text", secret: withServer(always(answerText(http.StatusTeapot))), text: notKubernetes,
		},
		failureCase{
			name: "500 with the token in a text, later", secret: withServer(later(answerText(http.StatusInternalServerError))), importFailed: answersError,
		},
		failureCase{
			name: "with wrong types, later", secret: withServer(later(answerWrongTypes)), importFailed: notKubernetes,
		},
		failureCase{name: "with an unknown kind", secret: withServer(always(answerUnknownKind)), text: notKubernetes},
		failureCase{name: "with an unknown kind later", secret: withServer(later(answerUnknownKind)), importFailed: notKubernetes},
	)
})
