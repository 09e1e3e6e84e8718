package bundle

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// StatementType is the only in-toto statement version that is written and accepted.
const StatementType = "https://in-toto.io/Statement/v1"

// Statement is an in-toto Statement v1 about one bundle.
//
// Source: in-toto Attestation Framework, spec/v1/statement.md.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is one blob that the statement is about: the config and every layer, in that order.
type Subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// Predicate is what a bundle says about one runtime only.
type Predicate struct {
	Audience Audience `json:"audience"`
	// Epoch is the root's; a new one, which only a root update brings, resets Sequence.
	Epoch int64 `json:"epoch"`
	// Sequence grows with every bundle of a runtime: the larger of the last one plus one and Unix milliseconds, so that a
	// control plane rebuilt from nothing still moves forward.
	Sequence  int64     `json:"sequence"`
	IssuedAt  time.Time `json:"issuedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	// Previous is the bundle before this one, nil for the first.
	Previous *Position `json:"previous,omitempty"`
	// KymaGeneration is that of the runtime's Kyma whose spec was resolved, 0 when it was not known.
	KymaGeneration int64 `json:"kymaGeneration,omitempty"`
	// KymaSpec is the WishDigest of that spec, for runtimes that decide by it whether the bundle answers them; empty for
	// others.
	KymaSpec digest.Digest `json:"kymaSpec,omitempty"`
	// Removals are the modules that shall go, by module name, sorted. A module that is neither here nor in the desired
	// state stays.
	Removals []string `json:"removals,omitempty"`
	// Rollback are the modules that go back to an older version, by module name, sorted. An agent refuses a bundle that
	// brings any other module in an older version than the runtime has.
	Rollback []Rollback `json:"rollback,omitempty"`
	// KymaUID is that of the runtime's Kyma in the control plane, empty where there is no control plane.
	KymaUID string `json:"kymaUID,omitempty"`
	// Deleting says that the runtime's Kyma was deleted in the control plane: everything that came from it goes, the
	// runtime's own Kyma last.
	Deleting bool `json:"deleting,omitempty"`
	// Certificate is the one issued to the agent's key, PEM.
	Certificate string `json:"certificate,omitempty"`
	// Sealed are the runtime's Secrets, nil when nothing is said about them.
	Sealed *Sealed `json:"sealed,omitempty"`
	// RootVersion is the newest root of trust at the time of issue.
	RootVersion int64 `json:"rootVersion"`
	// Source is the commit that was current when the bundle was made, nil where there is none. A later commit that changes
	// nothing for the runtime makes no new bundle, so that this one goes on naming the earlier.
	Source *Source `json:"source,omitempty"`
	// Critical are the features, sorted, that a reader must understand to follow the bundle. A reader that lacks one of
	// them refuses the bundle.
	Critical []Feature `json:"critical,omitempty"`
	// Kyma names the runtime's Kyma in the control plane. Its UID is KymaUID. Publishers from before 0.1.0 leave it out.
	Kyma *trust.Kyma `json:"kyma,omitempty"`
	// FormerKymas are the Kymas that handed the runtime over, the newest last, at most MaxFormerKymas. An agent that
	// enrolled under one of them accepts the statement.
	FormerKymas []trust.Kyma `json:"formerKymas,omitempty"`
}

// Source is one commit of the Git repository that says what a fleet gets.
type Source struct {
	// Repository is its address, without credentials.
	Repository string `json:"repository"`
	// Commit is the whole hash, hexadecimal.
	Commit string `json:"commit"`
}

func (s Source) String() string { return "commit " + s.Commit + " of " + s.Repository }

// Rollback is a module that goes back.
type Rollback struct {
	Module string `json:"module"`
	// From is the newest version that the runtime may have, To the one that it is to have.
	From string `json:"from"`
	To   string `json:"to"`
}

// AudienceNobody is the key thumbprint of no agent: the runtime's key is revoked and no other is enrolled.
const AudienceNobody = "nobody"

// Audience is whom a bundle is for. Runtime is always set.
type Audience struct {
	Runtime string `json:"runtime"`
	// ClusterUID is the UID of the kube-system namespace in the cluster that enrolled. A copy of the agent's Secrets in
	// another cluster refuses the bundle. A cluster that is restored from a snapshot has the same UID: see Report.Instance.
	ClusterUID string `json:"clusterUID,omitempty"`
	// KeyThumbprint is that of the agent's key, once enrolled.
	KeyThumbprint string `json:"keyThumbprint,omitempty"`
}

// Position is a bundle's place in the history of one runtime.
type Position struct {
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
}

// NextSequence is the sequence of a bundle issued now after last (0 when there was none).
func NextSequence(last int64, now time.Time) int64 { return max(last+1, now.UnixMilli()) }

func subjectOf(name string, d digest.Digest) Subject {
	return Subject{Name: name, Digest: map[string]string{d.Algorithm().String(): d.Encoded()}}
}

// digest returns the subject's digest if it is exactly one sha256, else "".
func (s Subject) digest() digest.Digest {
	value, ok := s.Digest[digest.SHA256.String()]
	if !ok || len(s.Digest) != 1 {
		return ""
	}
	return digest.NewDigestFromEncoded(digest.SHA256, value)
}
