package bundle

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// MaxFormerKymas bounds the Kymas that handed a runtime over, one after the other.
const MaxFormerKymas = 8

// Assigned is the Kyma that an operator assigned a runtime to in its bootstrap Secret.
type Assigned struct {
	Kyma trust.Kyma
	// TokenExpires is the expiry of the token that came with it, Unix seconds. A later token replaces the Kyma that the
	// runtime accepts.
	TokenExpires int64
}

// Owner returns the Kyma that a statement comes from. It has no name in a statement of a publisher from before 0.1.0.
func (p Predicate) Owner() trust.Kyma {
	if p.Kyma == nil {
		return trust.Kyma{UID: p.KymaUID}
	}
	return *p.Kyma
}

// Owner returns the Kyma whose statements the runtime accepts, zero if none is known: the Kyma of the newest accepted
// statement, or the assigned one if its token is newer.
func (t Trust) Owner() trust.Kyma {
	if t.Last.Kyma.IsZero() || t.Renewed() {
		return t.Assigned.Kyma
	}
	return t.Last.Kyma
}

// Renewed reports whether an operator assigned the runtime again since the newest accepted statement. The agent then
// introduces its key once more.
func (t Trust) Renewed() bool {
	return !t.Assigned.Kyma.IsZero() && t.Assigned.TokenExpires > t.Last.TokenExpires
}

// ownerAfter returns the Kyma that owns the runtime once the statement p is accepted. A statement that does not contain
// the agent's key does not change the owner.
func (t Trust) ownerAfter(p Predicate) trust.Kyma {
	if p.Kyma == nil || p.Audience.KeyThumbprint == "" || p.Audience.KeyThumbprint != t.KeyThumbprint {
		return t.Last.Kyma
	}
	return *p.Kyma
}

// checkKyma refuses a statement of another Kyma than the one that the runtime enrolled under, unless the statement
// names that one among those that handed the runtime over. A statement that names no Kyma is refused if the runtime
// knows one: only a UID can prove that it comes from the same.
func checkKyma(p Predicate, t Trust) *refusal.Error {
	expected := t.Owner()
	if expected.IsZero() || names(p.Owner(), expected) ||
		slices.ContainsFunc(p.FormerKymas, func(former trust.Kyma) bool { return names(former, expected) }) {
		return nil
	}
	return refusal.New(
		refusal.WrongKyma,
		"comes from Kyma %s, this runtime belongs to Kyma %s: an operator assigns it to another one with "+
			"`kcp-publisher move`, or with `kcp-publisher enroll --replace`",
		p.Owner(),
		expected,
	)
}

// names reports whether an identity is the expected one. Each part that is expected must be there.
func names(found, expected trust.Kyma) bool {
	if expected.UID != "" {
		return found.UID == expected.UID && (found.Name == "" || found.SameName(expected))
	}
	return found.SameName(expected)
}

// checkOwner refuses a report of a runtime that belongs to another Kyma. The UID is not compared: it differs after a
// control plane was rebuilt.
func (from Reporter) checkOwner(report Report) *refusal.Error {
	if report.Owner == nil || from.Owner.Name == "" || report.Owner.SameName(from.Owner) ||
		slices.ContainsFunc(from.Former, report.Owner.SameName) {
		return nil
	}
	return refusal.New(refusal.WrongKyma,
		"the runtime belongs to Kyma %s, this is Kyma %s: run `kcp-publisher enroll %s --replace --kyma %s`",
		report.Owner, from.Owner, from.Runtime, trust.Kyma{Namespace: from.Owner.Namespace, Name: from.Owner.Name})
}

// checkCluster refuses a report from another cluster than the one that enrolled. A runtime in a new cluster enrolls
// again.
func (from Reporter) checkCluster(report Report, enrolled bool) *refusal.Error {
	if enrolled || from.ClusterUID == "" || report.ClusterUID == from.ClusterUID {
		return nil
	}
	return refusal.New(
		refusal.WrongCluster,
		"signed with the runtime's key in cluster %s, the runtime enrolled in cluster %s: a copy of the runtime has "+
			"its key; to use the other cluster, run `kcp-publisher enroll %s` and apply its output there",
		Quote(report.ClusterUID, maxQuotedBytes),
		from.ClusterUID,
		from.Runtime,
	)
}
