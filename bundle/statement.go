package bundle

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// StatementType is the only supported in-toto statement version.
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

// Subject is one blob that the statement covers.
type Subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// Predicate is the part of a bundle that is specific to one runtime.
type Predicate struct {
	Audience Audience `json:"audience"`
	// Epoch is the root of trust's epoch. In a new epoch, Sequence starts again.
	Epoch int64 `json:"epoch"`
	// Sequence increases with every bundle for a runtime; see NextSequence.
	Sequence  int64     `json:"sequence"`
	IssuedAt  time.Time `json:"issuedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	// Previous is the previous bundle, or nil for the first bundle.
	Previous *Position `json:"previous,omitempty"`
	// KymaGeneration is the Kyma's metadata.generation in the runtime. The bundle was built for this generation. 0
	// means unknown.
	KymaGeneration int64 `json:"kymaGeneration,omitempty"`
	// KymaSpec is the RequestDigest of a Kyma spec, or empty. The bundle was built for this spec.
	KymaSpec digest.Digest `json:"kymaSpec,omitempty"`
	// Removals lists the modules to remove, sorted. A module that is missing from both this list and the desired state
	// stays installed.
	Removals []string `json:"removals,omitempty"`
	// Rollback lists the modules that return to an older version, sorted by name. The agent refuses a bundle with any
	// other downgrade.
	Rollback []Rollback `json:"rollback,omitempty"`
	// KymaUID is the UID of the runtime's Kyma in the control plane, or empty without a control plane.
	KymaUID string `json:"kymaUID,omitempty"`
	// Deleting is true if the runtime's Kyma in the control plane was deleted. The agent then removes everything that
	// it installed, and the runtime's Kyma last.
	Deleting bool `json:"deleting,omitempty"`
	// Certificate is the certificate that the control plane issued to the agent's key, in PEM.
	Certificate string `json:"certificate,omitempty"`
	// Sealed contains the runtime's Secrets, or nil to leave them unchanged.
	Sealed *Sealed `json:"sealed,omitempty"`
	// RootVersion is the root of trust version when the bundle was issued.
	RootVersion int64 `json:"rootVersion"`
	// Source is the Git commit from which the bundle was built, or nil. It can be older than the latest commit if later
	// commits do not affect the runtime.
	Source *Source `json:"source,omitempty"`
	// Critical lists the features that a reader must support to accept the bundle, sorted.
	Critical []Feature `json:"critical,omitempty"`
	// Values are the values that the runtime's modules use.
	Values Values `json:"values,omitempty"`
	// Kyma identifies the runtime's Kyma in the control plane. Publishers before 0.1.0 omit it.
	Kyma *trust.Kyma `json:"kyma,omitempty"`
	// FormerKymas are the runtime's previous Kymas, newest last, at most MaxFormerKymas. Agents that enrolled with one
	// of these Kymas accept the statement.
	FormerKymas []trust.Kyma `json:"formerKymas,omitempty"`
}

// Source is a commit in the Git repository that defines the fleet.
type Source struct {
	// Repository is the Git repository's URL without credentials.
	Repository string `json:"repository"`
	// Commit is the full commit hash in hexadecimal.
	Commit string `json:"commit"`
}

func (s Source) String() string { return "commit " + s.Commit + " of " + s.Repository }

// Rollback returns a module to an older version.
type Rollback struct {
	Module string `json:"module"`
	// From is the newest installed version that the agent can replace with version To.
	From string `json:"from"`
	To   string `json:"to"`
}

// AudienceNone is a key thumbprint that no agent has. If a runtime's key is revoked, the publisher puts this thumbprint
// into the bundle's audience, so that no agent accepts the bundle.
const AudienceNone = "nobody"

// Audience identifies a bundle's recipient. Runtime is always set.
type Audience struct {
	Runtime string `json:"runtime"`
	// ClusterUID is the UID of the kube-system namespace in the enrolled cluster. Agents in other clusters refuse the
	// bundle.
	ClusterUID string `json:"clusterUID,omitempty"`
	// KeyThumbprint is the thumbprint of the agent's key, or empty before the agent has enrolled.
	KeyThumbprint string `json:"keyThumbprint,omitempty"`
}

// Position identifies a bundle in one runtime's history.
type Position struct {
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
}

// NextSequence returns the sequence of a bundle: last plus one, or the time in Unix milliseconds if that is higher.
func NextSequence(last int64, now time.Time) int64 { return max(last+1, now.UnixMilli()) }

func newSubject(name string, d digest.Digest) Subject {
	return Subject{Name: name, Digest: map[string]string{d.Algorithm().String(): d.Encoded()}}
}

func (s Subject) digest() digest.Digest {
	value, ok := s.Digest[digest.SHA256.String()]
	if !ok || len(s.Digest) != 1 {
		return ""
	}
	return digest.NewDigestFromEncoded(digest.SHA256, value)
}
