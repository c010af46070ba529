// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// BenchmarkSanitizingTransport is what each answer of a managed cluster costs between the connection and a client of the
// importer: an object is read whole and decoded, a refusal becomes a text of ours.
func BenchmarkSanitizingTransport(b *testing.B) {
	deployment := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: KlusterletNamespace, Name: klusterletName},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: klusterletName, Image: "registry.example.com/ocm/registration-operator:v1", Args: []string{"/registration-operator", "klusterlet"}},
		}}}},
	}
	object, err := json.Marshal(deployment)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		code     int
		body     []byte
		wantCode int
	}{
		{"object", http.StatusOK, object, http.StatusOK},
		{"refusal", http.StatusForbidden, []byte(hostileStatus(http.StatusForbidden, metav1.StatusReasonForbidden)), http.StatusForbidden},
		{"no object", http.StatusOK, []byte("<html>" + testToken + "</html>"), http.StatusServiceUnavailable},
	} {
		b.Run(c.name, func(b *testing.B) {
			transport := &sanitizingTransport{next: &boundedTransport{
				next: answering(func(req *http.Request) *http.Response {
					return &http.Response{StatusCode: c.code, Body: io.NopCloser(bytes.NewReader(c.body)), Request: req}
				}),
				closeIdle: func() {},
				deadline:  time.Now().Add(time.Hour),
				timeout:   time.Minute,
				maxBytes:  1 << 20,
			}}
			// Else a refusal is mostly the price of its line in the log.
			ctx := klog.NewContext(b.Context(), logr.Discard())
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://cluster.example.com/apis/apps/v1", http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != c.wantCode {
					b.Fatalf("the code is %d", resp.StatusCode)
				}
			}
		})
	}
}

// answering is a transport whose server answers at once.
type answering func(*http.Request) *http.Response

func (f answering) RoundTrip(req *http.Request) (*http.Response, error) { return f(req), nil }
