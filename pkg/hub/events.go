// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"

	clusterscheme "open-cluster-management.io/api/client/cluster/clientset/versioned/scheme"
)

const (
	// recorderName is the reporting controller of events.
	recorderName = "import-controller"
	// eventSenders is how many events are sent at the same time. A recorder of client-go sends one after another and drops what comes while
	// 1,000 wait: with one, three quarters of the events of a thousand imports were lost.
	eventSenders = 8
	// rememberedEvents is of how many events each sender knows that they were sent, and how often, so that one which repeats fast is
	// counted and held back. Events are sent when something changes, not at each attempt: what repeats fast is few. client-go's
	// default is 4096, which keeps three MiB after an import of a thousand clusters.
	rememberedEvents = 64
)

// eventRecorder records events by several recorders. Those of one object go by one of them, in their order.
type eventRecorder []record.EventRecorder

// newEventRecorder returns a recorder, and what ends it.
func newEventRecorder(ctx context.Context, sink record.EventSink) (recorder eventRecorder, stop func()) {
	var broadcasters []record.EventBroadcaster
	for range eventSenders {
		broadcaster := record.NewBroadcaster(record.WithContext(ctx),
			record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: rememberedEvents}))
		broadcaster.StartStructuredLogging(0)
		broadcaster.StartRecordingToSink(sink)
		broadcasters = append(broadcasters, broadcaster)
		recorder = append(recorder, broadcaster.NewRecorder(clusterscheme.Scheme, corev1.EventSource{Component: recorderName}))
	}
	return recorder, func() {
		for _, broadcaster := range broadcasters {
			broadcaster.Shutdown()
		}
	}
}

func (r eventRecorder) of(object runtime.Object) record.EventRecorder {
	hash := fnv.New32a()
	// Of an object that can't be referred to, the recorder says so.
	if ref, err := reference.GetReference(clusterscheme.Scheme, object); err == nil {
		_, _ = hash.Write([]byte(ref.Namespace + "/" + ref.Name))
	}
	return r[hash.Sum32()%uint32(len(r))] //nolint:gosec // There are few.
}

// Event implements record.EventRecorder, as the others do.
func (r eventRecorder) Event(object runtime.Object, eventType, reason, message string) {
	r.of(object).Event(object, eventType, reason, message)
}

// Eventf is Event with a format.
func (r eventRecorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.of(object).Eventf(object, eventType, reason, format, args...)
}

// AnnotatedEventf is Eventf with annotations.
func (r eventRecorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	r.of(object).AnnotatedEventf(object, annotations, eventType, reason, format, args...)
}
