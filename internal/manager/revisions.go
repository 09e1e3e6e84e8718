package manager

import (
	"context"
	"errors"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// errRestored means that etcd was restored from a backup. The process must restart, because its caches are invalid.
var errRestored = errors.New(
	"the API server returned to an earlier state (was etcd restored?): restarting to clear the caches")

// revisions detects that etcd was restored from a backup. The lease then has a lower resource version than before.
type revisions struct {
	mu     sync.Mutex // guards latest
	latest string
	// restored is closed once a resource version decreased.
	restored chan struct{}
}

func newRevisions() *revisions { return &revisions{restored: make(chan struct{})} }

// observe closes restored if the resource version of the lease has decreased.
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

// observedLeases is a client for leases that reports the resource version of each response to revisions.
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
