// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Behaviour is how a cluster answers.
type Behaviour string

const (
	// Healthy answers at once.
	Healthy Behaviour = "healthy"
	// Slow answers each request after a time of Options.Latency.
	Slow Behaviour = "slow"
	// HangsAfterAccept accepts connections and never says a word.
	HangsAfterAccept Behaviour = "hangs-after-accept"
	// HangsAfterTLS reads requests and never answers.
	HangsAfterTLS Behaviour = "hangs-after-tls"
	// Resets breaks the connection off in the middle of an answer.
	Resets Behaviour = "resets"
	// Refuses has a port of its own, on which nobody listens.
	Refuses Behaviour = "refuses"
	// Unauthorized answers 401 to everything.
	Unauthorized Behaviour = "unauthorized"
	// Forbidden answers 403 to everything.
	Forbidden Behaviour = "forbidden"
	// Throttles answers 429 with Retry-After to everything.
	Throttles Behaviour = "throttles"
	// Endless answers with a body that never ends.
	Endless Behaviour = "endless"
	// WrongCA has a certificate of another CA than that in its kubeconfig.
	WrongCA Behaviour = "wrong-ca"
)

// Dead are the behaviours by which no import ever succeeds.
var Dead = []Behaviour{
	HangsAfterAccept, HangsAfterTLS, Resets, Refuses, Unauthorized, Forbidden, Throttles, Endless, WrongCA,
}

const (
	// retryAfter is in seconds. API servers say 1.
	retryAfter = 1
	chunkSize  = 64 << 10
)

// Latency is a log-normal distribution of times, whose tail is that of services which are sometimes busy. The zero value
// is no time at all.
type Latency struct {
	// Median is what half of the requests take at most.
	Median time.Duration
	// P99 is what 99 of 100 take at most. Default: Median, which is then what each takes.
	P99 time.Duration
}

// sample returns one time.
func (l Latency) sample() time.Duration {
	if l.P99 <= l.Median {
		return l.Median
	}
	// The 99th percentile of the standard normal distribution is 2.326.
	sigma := math.Log(float64(l.P99)/float64(l.Median)) / 2.326
	return time.Duration(float64(l.Median) * math.Exp(sigma*rand.NormFloat64())) //nolint:gosec // no secret
}

// misbehave answers as a dead cluster does. It returns false for clusters that answer like an API server.
func (c *Cluster) misbehave(behaviour Behaviour, w *codeRecorder, r *http.Request) bool {
	switch behaviour {
	case HangsAfterTLS:
		select {
		case <-r.Context().Done():
		case <-c.fleet.done:
		}
	case Resets:
		reset(w)
	case Unauthorized:
		writeError(w, apierrors.NewUnauthorized("Unauthorized"))
	case Forbidden:
		writeError(w, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no permission")))
	case Throttles:
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		writeError(w, apierrors.NewTooManyRequestsError("the server has received too many requests"))
	case Endless:
		c.writeEndless(w, r)
	default:
		return false
	}
	return true
}

// reset sends half an answer and a TCP reset, or on a connection of HTTP/2, which can't be taken over, a reset of the stream.
func reset(w *codeRecorder) {
	w.Header().Set("Content-Type", contentTypeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(chunkSize))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(`{"kind":`))
	controller := http.NewResponseController(w)
	_ = controller.Flush()
	// Half an answer is none.
	w.code = 0
	conn, _, err := controller.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tlsConn, ok := conn.(interface{ NetConn() net.Conn }); ok {
		if tcp, ok := tlsConn.NetConn().(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
			return
		}
	}
	_ = conn.Close()
}

func (c *Cluster) writeEndless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", contentTypeJSON)
	chunk := bytes.Repeat([]byte(" "), chunkSize)
	for r.Context().Err() == nil {
		select {
		case <-c.fleet.done:
			return
		default:
		}
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}
