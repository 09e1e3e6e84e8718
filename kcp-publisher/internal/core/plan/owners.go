package plan

import (
	"cmp"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Owners maps each runtime ID to the Kyma that owns the runtime, or to nil if the runtime does not have an owner.
type Owners map[string]*v1beta2.Kyma

// NewOwners finds each runtime's owner. kymas must contain all Kymas, including deleted and suspended ones.
func NewOwners(kymas []v1beta2.Kyma) Owners {
	named := make(map[string][]*v1beta2.Kyma, len(kymas))
	for i := range kymas {
		id := ClaimedRuntimeID(&kymas[i])
		named[id] = append(named[id], &kymas[i])
	}
	owners := make(Owners, len(named))
	for id, all := range named {
		owners[id] = findOwner(id, all)
	}
	return owners
}

// findOwner returns the Kyma that owns a runtime, or nil. all contains the Kymas with this runtime ID.
//
// The owner is the Kyma to which an operator assigned the runtime last. Without an assignment, it is the only Kyma with
// an enrolled key. Without an enrolled key, it is the only Kyma that has or had the runtime ID. A Kyma's label and age
// do not prove ownership, because the Kyma's author can choose them. If a Kyma's status records that it does not own
// the runtime, it needs a new assignment, even if it had a key or an assignment before.
func findOwner(id string, all []*v1beta2.Kyma) *v1beta2.Kyma {
	var assigned, enrolled *v1beta2.Kyma
	ties, keys := false, 0
	for _, kyma := range all {
		if isDenied(kyma, id) {
			continue
		}
		if at := AssignedAt(kyma); at > 0 {
			newest := AssignedAt(assigned)
			ties = at == newest || ties && at < newest
			if at > newest {
				assigned = kyma
			}
		}
		if s := kyma.Status.Runtime; s != nil && s.Key != nil {
			enrolled, keys = kyma, keys+1
		}
	}
	switch {
	case ties:
		return nil
	case assigned != nil:
		return assigned
	case keys == 1:
		return enrolled
	case keys > 1, len(all) > 1, isDenied(all[0], id):
		return nil
	}
	return all[0]
}

// AssignedAt returns the time at which an operator last assigned the runtime to this Kyma, in Unix milliseconds. It
// returns 0 if no operator has assigned the runtime to it.
func AssignedAt(kyma *v1beta2.Kyma) int64 {
	if kyma == nil || kyma.Status.Runtime == nil || kyma.Status.Runtime.Assignment == nil {
		return 0
	}
	return kyma.Status.Runtime.Assignment.Decided
}

// isDenied reports whether the Kyma's status records that the Kyma does not own the runtime.
func isDenied(kyma *v1beta2.Kyma, id string) bool {
	return kyma.Status.Runtime != nil && kyma.Status.Runtime.Unowned == id
}

// formerOwnerOf returns the Kyma that replaced the given Kyma as the owner of the runtime. It returns "" if the given
// Kyma is not a former owner.
func formerOwnerOf(kyma *v1beta2.Kyma, id string) string {
	if !isDenied(kyma, id) {
		return ""
	}
	return kyma.Status.Runtime.AssignedTo
}

// hasOwned reports whether an enrollment token or an assignment ever made the Kyma the owner of its runtime. A
// published bundle does not prove ownership, because an attacker's Kyma can be the first one with the runtime ID.
func hasOwned(kyma *v1beta2.Kyma) bool {
	s := kyma.Status.Runtime
	return s != nil && (s.Key != nil || s.Assignment != nil)
}

// Check returns an error if the Kyma does not own its runtime, or if the Kyma's runtime ID is invalid or has changed.
func (o Owners) Check(kyma *v1beta2.Kyma) error {
	id := RuntimeID(kyma)
	if err := trust.CheckRuntimeID(id); err != nil {
		return reason.With(reason.RuntimeIDInvalid, err)
	}
	if of := ClaimedRuntimeID(kyma); of != id {
		return reason.Errorf(
			reason.RuntimeIDChanged,
			"the Kyma owns runtime %s, but label %s is %s: restore the label, or delete the Kyma, which removes all "+
				"modules from %s, and create a Kyma for %s",
			of,
			v1beta2.LabelRuntimeID,
			id,
			of,
			id,
		)
	}
	if kyma.Annotations[v1beta2.AnnotationMovedAway] == v1beta2.True {
		return reason.Errorf(reason.RuntimeHandedOver,
			"runtime %s was released to another control plane: delete this Kyma, which removes nothing from the runtime", id)
	}
	switch owner, found := o[id]; {
	case owner == nil && formerOwnerOf(kyma, id) != "":
		return handedOverError(kyma, id, formerOwnerOf(kyma, id)+", which does not own it anymore")
	case found && owner == nil:
		return reason.Errorf(
			reason.RuntimeUnassigned,
			"several Kymas have runtime ID %s, and no operator has assigned the runtime: run `kcp-publisher move %s "+
				"--to KYMA`, or `kcp-publisher enroll %s --replace --kyma NAMESPACE/KYMA`",
			id,
			id,
			id,
		)
	case owner == nil || isSameKyma(owner, kyma):
		return nil
	case AssignedAt(owner) > 0 && hasOwned(kyma):
		return handedOverError(kyma, id, describeKyma(owner))
	default:
		return reason.Errorf(reason.DuplicateRuntimeID, "runtime ID %s already belongs to Kyma %s: change the label %s",
			id, describeKyma(owner), v1beta2.LabelRuntimeID)
	}
}

// Owns reports whether the Kyma owns the runtime that it claims. Check can still refuse such a Kyma, for example
// because its runtime was released to another control plane.
func (o Owners) Owns(kyma *v1beta2.Kyma) bool {
	owner := o[ClaimedRuntimeID(kyma)]
	return owner != nil && isSameKyma(owner, kyma)
}

// CanBeAssigned reports whether an operator's token can make a Kyma the owner of its runtime. refused is the result of
// Check.
func CanBeAssigned(kyma *v1beta2.Kyma, refused error) bool {
	switch reason.Of(refused) {
	case reason.DuplicateRuntimeID, reason.RuntimeUnassigned:
		return true
	case reason.RuntimeHandedOver:
		return kyma.Annotations[v1beta2.AnnotationMovedAway] != v1beta2.True
	}
	return false
}

func handedOverError(kyma *v1beta2.Kyma, id, next string) error {
	return reason.Errorf(
		reason.RuntimeHandedOver,
		"this Kyma is a former owner of runtime %s: an operator assigned the runtime to Kyma %s: delete this Kyma, "+
			"which removes nothing from the runtime, or assign the runtime to this Kyma again with `kcp-publisher "+
			"enroll %s --replace --kyma %s`",
		id,
		next,
		id,
		describeKyma(kyma),
	)
}

func isSameKyma(a, b *v1beta2.Kyma) bool { return a.Namespace == b.Namespace && a.Name == b.Name }

// ClaimedRuntimeID returns the runtime ID in a Kyma's status. If the status has no runtime ID, it returns the ID in the
// Kyma's label. The status takes precedence, so that an author cannot take over another runtime by changing the label.
func ClaimedRuntimeID(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; s != nil && s.ID != "" {
		return s.ID
	}
	return RuntimeID(kyma)
}

// KymaIdentity returns a Kyma's namespace, name and UID.
func KymaIdentity(kyma *v1beta2.Kyma) trust.Kyma {
	return trust.Kyma{Namespace: kyma.Namespace, Name: kyma.Name, UID: string(kyma.UID)}
}

// RecordOwner records in a Kyma's status that the Kyma owns its runtime.
func RecordOwner(kyma *v1beta2.Kyma) {
	if kyma.Status.Runtime == nil {
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{}
	}
	s := kyma.Status.Runtime
	s.Unowned, s.AssignedTo = "", ""
	if s.ID == "" {
		s.ID = RuntimeID(kyma)
	}
}

// RecordDenied records in a Kyma's status that the Kyma does not own the runtime. For a former owner, it also records
// the Kyma to which an operator assigned the runtime. The denied Kyma becomes the owner again only after a new decision
// by an operator.
func (o Owners) RecordDenied(kyma *v1beta2.Kyma) {
	if kyma.Status.Runtime == nil {
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{}
	}
	s, id := kyma.Status.Runtime, ClaimedRuntimeID(kyma)
	if owner := o[id]; owner != nil && AssignedAt(owner) > 0 && hasOwned(kyma) {
		s.AssignedTo = describeKyma(owner)
	}
	s.Unowned = id
}

// HandOver assigns a runtime to a Kyma if an operator has requested this with the Kyma's hand-over annotation. The
// annotation contains a proof that was created with a token secret. The proof must be newer than all other assignments
// of the runtime. HandOver copies the former owner's status, so that the runtime's bundle does not change. It reports
// whether it assigned the runtime.
func HandOver(kyma *v1beta2.Kyma, all []v1beta2.Kyma, tokens trust.TokenSecrets) bool {
	proof := kyma.Annotations[v1beta2.AnnotationHandOver]
	// Never assign a runtime to a deleted Kyma, because its last bundle would remove all modules.
	if proof == "" || !kyma.DeletionTimestamp.IsZero() {
		return false
	}
	id := RuntimeID(kyma)
	at, err := tokens.CheckHandOver(KymaIdentity(kyma), id, proof)
	if err != nil {
		return false
	}
	for i := range all {
		if ClaimedRuntimeID(&all[i]) == id && AssignedAt(&all[i]) >= at.UnixMilli() {
			return false
		}
	}
	former := NewOwners(all)[id]
	if former != nil && !isSameKyma(former, kyma) && former.Status.Runtime != nil {
		kyma.Status.Runtime = former.Status.Runtime.DeepCopy()
		kyma.Status.Modules = former.Status.DeepCopy().Modules
	}
	if former != nil && isSameKyma(former, kyma) {
		former = nil
	}
	RecordOwner(kyma)
	assign(kyma.Status.Runtime, former, at)
	return true
}

func assign(s *v1beta2.RuntimeStatus, former *v1beta2.Kyma, at time.Time) {
	next := &v1beta2.Assignment{Decided: at.UnixMilli()}
	if s.Assignment != nil {
		next.Former = append(next.Former, s.Assignment.Former...)
	}
	if former != nil {
		next.Former = append(next.Former, v1beta2.FormerKyma{
			Namespace: former.Namespace, Name: former.Name, UID: string(former.UID),
		})
	}
	next.Former = next.Former[max(0, len(next.Former)-bundle.MaxFormerKymas):]
	s.Assignment = next
}

func formerOwners(s *v1beta2.RuntimeStatus) (all []trust.Kyma) {
	if s == nil || s.Assignment == nil {
		return nil
	}
	for _, f := range s.Assignment.Former {
		all = append(all, trust.Kyma{Namespace: f.Namespace, Name: f.Name, UID: f.UID})
	}
	return all
}

// Oldest returns the oldest Kyma, or nil for an empty list.
func Oldest(all []v1beta2.Kyma) (oldest *v1beta2.Kyma) {
	for i := range all {
		if oldest == nil || byAge(&all[i], oldest) < 0 {
			oldest = &all[i]
		}
	}
	return oldest
}

func byAge(a, b *v1beta2.Kyma) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Namespace, b.Namespace))
}

func describeKyma(kyma *v1beta2.Kyma) string {
	if kyma.Namespace == "" {
		return kyma.Name // a Kyma from a file might not have a namespace
	}
	return kyma.Namespace + "/" + kyma.Name
}

// RuntimeID returns the value of a Kyma's label operator.kyma-project.io/runtime-id or, without the label, the Kyma's
// name. For a deleted Kyma, it returns the ID in the status even if the label has changed.
func RuntimeID(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; !kyma.DeletionTimestamp.IsZero() && s != nil && s.ID != "" {
		return s.ID
	}
	return cmp.Or(kyma.Labels[v1beta2.LabelRuntimeID], kyma.Name)
}

// CheckClone returns an error if two agents use the same key, for example because the cluster was copied. The publisher
// then does not publish new bundles for the runtime.
func CheckClone(kyma *v1beta2.Kyma) error {
	s := kyma.Status.Runtime
	if s == nil || s.Agent == nil || s.Agent.Clone == "" {
		return nil
	}
	return reason.Errorf(
		reason.CloneDetected,
		"%s: stop the copied cluster; then replace the agent's key in the original cluster: delete Secret "+
			"%s/skr-agent-key and apply the output of `kcp-publisher enroll %s --kyma %s/%s`",
		s.Agent.Clone,
		v1beta2.RuntimeNamespace,
		RuntimeID(kyma),
		kyma.Namespace,
		kyma.Name,
	)
}

// IsSkipped reports whether a Kyma is suspended by the label skip-reconciliation. A deleted Kyma or a Kyma in a
// takeover from lifecycle-manager is never skipped.
//
// Source: lifecycle-manager #3097.
func IsSkipped(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True && kyma.DeletionTimestamp.IsZero() &&
		!v1beta2.TakenOver(kyma)
}
