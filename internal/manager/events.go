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

// maxPosts limits the webhook's Event queue. If the queue is full, new Events are recorded only in the cluster.
const maxPosts = 100

// Rate limits for posted Events, so a failing fleet does not send thousands of notifications.
const (
	postsPerSecond = 1
	postsAtOnce    = 20
)

// eventManager is a manager whose Event recorders also post Events to a webhook.
type eventManager struct {
	ctrl.Manager
	posts *postQueue
}

// withPosting returns a manager whose Event recorders also post Events to a webhook, as Flux's controllers do.
func withPosting(mgr ctrl.Manager, to webhook) (ctrl.Manager, error) {
	p := newPosts(to, mgr.GetScheme(), mgr.GetLogger().WithName("events"))
	if err := to.configure(retryablehttp.NewClient(), p.log); err != nil { // return configuration errors at startup
		return nil, err
	}
	if err := mgr.Add(p); err != nil {
		return nil, fmt.Errorf("post events: %w", err)
	}
	return eventManager{mgr, p}, nil
}

func (m eventManager) GetEventRecorder(name string) crrecorder.EventRecorder {
	return m.posts.recorder(name, m.Manager.GetEventRecorder(name))
}

// postQueue is the webhook's Event queue, so a slow receiver does not delay reconciliation.
type postQueue struct {
	to     webhook
	scheme *runtime.Scheme
	log    logr.Logger
	queue  chan func()
	limit  *rate.Limiter
}

func newPosts(to webhook, scheme *runtime.Scheme, log logr.Logger) *postQueue {
	return &postQueue{
		to:     to,
		scheme: scheme,
		log:    log,
		queue:  make(chan func(), maxPosts),
		limit:  rate.NewLimiter(postsPerSecond, postsAtOnce),
	}
}

// Start posts queued Events until the manager stops. It does not wait for a pending request.
func (p *postQueue) Start(ctx context.Context) error {
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

// NeedLeaderElection returns false: the queue does not need its own election, because only the leader adds Events to
// it.
func (p *postQueue) NeedLeaderElection() bool { return false }

// recorder records Events in the cluster and queues them for posting.
type recorder struct {
	crrecorder.EventRecorder
	posts *postQueue
	to    *fluxevents.Recorder
}

func (p *postQueue) recorder(name string, cluster crrecorder.EventRecorder) crrecorder.EventRecorder {
	to, err := fluxevents.NewRecorderForScheme(p.scheme, noopRecorder{}, p.log, p.to.address, name)
	if err == nil {
		err = p.to.configure(to.Client, p.log)
	}
	if err != nil {
		p.log.Error(err, "failed to set up posting of events", "controller", name)
		return cluster
	}
	return recorder{cluster, p, to}
}

func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.AnnotatedEventf(regarding, related, nil, eventType, reason, action, note, args...)
}

// AnnotatedEventf records an Event in the cluster. It queues the Event for posting if the filters select it.
func (r recorder) AnnotatedEventf(
	regarding, related runtime.Object, annotations map[string]string, eventType, reason, action, note string,
	args ...any,
) {
	r.EventRecorder.AnnotatedEventf(regarding, related, annotations, eventType, reason, action, note, args...)
	if !r.posts.to.isSelected(eventType, reason) {
		return
	}
	if _, err := reference.GetReference(r.posts.scheme, regarding); err != nil {
		r.posts.log.Error(err, "failed to post an event: cannot create a reference to its object", "reason", reason)
		return
	}
	object := regarding.DeepCopyObject() // the reconciler can modify regarding before post runs
	select {
	case r.posts.queue <- func() { r.to.AnnotatedEventf(object, annotations, eventType, reason, note, args...) }:
	default:
		r.posts.log.Info("did not post an event: the queue of events for events-addr is full", "reason", reason)
	}
}

// noopRecorder is a recorder that does nothing. Flux's recorder requires a recorder for the cluster, but the type
// recorder has already recorded the Event there.
type noopRecorder struct{}

func (noopRecorder) Event(runtime.Object, string, string, string)          {}
func (noopRecorder) Eventf(runtime.Object, string, string, string, ...any) {}
func (noopRecorder) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
