package plan

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// CheckOwner returns an error if the bundle in the registry belongs to another Kyma and no operator has assigned the
// runtime to this Kyma.
//
// It compares the names of the Kymas, because their UIDs change if the control plane is rebuilt. A bundle that a
// publisher before version 0.1.0 created contains no Kyma. Such a bundle belongs to the Kyma whose name equals the
// runtime ID.
func (a Adoption) CheckOwner(r Runtime) error {
	if a.StoredPredicate == nil || r.IsAssigned || a.StoredPredicate.Audience.KeyThumbprint == "" {
		return nil
	}
	owner := a.StoredPredicate.Owner()
	switch {
	case owner.IsZero(),
		owner.UID != "" && owner.UID == r.Kyma.UID,
		owner.Name != "" && owner.SameName(r.Kyma),
		owner.Name == "" && r.Kyma.Name == r.ID:
		return nil
	}
	own := trust.Kyma{Namespace: r.Kyma.Namespace, Name: r.Kyma.Name}
	return reason.Errorf(
		reason.RuntimeUnassigned,
		"runtime %s enrolled with Kyma %s, and no operator has assigned it to Kyma %s: run `kcp-publisher enroll %s "+
			"--replace --kyma %s`",
		r.ID,
		owner,
		own,
		r.ID,
		own,
	)
}

// listFormerOwners returns the Kymas that owned the runtime before. An agent accepts a bundle of another Kyma only if
// the bundle lists the agent's previous Kyma as a former owner. All later bundles repeat the list, because an agent
// that was offline may not have read the earlier ones.
func (a Adoption) listFormerOwners(r Runtime) []trust.Kyma {
	var all []trust.Kyma
	add := func(former trust.Kyma) {
		if !former.IsZero() && former != r.Kyma && !slices.Contains(all, former) {
			all = append(all, former)
		}
	}
	last := a.StoredPredicate
	if last == nil && a.LastBundle != nil {
		last = &a.LastBundle.Predicate
	}
	if last != nil {
		for _, former := range last.FormerKymas {
			add(former)
		}
	}
	for _, former := range r.FormerOwners {
		add(former)
	}
	if last != nil && last.Kyma != nil {
		add(*last.Kyma)
	}
	return all[max(0, len(all)-bundle.MaxFormerKymas):]
}

func knownKyma(kyma trust.Kyma) *trust.Kyma {
	if kyma.Name == "" {
		return nil
	}
	return &kyma
}

// isOwnerChanged reports whether the next bundle has another owner or other former owners than the last bundle. A last
// bundle without a Kyma was created by an old version of the publisher and needs no new bundle only for this reason.
func isOwnerChanged(last, next bundle.Predicate) bool {
	switch {
	case !slices.Equal(last.FormerKymas, next.FormerKymas):
		return true
	case last.Kyma == nil:
		return last.KymaUID != "" && last.KymaUID != next.KymaUID
	}
	return next.Kyma == nil || *last.Kyma != *next.Kyma
}
