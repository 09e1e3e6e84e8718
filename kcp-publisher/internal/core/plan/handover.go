package plan

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// CheckOwner returns why a Kyma may not publish to a runtime, judged by the bundle in the registry: the runtime
// enrolled with another Kyma, and no operator assigned it to this one. The registry remembers that when the other Kyma,
// or the whole control plane, is gone.
//
// A Kyma of the same namespace and name is the same one in a control plane that was rebuilt: only the UID differs. A
// bundle from before 0.1.0 names no Kyma and is followed by a Kyma with the runtime's name, which no label can claim.
func (a Adopted) CheckOwner(r Runtime) error {
	if a.Stored == nil || r.Assigned || a.Stored.Audience.KeyThumbprint == "" {
		return nil
	}
	owner := a.Stored.Owner()
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

// former returns the Kymas from which agents accept a change to the runtime's Kyma. They are named in each bundle from
// then on, because an agent can be away for long.
func (a Adopted) former(r Runtime) []trust.Kyma {
	var all []trust.Kyma
	add := func(former trust.Kyma) {
		if !former.IsZero() && former != r.Kyma && !slices.Contains(all, former) {
			all = append(all, former)
		}
	}
	last := a.Stored
	if last == nil && a.Last != nil {
		last = &a.Last.Predicate
	}
	if last != nil {
		for _, former := range last.FormerKymas {
			add(former)
		}
	}
	for _, former := range r.Former {
		add(former)
	}
	if last != nil && last.Kyma != nil {
		add(*last.Kyma)
	}
	return all[max(0, len(all)-bundle.MaxFormerKymas):]
}

// namedKyma returns the Kyma that a statement names, nil for none.
func namedKyma(kyma trust.Kyma) *trust.Kyma {
	if kyma.Name == "" {
		return nil
	}
	return &kyma
}

// ownerChanged reports whether a bundle names another Kyma than the one before. That a bundle names its Kyma for the
// first time needs no new bundle: the next one that is due names it.
func ownerChanged(last, next bundle.Predicate) bool {
	switch {
	case !slices.Equal(last.FormerKymas, next.FormerKymas):
		return true
	case last.Kyma == nil:
		return last.KymaUID != "" && last.KymaUID != next.KymaUID
	}
	return next.Kyma == nil || *last.Kyma != *next.Kyma
}
