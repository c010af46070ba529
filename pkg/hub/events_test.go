// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// blockedSink does not answer for events of one sender.
type blockedSink struct {
	blocked func(*corev1.Event) bool
	release chan struct{}
	sent    chan *corev1.Event
}

func (s *blockedSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if s.blocked(event) {
		<-s.release
	}
	s.sent <- event
	return event, nil
}

func (s *blockedSink) Update(event *corev1.Event) (*corev1.Event, error) { return s.Create(event) }

func (s *blockedSink) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(event)
}

func TestEventRecorder(t *testing.T) {
	const objects = 64
	reference := func(i int) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Secret", APIVersion: "v1", Namespace: "a", Name: fmt.Sprintf("s-%d", i), UID: "1"}
	}
	var recorder eventRecorder
	sink := &blockedSink{release: make(chan struct{}), sent: make(chan *corev1.Event, 3*objects)}
	sink.blocked = func(event *corev1.Event) bool {
		return recorder.of(&event.InvolvedObject) == recorder.of(reference(0))
	}
	unblock := sync.OnceFunc(func() { close(sink.release) })
	recorder, stop := newEventRecorder(t.Context(), sink)
	defer stop()
	defer unblock()

	others := sets.New[string]()
	for i := range objects {
		ref := reference(i)
		if recorder.of(ref) != recorder.of(reference(0)) {
			others.Insert(ref.Name)
		}
		recorder.Event(ref, corev1.EventTypeNormal, "First", "text")
		recorder.Eventf(ref, corev1.EventTypeNormal, "Second", "%s", "text")
		recorder.AnnotatedEventf(ref, map[string]string{"k": "v"}, corev1.EventTypeNormal, "Third", "%s", "text")
	}
	if others.Len() < objects/2 {
		t.Fatalf("%d of %d objects have another sender", others.Len(), objects)
	}
	reasons := map[string][]string{}
	receive := func() {
		event := <-sink.sent
		if event.Message != "text" || event.Source.Component != recorderName {
			t.Errorf("got %+v", event)
		}
		reasons[event.InvolvedObject.Name] = append(reasons[event.InvolvedObject.Name], event.Reason)
	}
	// Those of the others come while one sender waits.
	for range 3 * others.Len() {
		receive()
	}
	if got := sets.KeySet(reasons); !got.Equal(others) {
		t.Errorf("events of %v, want %v", sets.List(got), sets.List(others))
	}
	unblock()
	for range 3 * (objects - others.Len()) {
		receive()
	}
	for name, got := range reasons {
		if diff := cmp.Diff([]string{"First", "Second", "Third"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
