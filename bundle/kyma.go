package bundle

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// MaxFormerKymas limits the number of former Kymas in a statement.
const MaxFormerKymas = 8

// Owner returns the Kyma that published the statement.
func (p Predicate) Owner() trust.Kyma {
	if p.Kyma == nil {
		return trust.Kyma{UID: p.KymaUID}
	}
	return *p.Kyma
}

// Owner returns the Kyma whose bundles the runtime accepts, or the zero value if the runtime has no owner. The owner is
// the Kyma in the bootstrap Secret if the token in that Secret is newer than the last accepted bundle's token, or if
// the root of trust has a newer epoch than this bundle. Otherwise, the owner is the last accepted bundle's Kyma.
func (t Trust) Owner() trust.Kyma {
	last := t.lastInEpoch()
	if last.Kyma.IsZero() || t.IsReassigned() {
		return t.Assigned.Kyma
	}
	return last.Kyma
}

// IsReassigned reports whether an operator assigned the runtime again, with a new bootstrap Secret, after the runtime
// accepted its last bundle. The agent must then enroll its key again.
func (t Trust) IsReassigned() bool {
	return !t.Assigned.Kyma.IsZero() && t.Assigned.TokenExpires > t.Last.TokenExpires
}

// ownerAfter returns the runtime's owner once the runtime accepts the statement, and the expiry of the newest token
// that assigned the runtime. A statement changes the owner only if it is addressed to the agent's key. Only a statement
// from the Kyma in the bootstrap Secret uses the token in that Secret: another Kyma's statement does not prove that the
// control plane has received the agent's enrollment with this token.
func (t Trust) ownerAfter(p Predicate) (owner trust.Kyma, tokenExpires int64) {
	owner, tokenExpires = t.lastInEpoch().Kyma, t.Last.TokenExpires
	if p.Kyma == nil || p.Audience.KeyThumbprint == "" || p.Audience.KeyThumbprint != t.KeyThumbprint {
		return owner, tokenExpires
	}
	if isSameName(*p.Kyma, t.Assigned.Kyma) {
		tokenExpires = max(tokenExpires, t.Assigned.TokenExpires)
	}
	return *p.Kyma, tokenExpires
}

// checkKyma returns a refusal if the statement is for a Kyma that does not own the runtime. If the runtime has no owner
// yet, every Kyma is accepted.
func checkKyma(p Predicate, t Trust) *refusal.Error {
	expected := t.Owner()
	if expected.IsZero() || isSameName(p.Owner(), expected) ||
		slices.ContainsFunc(p.FormerKymas, func(former trust.Kyma) bool { return isSameName(former, expected) }) {
		return nil
	}
	return refusal.New(
		refusal.WrongKyma,
		"comes from Kyma %s, but this runtime belongs to Kyma %s: assign the runtime to another Kyma with "+
			"`kcp-publisher move`, or with `kcp-publisher enroll --replace`",
		p.Owner(),
		expected,
	)
}

func isSameName(found, expected trust.Kyma) bool {
	if expected.UID != "" {
		return found.UID == expected.UID && (found.Name == "" || found.SameName(expected))
	}
	return found.SameName(expected)
}

// checkOwner refuses a report from a runtime that belongs to another Kyma. It compares only name and namespace, because
// a Kyma's UID changes when an operator rebuilds the control plane.
func (from Reporter) checkOwner(report Report) *refusal.Error {
	if report.Owner == nil || from.Owner.Name == "" || report.Owner.SameName(from.Owner) ||
		slices.ContainsFunc(from.Former, report.Owner.SameName) {
		return nil
	}
	return refusal.New(refusal.WrongKyma,
		"the runtime belongs to Kyma %s, not to Kyma %s: run `kcp-publisher enroll %s --replace --kyma %s`",
		report.Owner, from.Owner, from.Runtime, trust.Kyma{Namespace: from.Owner.Namespace, Name: from.Owner.Name})
}

func (from Reporter) checkCluster(report Report, enrolled bool) *refusal.Error {
	if enrolled || from.ClusterUID == "" || report.ClusterUID == from.ClusterUID {
		return nil
	}
	return refusal.New(
		refusal.WrongCluster,
		"signed in cluster %s with the runtime's key, but the runtime is enrolled in cluster %s: the first cluster "+
			"has a copy of the key; to use that cluster, run `kcp-publisher enroll %s` and apply its output there",
		Quote(report.ClusterUID, maxQuotedBytes),
		from.ClusterUID,
		from.Runtime,
	)
}
