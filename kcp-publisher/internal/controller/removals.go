package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

const (
	// After the first removal, the publisher waits for removalDelay, so that it can decide about related removals
	// together. For example, a user may change labels on many Kymas one after the other.
	removalDelay = time.Second
	// A decision about the whole fleet's removals is reused for decisionCacheTime.
	decisionCacheTime = 2 * time.Second
	// The data for decisions is dropped unusedTime after the last decision, because a runtime can report many modules.
	unusedTime = time.Minute
	// maxAnnounced limits the number of modules in one Event, because a report can contain invented modules.
	maxAnnounced = 10
)

// removalJudge decides which modules can be removed from a runtime without an operator's approval. The decision
// depends on the number of removals in the whole fleet. removalJudge is safe for concurrent use.
type removalJudge struct {
	cached, uncached client.Reader
	namespace        string
	now              func() time.Time
	limits           removal.Limits
	git              Git // nil if no Git repository is configured
	events           events.EventRecorder
	lease            string // the name of the publisher's Lease

	mu      sync.Mutex // guards the fields below
	pending map[types.UID]pendingEntry
	// firstSeen contains the time at which each pending removal was first seen.
	firstSeen    map[removal.Removal]time.Time
	lastDecision removalDecision
	// recentRemovals maps recently allowed removals to the times at which this process first read them from the
	// Kymas. These removals still count toward the limits after their Kymas are deleted.
	recentRemovals map[removal.Removal]time.Time
	// announcedText is the text of the last Event about removals that wait for approval.
	announcedText string
}

type pendingEntry struct {
	version string
	catalog *catalog.Snapshot
	modules []string
}

type removalDecision struct {
	at      time.Time
	catalog *catalog.Snapshot
	pending map[removal.Removal]bool
	held    map[removal.Removal]removal.Reason
}

func newRemovals(o Options, cached, uncached client.Reader, recorder events.EventRecorder) *removalJudge {
	return &removalJudge{
		cached: cached, uncached: uncached, namespace: o.Namespace, now: o.Publish.Now, limits: o.Limits, git: o.Git,
		events: recorder, lease: o.KeyFolder.Lease,
		pending:        map[types.UID]pendingEntry{},
		firstSeen:      map[removal.Removal]time.Time{},
		recentRemovals: map[removal.Removal]time.Time{},
	}
}

// dropUnused drops the data for decisions if no decision was made for unusedTime. It keeps the recent entries of
// recentRemovals, because they still count toward the limits.
func (r *removalJudge) dropUnused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	maps.DeleteFunc(r.recentRemovals, func(_ removal.Removal, at time.Time) bool {
		return at.Before(now.Add(-r.limits.Window))
	})
	if now.Sub(r.lastDecision.at) < unusedTime {
		return
	}
	r.pending, r.firstSeen = map[types.UID]pendingEntry{}, map[removal.Removal]time.Time{}
	r.lastDecision = removalDecision{}
	if len(r.recentRemovals) == 0 {
		r.recentRemovals = map[removal.Removal]time.Time{} // the memory of a map does not shrink
	}
}

// decideRemovals decides which of these modules the next bundle can remove from a runtime.
func (r *removalJudge) decideRemovals(
	ctx context.Context, removing plan.NewRemovals, snapshot *catalog.Snapshot,
) (plan.RemovalDecision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var same v1beta2.KymaList
	now := r.now()
	namespace, inRuntime := client.InNamespace(r.namespace), client.MatchingFields{indexRuntime: removing.Runtime}
	if err := r.cached.List(ctx, &same, namespace, inRuntime, client.UnsafeDisableDeepCopy); err != nil {
		return plan.RemovalDecision{}, fmt.Errorf("decide on removals: list Kymas of runtime %s: %w", removing.Runtime,
			err)
	}
	own := plan.NewOwners(same.Items)[removing.Runtime]
	if own == nil {
		return plan.RemovalDecision{}, fmt.Errorf("decide on removals: runtime %s has no Kyma anymore", removing.Runtime)
	}
	if removing.IsChanging {
		snapshot = nil
	}
	pending := r.pendingRemovals(own, removing)
	decided, err := r.fleetDecision(ctx, own, pending, snapshot, now)
	if err != nil {
		return plan.RemovalDecision{}, err
	}
	verdict := plan.RemovalDecision{}
	for _, p := range pending {
		if r.firstSeen[p.Removal].IsZero() {
			r.firstSeen[p.Removal] = now
		}
		reason, held := decided.held[p.Removal]
		held = held || now.Sub(r.firstSeen[p.Removal]) < removalDelay
		if verdict.Decide(own, p, reason, held) {
			verdict.Hold([]string{p.Module}) // until the status contains the decision
		}
		if reason == removal.Restored && r.git != nil {
			r.git.RequestComparison()
		}
	}
	return verdict, nil
}

// fleetDecision returns a decision about all pending removals in the fleet, including those of this Kyma. It reuses the
// last decision if possible, because a new decision must read all Kymas.
func (r *removalJudge) fleetDecision(
	ctx context.Context, own *v1beta2.Kyma, pending []removal.PendingRemoval, snapshot *catalog.Snapshot, now time.Time,
) (removalDecision, error) {
	isCovered := r.lastDecision.catalog == snapshot && now.Sub(r.lastDecision.at) < decisionCacheTime
	for _, p := range pending {
		reason := r.lastDecision.held[p.Removal]
		isCovered = isCovered && r.lastDecision.pending[p.Removal] && !p.Approved &&
			(reason == removal.Restored) == p.Restored
	}
	if isCovered {
		return r.lastDecision, nil
	}
	var list v1beta2.KymaList
	if err := r.cached.List(ctx, &list, client.InNamespace(r.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return removalDecision{}, fmt.Errorf("decide on removals: list Kymas: %w", err)
	}
	all := list.Items
	fleet := removal.Fleet{Pending: pending}
	since := now.Add(-r.limits.Window)
	known := make(map[types.UID]pendingEntry, len(r.pending))
	existing := make(map[string]bool, len(all))
	for i := range all {
		kyma := &all[i]
		existing[plan.RuntimeID(kyma)] = true
		recorded, unrecorded := plan.RecentRemovals(kyma, since)
		fleet.Recent = append(fleet.Recent, recorded...)
		fleet.RecentUnrecorded = append(fleet.RecentUnrecorded, unrecorded...)
		found := r.pending[kyma.UID]
		if found.version != kyma.ResourceVersion || found.catalog != snapshot {
			found = pendingEntry{kyma.ResourceVersion, snapshot, plan.PendingRemovals(kyma, snapshot)}
		}
		known[kyma.UID] = found
		if kyma.UID != own.UID {
			fleet.Pending = append(fleet.Pending, r.pendingRemovals(kyma, plan.NewRemovals{Modules: found.modules})...)
		}
	}
	r.pending = known
	fleet.Recent = append(fleet.Recent, r.recentDeletedKymaRemovals(existing, since)...)
	fleet.Runtimes = plan.Rules{}.CountRemovable(all, fleet.Recent)
	var err error
	if fleet.NamespaceDeleted, err = r.isNamespaceDeleted(ctx, fleet.Pending); err != nil {
		return removalDecision{}, err
	}
	r.lastDecision = removalDecision{
		at:      now,
		catalog: snapshot,
		pending: map[removal.Removal]bool{},
		held:    r.limits.Decide(fleet),
	}
	for _, p := range fleet.Pending {
		r.lastDecision.pending[p.Removal] = true
	}
	maps.DeleteFunc(r.firstSeen, func(known removal.Removal, _ time.Time) bool { return !r.lastDecision.pending[known] })
	for _, recent := range fleet.Recent {
		if _, noted := r.recentRemovals[recent]; !noted {
			r.recentRemovals[recent] = now
		}
	}
	r.announceHeld(ctx)
	return r.lastDecision, nil
}

// recentDeletedKymaRemovals returns the removals that were allowed after the time since and whose Kymas no longer
// exist.
func (r *removalJudge) recentDeletedKymaRemovals(existing map[string]bool, since time.Time) (recent []removal.Removal) {
	for known, at := range r.recentRemovals {
		switch {
		case at.Before(since):
			delete(r.recentRemovals, known)
		case !existing[known.Runtime]:
			recent = append(recent, known)
		}
	}
	return recent
}

// isNamespaceDeleted reports whether the Kymas' namespace is being deleted. It returns false if the publisher lacks the
// permission to read the namespace. In this case, the limits for removals apply.
func (r *removalJudge) isNamespaceDeleted(ctx context.Context, pending []removal.PendingRemoval) (bool, error) {
	if !slices.ContainsFunc(pending, func(p removal.PendingRemoval) bool { return p.Module == "" }) {
		return false, nil
	}
	var namespace corev1.Namespace
	err := r.uncached.Get(ctx, types.NamespacedName{Name: r.namespace}, &namespace)
	switch {
	case apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).
			Info("cannot read the namespace of the Kymas, so only the number of deletions is limited", "namespace",
				r.namespace, "cause", err.Error())
		return false, nil
	case err != nil:
		return false, fmt.Errorf("decide on removals: read namespace %s: %w", r.namespace, err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}

func (r *removalJudge) pendingRemovals(kyma *v1beta2.Kyma, removing plan.NewRemovals) []removal.PendingRemoval {
	if r.git == nil {
		return plan.CollectPending(kyma, removing, time.Time{})
	}
	all := plan.CollectPending(kyma, removing, r.git.ComparedAt())
	for i := range all {
		approved := r.git.ApprovedAt(kyma.UID, all[i].Module)
		all[i].Approved = all[i].Approved || plan.IsApprovedByCommit(kyma, all[i].Module, approved, r.now())
	}
	return all
}

// announceHeld logs and emits one Event for each new set of removals that wait for approval.
func (r *removalJudge) announceHeld(ctx context.Context) {
	runtimes := map[string]map[removal.Reason]int{}
	for waiting, reason := range r.lastDecision.held {
		if runtimes[waiting.Module] == nil {
			runtimes[waiting.Module] = map[removal.Reason]int{}
		}
		runtimes[waiting.Module][reason]++
	}
	var parts []string
	modules := slices.Sorted(maps.Keys(runtimes))
	for _, module := range modules[:min(len(modules), maxAnnounced)] {
		what := "module " + module
		if module == "" {
			what = "all modules"
		}
		for _, reason := range slices.Sorted(maps.Keys(runtimes[module])) {
			parts = append(parts, fmt.Sprintf("%s in %d runtimes (%s)", what, runtimes[module][reason], reason))
		}
	}
	text := strings.Join(parts, "; ")
	if more := len(modules) - maxAnnounced; more > 0 {
		text += fmt.Sprintf("; %d more modules", more)
	}
	if text == r.announcedText {
		return
	}
	r.announcedText = text
	if text == "" {
		return
	}
	note := "removals wait for an operator's approval: " + text + ": see `kcp-publisher removals`"
	ctrl.LoggerFrom(ctx).Info(note)
	r.events.Eventf(leaseReference(r.namespace, r.lease), nil, corev1.EventTypeWarning,
		v1beta2.ReasonRemovalsHeld, "Publish", "%s", eventNote(note))
}
