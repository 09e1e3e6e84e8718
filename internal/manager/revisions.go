package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// errRestored means that etcd was restored from a backup. The process must restart, because its caches are invalid.
var errRestored = errors.New(
	"the API server returned to an earlier state (was etcd restored?): restarting to clear the caches")

// revisions detects that etcd was restored from a backup. A restore decreases the resource versions of the lease and of
// object lists.
type revisions struct {
	mu     sync.Mutex // guards latest
	latest string
	// restored is closed once a resource version has decreased.
	restored chan struct{}
}

func newRevisions() *revisions { return &revisions{restored: make(chan struct{})} }

// observe closes restored if the resource version of the lease or list has decreased.
func (r *revisions) observe(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(version, r.latest)
	if r.latest != "" && err == nil && order < 0 {
		select {
		case <-r.restored:
		default:
			close(r.restored)
		}
	}
	r.latest = version
}

// revisionInterval is the default time between two reads of the API server's resource version. The interval must be
// short, because the resource version of a restored etcd increases again.
const revisionInterval = 10 * time.Second

// revisionPoll detects a restored etcd if leader election is disabled, because the process then has no lease to
// observe. It reads the resource version of a list, which is the API server's current resource version.
type revisionPoll struct {
	client    metadata.Getter
	namespace string
	interval  time.Duration
	revisions *revisions
}

// newRevisionPoll returns a poll that lists the Kymas in a namespace, because both programs can list Kymas.
func newRevisionPoll(config *rest.Config, namespace string, interval time.Duration) (*revisionPoll, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up the detection of a restored API server: %w", err)
	}
	return &revisionPoll{
		client: client.Resource(v1beta2.GroupVersion.WithResource("kymas")), namespace: namespace,
		interval: interval, revisions: newRevisions(),
	}, nil
}

// exitOnceRestored returns an error once the process must exit. It ignores failed reads, because the API server can be
// unavailable.
func (p *revisionPoll) exitOnceRestored(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, p.interval, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, p.interval)
		defer cancel()
		list, err := p.client.Namespace(p.namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			p.revisions.observe(list.ResourceVersion)
		}
		select {
		case <-p.revisions.restored:
			return false, errRestored
		default:
			return false, nil
		}
	})
	if errors.Is(err, errRestored) {
		return err
	}
	return nil // the process is shutting down
}

// observedLeases is a client for leases that passes each response's resource version to revisions.
type observedLeases struct {
	coordinationclient.LeasesGetter
	revisions *revisions
}

func (o observedLeases) Leases(namespace string) coordinationclient.LeaseInterface {
	return observedLease{o.LeasesGetter.Leases(namespace), o.revisions}
}

type observedLease struct {
	coordinationclient.LeaseInterface
	revisions *revisions
}

func (o observedLease) observe(lease *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil {
		o.revisions.observe(lease.ResourceVersion)
	}
	return lease, err
}

func (o observedLease) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	return o.observe(o.LeaseInterface.Get(ctx, name, options))
}

func (o observedLease) Create(
	ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return o.observe(o.LeaseInterface.Create(ctx, lease, options))
}

func (o observedLease) Update(
	ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return o.observe(o.LeaseInterface.Update(ctx, lease, options))
}
