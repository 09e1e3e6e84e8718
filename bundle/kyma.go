package bundle

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// MaxFormerKymas limits the list of the Kymas that previously owned a runtime.
const MaxFormerKymas = 8

// Assigned is the Kyma in the runtime's bootstrap Secret. An operator assigned the runtime to this Kyma.
type Assigned struct {
	Kyma trust.Kyma
	// TokenExpires is the expiry of the token in the same Secret, in Unix seconds. A token with a later expiry replaces
	// the Kyma that the runtime accepts.
	TokenExpires int64
}

// Owner returns the Kyma that the statement comes from. In statements of publishers before 0.1.0, the Kyma has a UID
// but no name.
func (p Predicate) Owner() trust.Kyma {
	if p.Kyma == nil {
		return trust.Kyma{UID: p.KymaUID}
	}
	return *p.Kyma
}

// Owner returns the Kyma whose statements the runtime accepts: the Kyma of the newest accepted statement, or the
// assigned Kyma if its token is newer. It returns the zero Kyma if the runtime has no accepted statement and no
// assigned Kyma.
func (t Trust) Owner() trust.Kyma {
	if t.Last.Kyma.IsZero() || t.Renewed() {
		return t.Assigned.Kyma
	}
	return t.Last.Kyma
}

// Renewed reports whether an operator assigned the runtime again after the newest accepted statement. The agent then
// enrolls its key again.
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

// checkKyma refuses a statement from a Kyma other than the runtime's owner, unless the statement lists the owner as a
// former Kyma. A statement without the name of a Kyma is accepted only if its UID matches, or if the runtime has no
// owner.
func checkKyma(p Predicate, t Trust) *refusal.Error {
	expected := t.Owner()
	if expected.IsZero() || names(p.Owner(), expected) ||
		slices.ContainsFunc(p.FormerKymas, func(former trust.Kyma) bool { return names(former, expected) }) {
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

// names reports whether an identity matches the expected one: by UID if the expected identity has one, otherwise by
// namespace and name. A different name is a mismatch even if the UID matches.
func names(found, expected trust.Kyma) bool {
	if expected.UID != "" {
		return found.UID == expected.UID && (found.Name == "" || found.SameName(expected))
	}
	return found.SameName(expected)
}

// checkOwner refuses a report of a runtime that belongs to another Kyma. The UID is not compared, because it changes
// when a control plane is rebuilt.
func (from Reporter) checkOwner(report Report) *refusal.Error {
	if report.Owner == nil || from.Owner.Name == "" || report.Owner.SameName(from.Owner) ||
		slices.ContainsFunc(from.Former, report.Owner.SameName) {
		return nil
	}
	return refusal.New(refusal.WrongKyma,
		"the runtime belongs to Kyma %s, this is Kyma %s: run `kcp-publisher enroll %s --replace --kyma %s`",
		report.Owner, from.Owner, from.Runtime, trust.Kyma{Namespace: from.Owner.Namespace, Name: from.Owner.Name})
}

// checkCluster refuses a report from a cluster other than the enrolled one. A runtime in a new cluster must enroll
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
