package install

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// memo is the in-memory state of a Manifest. It is empty after a restart.
type memo struct {
	uid types.UID
	// checkedGeneration is the Manifest's generation at the last comparison of all objects, and checkedAt is the time
	// of this comparison. checkedGeneration is 0 before the first comparison.
	checkedGeneration int64
	checkedAt         time.Time
	// images is the value of AnnotationImages at the last comparison.
	images string
	// values is the value of AnnotationValues at the last comparison.
	values string
	// inherited is the value of the field Inherited in the Manifest's record at the last comparison.
	inherited string
	// pendingGeneration is the generation that is not ready yet. pendingSince is the time of its first check, or of the
	// first check after a warning. It is zero during a warning. checks is the number of the generation's checks.
	pendingGeneration int64
	pendingSince      time.Time
	checks            int
	// heldReason is the reason why the agent could not yet delete an object that the current version does not contain.
	// heldFor is the delay until the next attempt.
	heldReason string
	heldFor    time.Duration
	// handingOver is the status message about objects that other modules must take over before this module can drop
	// them. handOverAgain is the delay until these objects are checked again. handOverSince is the start of the wait,
	// or zero if the other modules only wait for their upgrade.
	handingOver   string
	handOverAgain time.Duration
	handOverSince time.Time
	// partners identifies the Manifests of the module's partners at the last comparison. The partners are the modules
	// that the content moves objects to or from. partnerModules contains their names. pendingMoves is the status
	// message about moves that wait for the partners.
	partners       string
	partnerModules []string
	pendingMoves   string
	// dropped contains the objects in the inventory that are not in the current version.
	dropped object.Keys
	// webhooksDeleted is true if the module's webhooks were deleted because they blocked its removal.
	webhooksDeleted bool
	// refused is the outcome for the last refused content. refusedContent identifies the content. retry is the time of
	// the next attempt.
	refused        *outcome.Outcome
	refusedContent string
	retry          time.Time
	// immutable contains the objects in the refused content that differ from the live objects in immutable fields.
	immutable object.Keys
	// keptVersion identifies the last applied version, whose drift the agent corrects while a newer version is refused.
	// keptAt is the time of the last comparison of all objects in this version.
	keptVersion string
	keptAt      time.Time
	// hasBegun is true if the agent has started to apply a new version. recordFailed is true if the API server rejected
	// the applied version's record.
	hasBegun, recordFailed bool
	// corrections contains the recent drift corrections for each object.
	corrections corrections
	// readyVersions contains the resource version that each object had when it was last ready.
	readyVersions map[guard.Key]string
	// cachedObjects contains the last read copies of the default CR, and of objects that were not ready.
	cachedObjects map[guard.Key]*unstructured.Unstructured
	// freshObjects contains objects from the API server's responses in the current reconciliation.
	freshObjects map[guard.Key]*unstructured.Unstructured
	// settledObjects contains the objects that matched the module's content when the agent last applied them.
	settledObjects map[guard.Key]settledState
	// deniedReads contains the API server's error for each missing permission to read other owners' objects. The key is
	// the effect of the missing permission.
	deniedReads map[string]string
	// failingSince is the time of the first failure in a series of failed reconciliations. It is zero if the last
	// reconciliation succeeded.
	failingSince time.Time
	// lastVersion is the Manifest's last resourceVersion that this process read or wrote.
	lastVersion string
}

// forgetReady drops the recorded readiness of objects that the agent writes next. Until the watches show the new
// objects, the old readiness would seem current.
func (k *memo) forgetReady(p planning.Plan) {
	for _, o := range p.All() {
		delete(k.readyVersions, guard.KeyOf(o))
		delete(k.cachedObjects, guard.KeyOf(o))
	}
}

// handover is the result of the search for new owners of objects that a module does not need anymore.
type handover struct {
	// deletable contains the objects that the module can delete now.
	deletable []v1beta2.Resource
	// waitReason is the reason to wait if other modules must take over some of the objects first. It is "" if the
	// module does not have to wait. recheckAfter is the delay until the next check.
	waitReason   string
	recheckAfter time.Duration
	// isScheduled is true if the other modules only wait for their upgrade, for example for a maintenance window.
	isScheduled bool
}

// recordHandover records the wait for other modules. The longer the module waits, the longer is the delay until the
// next check.
func (k *memo) recordHandover(found handover, now time.Time) {
	k.handingOver, k.handOverAgain = found.waitReason, found.recheckAfter
	if found.waitReason == "" || found.isScheduled {
		k.handOverSince = time.Time{}
		return
	}
	if k.handOverSince.IsZero() {
		k.handOverSince = now
	}
	k.handOverAgain = min(max(found.recheckAfter, now.Sub(k.handOverSince)/4), unwrittenInterval)
}

// recordMoves records the moves that the applied content declares.
func (k *memo) recordMoves(p planning.Plan) {
	k.partners, k.partnerModules, k.pendingMoves = p.Partners, p.Moves.Modules(), ""
	if pending := p.PendingMoves(); len(pending) > 0 {
		k.pendingMoves = excerpt.FirstFew(pending)
	}
}

// nextCheck returns the delay until a module that is not ready or not removed yet is checked again. The delay doubles
// with each check, up to slowest.
func (k *memo) nextCheck(generation int64, now time.Time, slowest time.Duration) time.Duration {
	if k.pendingGeneration != generation {
		k.pendingGeneration, k.pendingSince, k.checks = generation, time.Time{}, 0
	}
	if k.pendingSince.IsZero() {
		k.pendingSince = now
	}
	k.checks++
	return min(200*time.Millisecond<<min(k.checks-1, 10), slowest)
}

// recordRefusal records the outcome for a refused version, so that the agent does not repeat the dry run for every
// event.
func (k *memo) recordRefusal(m *v1beta2.Manifest, out outcome.Outcome, now time.Time, immutable object.Keys) {
	k.refused, k.refusedContent, k.retry, k.immutable = &out, requestKey(m), now.Add(out.Again), immutable
}

// dropRefusal drops the recorded refusal if one of the objects in k.immutable was changed or deleted. The cause of the
// refusal may then be gone.
func (k *memo) dropRefusal(changed object.Keys) {
	for o := range changed {
		if k.immutable.Has(o) {
			k.refused = nil
		}
	}
}

// recordedRefusal returns the recorded outcome for a refused version until the next attempt is due. It returns nil if
// no refusal is recorded.
func (k *memo) recordedRefusal(m *v1beta2.Manifest, now time.Time) *outcome.Outcome {
	if k.refused == nil || k.refusedContent != requestKey(m) || !now.Before(k.retry) {
		k.refused = nil
		return nil
	}
	out := *k.refused
	out.Inventory, out.Again = m.Status.Synced, k.retry.Sub(now)
	return &out
}

// requestKey returns text that is equal only for Manifests with the same generation, labels and annotations.
func requestKey(m *v1beta2.Manifest) string {
	return fmt.Sprintf("%d %q %q", m.Generation, m.Labels, m.Annotations)
}

// cacheFresh stores an object from one of the API server's responses, so that the current reconciliation does not read
// the object again.
func (k *memo) cacheFresh(objectKey guard.Key, live *unstructured.Unstructured) {
	if k.freshObjects == nil {
		k.freshObjects = map[guard.Key]*unstructured.Unstructured{}
	}
	k.freshObjects[objectKey] = live
}

func (k *memo) setSettled(o *unstructured.Unstructured, own drift.Fields) {
	if k.settledObjects == nil {
		k.settledObjects = map[guard.Key]settledState{}
	}
	k.settledObjects[guard.KeyOf(o)] = settledState{contentOf(o), own}
}

// isReady reports whether an object was ready at the last check and has not changed since then. version is the resource
// version of the object in its watch, or "" if the watch may be outdated.
func (k *memo) isReady(o guard.Key, version string) bool {
	return version != "" && k.readyVersions[o] == version
}

// silentFor is how long a temporary error must last before it replaces the current generation's status.
const silentFor = time.Minute

// mustRecordRetry reports whether the status must contain a reconciliation's error. A temporary error does not replace
// the current generation's status before it has lasted for silentFor.
func (k *memo) mustRecordRetry(m *v1beta2.Manifest, cause error, now time.Time) bool {
	if k.failingSince.IsZero() {
		k.failingSince = now
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	isShown := ready == nil || ready.ObservedGeneration == m.Generation
	switch lasts := now.Sub(k.failingSince) >= silentFor; {
	case apierrors.IsConflict(cause):
		return lasts
	case account.IsTemporary(cause):
		return lasts || !isShown
	}
	return true
}

// recordRead records whether the agent's own account is allowed to read objects. It returns nil for a missing
// permission, and other errors unchanged.
func (k *memo) recordRead(effect string, err error) error {
	if err == nil {
		delete(k.deniedReads, effect)
		return nil
	}
	if !account.LacksRight(err) {
		return err
	}
	if k.deniedReads == nil {
		k.deniedReads = map[string]string{}
	}
	k.deniedReads[effect] = err.Error()
	return nil
}

// deniedReadsOf returns the finding about missing permissions to read other owners' objects. It returns nil if no
// permission is missing and the Manifest does not report one.
func (k *memo) deniedReadsOf(m *v1beta2.Manifest) *outcome.Finding {
	if len(k.deniedReads) > 0 {
		var texts []string
		for _, effect := range slices.Sorted(maps.Keys(k.deniedReads)) {
			texts = append(texts, effect+", because "+k.deniedReads[effect])
		}
		return &outcome.Finding{
			Reason: v1beta2.ReasonReadForbidden, Message: strings.Join(texts, "; ") + ": grant this permission to the agent",
		}
	}
	before := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionRights)
	if before == nil || before.Reason != v1beta2.ReasonReadForbidden {
		return nil
	}
	return &outcome.Finding{
		OK: true, Reason: v1beta2.ReasonRightsReviewed, Message: "the agent can read the required objects",
	}
}

// settledState describes an object that matched the module's content when the agent last applied it. content is the
// hash of the applied content, and own identifies the agent's fields after the apply. If a watch shows other fields,
// the object does not match anymore.
type settledState struct {
	content [sha256.Size]byte
	own     drift.Fields
}

func contentOf(o *unstructured.Unstructured) [sha256.Size]byte {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return [sha256.Size]byte{} // cannot happen for objects that were decoded from JSON
	}
	return sha256.Sum256(text)
}

// memos contains the memo for each Manifest. Only the worker that reconciles a Manifest uses its memo.
type memos struct {
	mu     sync.Mutex // guards byName, and the field lastVersion of each memo
	byName map[types.NamespacedName]*memo
}

func newMemos() *memos { return &memos{byName: map[types.NamespacedName]*memo{}} }

// forManifest returns the memo for a Manifest. It creates the memo if it does not exist.
func (s *memos) forManifest(m *v1beta2.Manifest) *memo {
	name := client.ObjectKeyFromObject(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.byName[name]; ok && found.uid == m.UID {
		return found
	}
	s.byName[name] = &memo{uid: m.UID}
	return s.byName[name]
}

// version returns a Manifest's last resourceVersion that this process read or wrote, or "" if it is unknown.
func (s *memos) version(name types.NamespacedName) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byName[name]; known != nil {
		return known.lastVersion
	}
	return ""
}

// recordSeen records a Manifest's resourceVersion at the end of its reconciliation.
func (s *memos) recordSeen(m *v1beta2.Manifest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byName[client.ObjectKeyFromObject(m)]; known != nil && known.uid == m.UID {
		known.lastVersion = m.ResourceVersion
	}
}

func (s *memos) forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}

// Effects of a missing permission to read objects of other owners. The agent reads these objects with its own account.
const (
	readAutoscalers    = "the agent reverts the replicas that an autoscaler sets"
	readStorageClasses = "a PersistentVolumeClaim that waits for its first Pod counts as not ready"
)
