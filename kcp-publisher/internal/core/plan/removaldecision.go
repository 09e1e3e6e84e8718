package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// FindRemovalDecision returns the last decision about the removal of a module in the Kyma's status, or nil.
func FindRemovalDecision(kyma *v1beta2.Kyma, module string) *v1beta2.ModuleRemoval {
	if s := kyma.Status.Runtime; s != nil {
		for i := range s.Removals {
			if s.Removals[i].Module == module {
				return &s.Removals[i]
			}
		}
	}
	return nil
}

// approvalText returns the text that an operator must add to the annotation AnnotationApprovedRemovals to approve a
// waiting removal.
func approvalText(held v1beta2.ModuleRemoval) string {
	return held.Module + "@" + held.Time.UTC().Format(time.RFC3339)
}

// isApproved reports whether an operator approved a waiting removal.
func isApproved(kyma *v1beta2.Kyma, held v1beta2.ModuleRemoval) bool {
	approved := strings.Split(kyma.Annotations[v1beta2.AnnotationApprovedRemovals], ",")
	return slices.Contains(approved, approvalText(held))
}

// IsApprovedByCommit reports whether a Git commit approves the removal of a module. approved is the time at which the
// commit approved it, or zero. The approval is valid for one removal only, and for at most removal.MaxWindow.
func IsApprovedByCommit(kyma *v1beta2.Kyma, module string, approved, now time.Time) bool {
	if approved.IsZero() || now.Sub(approved) >= removal.MaxWindow {
		return false
	}
	d := FindRemovalDecision(kyma, module)
	return d == nil || !d.Published || d.Time.Time.Before(approved)
}

// RecentRemovals returns the module removals that were allowed for the Kyma without approval after the time since.
// unrecorded contains the removals of modules that were only in the runtime's report.
func RecentRemovals(kyma *v1beta2.Kyma, since time.Time) (recorded, unrecorded []removal.Removal) {
	if s := kyma.Status.Runtime; s != nil {
		for _, d := range s.Removals {
			if d.Decision != v1beta2.RemovalAllowed || !d.Time.After(since) {
				continue
			}
			allowed := removal.Removal{Runtime: RuntimeID(kyma), Module: d.Module}
			if d.Reason == string(removal.Unrecorded) {
				unrecorded = append(unrecorded, allowed)
			} else {
				recorded = append(recorded, allowed)
			}
		}
	}
	return recorded, unrecorded
}

// RemovalDecision is the decision about the module removals in one runtime's next bundle.
type RemovalDecision struct {
	// HeldReasons contains the modules whose removal must wait, with the reason. The reason is empty until the
	// publisher has made a decision.
	HeldReasons map[string]removal.Reason
	// Allowed and Approved list the modules that can be removed: Allowed without approval, and Approved with an
	// operator's approval. The decision must be written to the Kyma's status before the bundle removes the modules.
	Allowed, Approved []string
	// Unrecorded lists the modules in Allowed that are known only from the runtime's report.
	Unrecorded []string
	// RemovedModules lists the modules that the next bundle removes.
	RemovedModules []string
	// Waiting contains the modules whose removal is allowed but waits for a rollout, with the reason. Restored lists
	// the modules that a rollout restores after it removed them. If the rollout is retried, their removal needs no
	// further approval.
	Waiting  map[string]string
	Restored []string
}

// WaitForRollouts moves the modules whose removal a rollout delays from RemovedModules to Waiting.
func (v *RemovalDecision) WaitForRollouts(gates map[string]rollout.Decision) {
	v.RemovedModules = slices.DeleteFunc(v.RemovedModules, func(module string) bool {
		reason := gates[module].HeldReason
		if reason == "" {
			return false
		}
		if v.Waiting == nil {
			v.Waiting = map[string]string{}
		}
		v.Waiting[module] = reason
		return true
	})
}

// Decide adds the decision about a pending removal. If held is true and the removal is not approved, the removal waits
// for the given reason. isNew is true if this decision is the first one that allows the removal.
func (v *RemovalDecision) Decide(
	kyma *v1beta2.Kyma, p removal.PendingRemoval, reason removal.Reason, held bool,
) (isNew bool) {
	recorded := FindRemovalDecision(kyma, p.Module)
	switch {
	case p.Approved && recorded != nil && !recorded.Published && recorded.Decision != v1beta2.RemovalHeld:
		v.RemovedModules = append(v.RemovedModules, p.Module)
		return false
	case p.Approved:
		v.Approved = append(v.Approved, p.Module)
		return true
	case held:
		v.hold(p.Module, reason)
		return false
	}
	v.Allowed = append(v.Allowed, p.Module)
	if p.Unrecorded {
		v.Unrecorded = append(v.Unrecorded, p.Module)
	}
	return true
}

// Add adds the decisions about other modules to v.
func (v *RemovalDecision) Add(other RemovalDecision) {
	if v.HeldReasons == nil {
		v.HeldReasons = map[string]removal.Reason{}
	}
	maps.Copy(v.HeldReasons, other.HeldReasons)
	v.Allowed, v.Approved = append(v.Allowed, other.Allowed...), append(v.Approved, other.Approved...)
	v.RemovedModules, v.Unrecorded = append(v.RemovedModules, other.RemovedModules...),
		append(v.Unrecorded, other.Unrecorded...)
	if len(other.Waiting) > 0 && v.Waiting == nil {
		v.Waiting = map[string]string{}
	}
	maps.Copy(v.Waiting, other.Waiting)
}

// keepsUnpublished reports whether the decision about a module's removal must stay in the Kyma's status until a bundle
// removes the module.
func (v RemovalDecision) keepsUnpublished(module string) bool {
	_, waits := v.Waiting[module]
	return waits || slices.Contains(v.RemovedModules, module)
}

// Hold postpones the decision about the removal of these modules.
func (v *RemovalDecision) Hold(modules []string) {
	for _, module := range modules {
		v.hold(module, "")
	}
}

func (v *RemovalDecision) hold(module string, reason removal.Reason) {
	if v.HeldReasons == nil {
		v.HeldReasons = map[string]removal.Reason{}
	}
	v.HeldReasons[module] = reason
}

// IsSettling reports whether the publisher has not decided about the removal of at least one module yet.
func (v RemovalDecision) IsSettling() bool {
	for _, reason := range v.HeldReasons {
		if reason == "" {
			return true
		}
	}
	return false
}

// HeldModules returns the modules whose removal waits for approval, sorted.
func (v RemovalDecision) HeldModules() (modules []string) {
	for module, reason := range v.HeldReasons {
		if reason != "" {
			modules = append(modules, module)
		}
	}
	slices.Sort(modules)
	return modules
}

// maxRecentRemovals limits the number of past removals in the status of one Kyma.
const maxRecentRemovals = 200

// dropOldest limits the number of past removals in decided. Without a limit, a runtime that reports invented modules
// could make the status grow forever.
func dropOldest(decided map[string]v1beta2.ModuleRemoval, v RemovalDecision) {
	var past []v1beta2.ModuleRemoval
	for module, d := range decided {
		if _, held := v.HeldReasons[module]; !held && !v.keepsUnpublished(module) && !slices.Contains(v.Restored, module) {
			past = append(past, d)
		}
	}
	if len(past) <= maxRecentRemovals {
		return
	}
	slices.SortFunc(past, func(a, b v1beta2.ModuleRemoval) int {
		return cmp.Or(b.Time.Compare(a.Time.Time), strings.Compare(a.Module, b.Module))
	})
	for _, d := range past[maxRecentRemovals:] {
		delete(decided, d.Module)
	}
}

// RemovalStatuses returns the removal decisions for the Kyma's next status. before contains the decisions in the
// current status, and v the new ones. RemovalStatuses drops decisions that are too old to matter.
func RemovalStatuses(
	before []v1beta2.ModuleRemoval, v RemovalDecision, published *PublishedBundle, now time.Time,
) []v1beta2.ModuleRemoval {
	decided := map[string]v1beta2.ModuleRemoval{}
	for _, d := range before {
		d.Published = d.Published || d.Decision != v1beta2.RemovalHeld && published.isRemoving(d.Module)
		recent := d.Module == "" || now.Sub(d.Time.Time) < removal.MaxWindow
		if d.Published && recent || v.keepsUnpublished(d.Module) {
			decided[d.Module] = d
		}
	}
	add := func(module string, decision v1beta2.RemovalDecision, reason removal.Reason) {
		// Round up, because a rounded-down time could be before the start of an earlier comparison with Git.
		at := metav1.NewTime(now.UTC().Add(time.Second - 1).Truncate(time.Second))
		for _, earlier := range before {
			if earlier.Module == module && earlier.Decision == decision && !earlier.Published {
				at = earlier.Time
			}
		}
		decided[module] = v1beta2.ModuleRemoval{Module: module, Decision: decision, Time: at, Reason: string(reason)}
	}
	for module, reason := range v.HeldReasons {
		if reason != "" {
			add(module, v1beta2.RemovalHeld, reason)
		}
	}
	for _, module := range v.Allowed {
		reason := removal.Reason("")
		if slices.Contains(v.Unrecorded, module) {
			reason = removal.Unrecorded
		}
		add(module, v1beta2.RemovalAllowed, reason)
	}
	for _, module := range v.Approved {
		add(module, v1beta2.RemovalApproved, "")
	}
	for _, module := range v.Restored {
		add(module, v1beta2.RemovalApproved, "")
	}
	dropOldest(decided, v)
	if len(decided) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(decided), func(a, b v1beta2.ModuleRemoval) int {
		return strings.Compare(a.Module, b.Module)
	})
}

// isRemoving reports whether the bundle removes a module. An empty module means all modules of a deleted Kyma.
func (p *PublishedBundle) isRemoving(module string) bool {
	if p == nil {
		return false
	}
	if module == "" {
		return p.Predicate.Deleting
	}
	return slices.Contains(p.Predicate.Removals, module)
}
