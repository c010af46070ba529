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
	tooLarge          = "ServerFailed: the cluster's API server does not answer within the bounds: the answer is too large; " + nextServerFailed
)

// handlers of hostile servers. Each gives back what it was sent, in every way that it can.
func answerHTML(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprintf(w, "<html><body>please log in, %s</body></html>", echo(r)) //nolint:gosec // the point of the test.
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
		_, _ = io.WriteString(w, echo(r)) //nolint:gosec // the point of the test.
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

func answerGzipBomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(theBomb())
}

func answerHugeHeader(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Huge", echo(r)+strings.Repeat("x", 1<<20))
	respond(w, http.StatusOK, `{"kind":"Namespace"}`)
}

var theBomb = func() func() []byte {
	var bomb []byte
	return func() []byte {
		if bomb == nil {
			bomb = gzipBomb(256 << 20)
		}
		return bomb
	}
}()

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
		failureCase{name: "with HTML later", secret: withServer(later(answerHTML)), importFailed: "?"},
		failureCase{
			name: "with a redirect", secret: withServer(func() *fakeServer { return newFakeServer(redirect(http.StatusFound)) }),
			text: "NotKubernetes: the server redirects to another place, which is not followed; " + nextNotKubernetes,
		},
		failureCase{
			name: "with a redirect that keeps the method", secret: withServer(func() *fakeServer { return newFakeServer(redirect(http.StatusPermanentRedirect)) }),
			text: "NotKubernetes: the server redirects to another place, which is not followed; " + nextNotKubernetes,
		},
		failureCase{name: "with a redirect later", secret: withServer(func() *fakeServer { return newFakeServer(afterPreflight(redirect(http.StatusTemporaryRedirect))) }), importFailed: "?"},
		failureCase{name: "without end", secret: withServer(always(answerEndless)), text: tooLarge},
		failureCase{name: "without end later", secret: withServer(later(answerEndless)), importFailed: "?"},
		failureCase{name: "with a gzip bomb", secret: withServer(always(answerGzipBomb)), text: tooLarge},
		failureCase{name: "with a gzip bomb later", secret: withServer(later(answerGzipBomb)), importFailed: "?"},
		failureCase{
			name: "with a huge header", secret: withServer(always(answerHugeHeader)),
			text: "Unreachable: the connection is closed before the answer; " + nextUnreachable,
		},
		failureCase{
			name: "that it throttles", secret: withServer(always(answerStatus(http.StatusTooManyRequests))),
			text: "ServerFailed: the cluster's API server throttles; " + nextServerFailed,
		},
		failureCase{
			name: "that it throttles, later", secret: withServer(later(answerStatus(http.StatusTooManyRequests))), importFailed: "?",
		},
		failureCase{
			name: "that it is unavailable", secret: withServer(always(answerStatus(http.StatusServiceUnavailable))),
			text: "ServerFailed: the cluster's API server answers with an error; " + nextServerFailed,
		},
		failureCase{
			name: "that it is unavailable, later", secret: withServer(later(answerStatus(http.StatusServiceUnavailable))), importFailed: "?",
		},
		failureCase{
			name: "401 with the token in the body", secret: withServer(always(answerStatus(http.StatusUnauthorized))),
			text: "Unauthorized: the cluster's API server does not accept the credential; put a valid credential into the Secret",
		},
		failureCase{
			name: "403 with the token in the body", secret: withServer(always(answerStatus(http.StatusForbidden))),
			text: "Forbidden: the credential may not get namespaces; grant the credential what docs/permissions.md lists",
		},
		failureCase{
			name: "409 with the token in the body, later", secret: withServer(later(answerStatus(http.StatusConflict))), importFailed: "?",
		},
		failureCase{
			name: "422 with the token in the body, later", secret: withServer(later(answerStatus(http.StatusUnprocessableEntity))), importFailed: "?",
		},
		failureCase{
			name: "418 with the token in a text", secret: withServer(always(answerText(http.StatusTeapot))), text: notKubernetes,
		},
		failureCase{
			name: "500 with the token in a text, later", secret: withServer(later(answerText(http.StatusInternalServerError))), importFailed: "?",
		},
		failureCase{
			name: "with wrong types, later", secret: withServer(later(answerWrongTypes)), importFailed: "?",
		},
		failureCase{name: "with an unknown kind", secret: withServer(always(answerUnknownKind)), text: notKubernetes},
		failureCase{name: "with an unknown kind later", secret: withServer(later(answerUnknownKind)), importFailed: "?"},
	)
})
