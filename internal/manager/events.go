package manager

import (
	"context"
	"fmt"

	fluxevents "github.com/fluxcd/pkg/runtime/events"
	"github.com/go-logr/logr"
	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
	ctrl "sigs.k8s.io/controller-runtime"
	crrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
)

// maxPosts limits the queue of events for the address. Further events are dropped; the cluster stores them anyway.
const maxPosts = 100

// These limits keep a failing fleet from sending thousands of notifications.
const (
	postsPerSecond = 1
	postsAtOnce    = 20
)

// eventManager is a manager whose recorders also post events to an address.
type eventManager struct {
	ctrl.Manager
	posts *posts
}

// posting returns the manager with recorders that also post every event to the address, as Flux's controllers do.
func posting(mgr ctrl.Manager, to webhook) (ctrl.Manager, error) {
	p := newPosts(to, mgr.GetScheme(), mgr.GetLogger().WithName("events"))
	if err := to.configure(retryablehttp.NewClient(), p.log); err != nil { // the same settings as for each recorder
		return nil, err
	}
	if err := mgr.Add(p); err != nil {
		return nil, fmt.Errorf("post events: %w", err)
	}
	return eventManager{mgr, p}, nil
}

// GetEventRecorder returns a recorder for a controller.
func (m eventManager) GetEventRecorder(name string) crrecorder.EventRecorder {
	return m.posts.recorder(name, m.Manager.GetEventRecorder(name))
}

// posts queues events for the address, so that an address that is slow or does not respond delays no reconciliation.
type posts struct {
	to     webhook
	scheme *runtime.Scheme
	log    logr.Logger
	queue  chan func()
	limit  *rate.Limiter
}

func newPosts(to webhook, scheme *runtime.Scheme, log logr.Logger) *posts {
	return &posts{
		to:     to,
		scheme: scheme,
		log:    log,
		queue:  make(chan func(), maxPosts),
		limit:  rate.NewLimiter(postsPerSecond, postsAtOnce),
	}
}

// Start posts queued events one by one until the manager ends. It does not wait for a pending request.
func (p *posts) Start(ctx context.Context) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case post := <-p.queue:
				if p.limit.Wait(ctx) == nil {
					post()
				}
			}
		}
	}()
	<-ctx.Done()
	return nil
}

// NeedLeaderElection returns false: only the leader records events anyway.
func (p *posts) NeedLeaderElection() bool { return false }

// recorder records events in the cluster, and queues them for the address.
type recorder struct {
	crrecorder.EventRecorder
	posts *posts
	to    *fluxevents.Recorder
}

func (p *posts) recorder(name string, cluster crrecorder.EventRecorder) crrecorder.EventRecorder {
	to, err := fluxevents.NewRecorderForScheme(p.scheme, recorded{}, p.log, p.to.address, name)
	if err == nil {
		err = p.to.configure(to.Client, p.log)
	}
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
func (r recorder) AnnotatedEventf(
	regarding, related runtime.Object, annotations map[string]string, eventType, reason, action, note string,
	args ...any,
) {
	r.EventRecorder.AnnotatedEventf(regarding, related, annotations, eventType, reason, action, note, args...)
	if !r.posts.to.wants(eventType, reason) {
		return
	}
	if _, err := reference.GetReference(r.posts.scheme, regarding); err != nil {
		r.posts.log.Error(err, "failed to post an event: its object cannot be named", "reason", reason)
		return
	}
	object := regarding.DeepCopyObject() // the reconciler keeps modifying its copy
	select {
	case r.posts.queue <- func() { r.to.AnnotatedEventf(object, annotations, eventType, reason, note, args...) }:
	default:
		r.posts.log.Info("dropped an event: too many are waiting for a response of --events-addr", "reason", reason)
	}
}

// recorded is the cluster recorder that Flux's recorder requires. It does nothing, because the event is already in the
// cluster.
type recorded struct{}

func (recorded) Event(runtime.Object, string, string, string)          {}
func (recorded) Eventf(runtime.Object, string, string, string, ...any) {}
func (recorded) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
