package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// RemoteGit is a shard's connection to the repository that the planner follows.
type RemoteGit struct {
	// Approvals returns the encoded approvals that the planner stored.
	Approvals func(ctx context.Context) ([]byte, error)
	// Compare asks the planner to compare the control plane with the newest commit. The planner then also stores the
	// approvals again.
	Compare func()
}

// cachedCommit is a Git commit with all of its objects in this process's caches, and the removals that an operator
// approved for this commit.
type cachedCommit struct {
	commit    shard.Commit
	source    *bundle.Source
	approvals shard.Approvals
}

// hasCached reports whether all objects of the announced commit are in this process's caches. The caller must hold
// p.mu.
func (p *RemotePlanner) hasCached(a shard.Announcement) bool {
	if a.Commit.Applied == 0 {
		return p.Git == nil // if this shard has a repository, wait until the planner announces a commit
	}
	return a.Commit.Applied == p.cached.commit.Applied && a.Commit.Approved == p.cached.commit.Approved
}

// catchUp must be called after the planner has announced a commit. It compares this process's caches with the API
// server and returns true if they contain all objects of the commit. Until then, the shard must not publish bundles,
// because its caches receive the objects one after the other.
func (p *RemotePlanner) catchUp(ctx context.Context) (bool, error) {
	if p == nil {
		return true, nil
	}
	announced, known := p.Announced()
	p.mu.Lock()
	isCached := p.hasCached(announced)
	p.mu.Unlock()
	switch {
	case !known, announced.Held != "", isCached:
		return true, nil // in the first two cases, isPlanned returns false
	case announced.Commit.Applied == 0:
		return false, nil
	}
	next := cachedCommit{commit: announced.Commit}
	if announced.Commit.Approved != "" && p.Git != nil {
		data, err := p.Git.Approvals(ctx)
		if err != nil {
			return false, err
		}
		if err := shard.CheckApprovals(data, announced.Commit.Approved); err != nil {
			p.Git.Compare() // the planner then stores the approvals again
			return false, err
		}
		if next.approvals, err = shard.DecodeApprovals(data); err != nil {
			return false, err
		}
	}
	if same, err := p.caches.areCurrent(ctx); err != nil || !same {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next.source = p.cached.source
	p.cached = next
	return true, nil
}

// Source returns the commit from which the control plane's objects were applied. It returns nil until all objects of
// the commit are in this process's caches.
func (p *RemotePlanner) Source() *bundle.Source {
	announced, known := p.Announced()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !known || announced.Held != "" || announced.Commit.Hash == "" || !p.hasCached(announced) {
		return nil
	}
	// For the same commit, keep the pointer, because a new pointer would cause a complete reconcile of every Kyma.
	source := bundle.Source{Repository: announced.Commit.Repository, Commit: announced.Commit.Hash}
	if p.cached.source == nil || *p.cached.source != source {
		p.cached.source = &source
	}
	return p.cached.source
}

// HoldReason returns the reason why the planner has stopped publishing, or "".
func (p *RemotePlanner) HoldReason() string {
	announced, known := p.Announced()
	if known && announced.Held == "" && announced.Commit.Applied == 0 && p.Git != nil {
		return "the planner does not follow the Git repository: all replicas need the same --git-url"
	}
	return announced.Held
}

// ComparedAt returns the start time of the planner's last comparison that found the newest commit completely applied.
// It returns zero if no comparison is known.
func (p *RemotePlanner) ComparedAt() time.Time {
	announced, known := p.Announced()
	if !known || announced.Commit.Compared == 0 {
		return time.Time{}
	}
	return time.Unix(0, announced.Commit.Compared)
}

// RequestComparison asks the planner to compare the control plane with the newest commit.
func (p *RemotePlanner) RequestComparison() { p.Git.Compare() }

// ApprovedAt returns the time at which an operator approved the removal of a module from a Kyma for the current
// commit. It returns zero if the removal is not approved.
func (p *RemotePlanner) ApprovedAt(kyma types.UID, module string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cached.approvals.Of(kyma, module)
}

// requestEvaluations runs until the context ends. It repeatedly requests an evaluation of the rollouts while this
// process's caches might not contain all objects that the planner has announced.
func (p *RemotePlanner) requestEvaluations(ctx context.Context, evaluate chan<- event.GenericEvent) error {
	tick := time.NewTicker(catalogDelay)
	defer tick.Stop()
	for {
		announced, known := p.Announced()
		p.mu.Lock()
		waits := known && announced.Held == "" && (!p.unplannedSince.IsZero() || !p.hasCached(announced))
		p.mu.Unlock()
		if waits {
			select {
			case evaluate <- event.GenericEvent{Object: &v1beta2.Kyma{}}:
			default: // an evaluation is already pending
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// caches compares a shard's cached Kymas and Watchers with the API server. The other objects in a commit do not need a
// comparison, because the planner's announcement contains their digest.
type caches struct {
	cached, direct client.Reader
	namespace      string
	// kymas selects the Kymas that the shard caches.
	kymas    labels.Selector
	watchers *Watchers
}

// areCurrent reports whether the caches contain all changes that were made before the call.
func (c *caches) areCurrent(ctx context.Context) (bool, error) {
	for _, kind := range []struct {
		name     string
		selector labels.Selector
		cached   client.ObjectList
	}{
		{"Kyma", c.kymas, &v1beta2.KymaList{}}, {"Watcher", labels.Everything(), &v1beta2.WatcherList{}},
	} {
		live, err := c.listLive(ctx, kind.name, kind.selector)
		if err != nil {
			return false, err
		}
		if err := c.cached.List(ctx, kind.cached, client.InNamespace(c.namespace),
			client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list cached objects of kind %s: %w", kind.name, err)
		}
		if current, err := live.isUpToDate(kind.cached); err != nil || !current {
			return false, err
		}
	}
	// Bundles contain the Watchers from the last reconcile, so reconcile the current ones first.
	_, err := c.watchers.Reconcile(ctx, ctrl.Request{})
	return err == nil, err
}

// versions is the result of a list request: the resource version of each object and of the list itself.
type versions struct {
	list    string
	objects map[string]version
}

type version struct {
	uid      types.UID
	resource string
}

// metadataPageSize is the number of objects in one page of a list request. It limits the request's memory.
const metadataPageSize = 500

// listLive lists a kind's objects from the API server instead of a cache, so that the result contains all earlier
// changes.
func (c *caches) listLive(ctx context.Context, kind string, selector labels.Selector) (versions, error) {
	all := versions{objects: map[string]version{}}
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(v1beta2.GroupVersion.WithKind(kind + "List"))
	for {
		if err := c.direct.List(ctx, page, client.InNamespace(c.namespace),
			client.MatchingLabelsSelector{Selector: selector}, client.Limit(metadataPageSize),
			client.Continue(page.Continue)); err != nil {
			return versions{}, fmt.Errorf("list objects of kind %s: %w", kind, err)
		}
		for i := range page.Items {
			all.objects[page.Items[i].Name] = version{page.Items[i].UID, page.Items[i].ResourceVersion}
		}
		if all.list = page.ResourceVersion; page.Continue == "" {
			return all, nil
		}
	}
}

// isUpToDate reports whether the cache is at least as new as the list v: it contains each object in the list in the
// same or a newer version, and no object that was deleted before the list request.
func (v versions) isUpToDate(cached client.ObjectList) (bool, error) {
	found := 0
	current := true
	err := meta.EachListItem(cached, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		wanted, listed := v.objects[object.GetName()]
		oldest := wanted.resource
		if !listed || wanted.uid != object.GetUID() {
			oldest = v.list // an object that is missing in the list must be newer than the list
		}
		if listed {
			found++
		}
		order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), oldest)
		if err != nil {
			return fmt.Errorf("compare resource versions of %s: %w", object.GetName(), err)
		}
		current = current && order >= 0
		return nil
	})
	return current && found == len(v.objects), err
}
