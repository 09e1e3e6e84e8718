package manager

import (
	"context"
	"fmt"

	fluxevents "github.com/fluxcd/pkg/runtime/events"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
	ctrl "sigs.k8s.io/controller-runtime"
	crrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
)

// maxPosts is how many events wait for the address to answer; more are dropped, for the cluster has them.
const maxPosts = 100

// eventManager is a manager whose recorders also post.
type eventManager struct {
	ctrl.Manager
	posts *posts
}

// posting returns the manager with recorders that post every event to the address as well, as Flux's controllers do.
func posting(mgr ctrl.Manager, address string) (ctrl.Manager, error) {
	p := newPosts(address, mgr.GetScheme(), mgr.GetLogger().WithName("events"))
	if err := mgr.Add(p); err != nil {
		return nil, fmt.Errorf("post events: %w", err)
	}
	return eventManager{mgr, p}, nil
}

// GetEventRecorder returns a recorder for a controller.
func (m eventManager) GetEventRecorder(name string) crrecorder.EventRecorder {
	return m.posts.recorder(name, m.Manager.GetEventRecorder(name))
}

// posts are events on their way to the address. A slow or dead address delays no reconciliation.
type posts struct {
	address string
	scheme  *runtime.Scheme
	log     logr.Logger
	queue   chan func()
}

func newPosts(address string, scheme *runtime.Scheme, log logr.Logger) *posts {
	return &posts{address: address, scheme: scheme, log: log, queue: make(chan func(), maxPosts)}
}

// Start posts what is queued, one after another, until the manager ends; it does not wait for a post under way.
func (p *posts) Start(ctx context.Context) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case post := <-p.queue:
				post()
			}
		}
	}()
	<-ctx.Done()
	return nil
}

// NeedLeaderElection says that posting does not: only the leader has events.
func (p *posts) NeedLeaderElection() bool { return false }

// recorder records events in the cluster and queues them for the address.
type recorder struct {
	crrecorder.EventRecorder
	posts *posts
	to    *fluxevents.Recorder
}

func (p *posts) recorder(name string, cluster crrecorder.EventRecorder) crrecorder.EventRecorder {
	to, err := fluxevents.NewRecorderForScheme(p.scheme, recorded{}, p.log, p.address, name)
	if err != nil {
		p.log.Error(err, "failed to set up posting of events", "controller", name)
		return cluster
	}
	return recorder{cluster, p, to}
}

// Eventf records an event.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.AnnotatedEventf(regarding, related, nil, eventType, reason, action, note, args...)
}

// AnnotatedEventf records an event with annotations.
func (r recorder) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string, eventType, reason, action, note string, args ...any) {
	r.EventRecorder.AnnotatedEventf(regarding, related, annotations, eventType, reason, action, note, args...)
	if _, err := reference.GetReference(r.posts.scheme, regarding); err != nil {
		r.posts.log.Error(err, "failed to post an event: its object cannot be named", "reason", reason)
		return
	}
	object := regarding.DeepCopyObject() // the reconciler goes on changing its own
	select {
	case r.posts.queue <- func() { r.to.AnnotatedEventf(object, annotations, eventType, reason, note, args...) }:
	default:
		r.posts.log.Info("dropped an event: too many wait for --events-addr to answer", "reason", reason)
	}
}

// recorded stands for the cluster's recorder where Flux's wants one: the event is in the cluster already.
type recorded struct{}

func (recorded) Event(runtime.Object, string, string, string)          {}
func (recorded) Eventf(runtime.Object, string, string, string, ...any) {}
func (recorded) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
