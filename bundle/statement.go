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

// Subject is one blob that the statement covers: the config and every layer, in that order.
type Subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// Predicate is the part of a bundle that is specific to one runtime.
type Predicate struct {
	Audience Audience `json:"audience"`
	// Epoch is the root's epoch. A new epoch, which only a root update starts, resets Sequence.
	Epoch int64 `json:"epoch"`
	// Sequence grows with every bundle of a runtime. It is the maximum of the last sequence plus one and the Unix time
	// in milliseconds, so it also grows if a control plane is rebuilt without data.
	Sequence  int64     `json:"sequence"`
	IssuedAt  time.Time `json:"issuedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	// Previous is the previous bundle, or nil for the first bundle.
	Previous *Position `json:"previous,omitempty"`
	// KymaGeneration is the generation of the runtime's Kyma whose spec was resolved, or 0 if it was unknown.
	KymaGeneration int64 `json:"kymaGeneration,omitempty"`
	// KymaSpec is the RequestDigest of the resolved spec. It is only set for runtimes that compare it with their own
	// Kyma.
	KymaSpec digest.Digest `json:"kymaSpec,omitempty"`
	// Removals lists the names of the modules to remove, sorted. A module that is missing from both this list and the
	// desired state stays installed.
	Removals []string `json:"removals,omitempty"`
	// Rollback lists the modules that return to an older version, sorted by name. An agent refuses a bundle with an
	// older version of any other module.
	Rollback []Rollback `json:"rollback,omitempty"`
	// KymaUID is the UID of the runtime's Kyma in the control plane, or empty if the runtime has no control plane.
	KymaUID string `json:"kymaUID,omitempty"`
	// Deleting is true if the runtime's Kyma was deleted in the control plane. The agent removes everything that came
	// from the control plane, and the runtime's own Kyma last.
	Deleting bool `json:"deleting,omitempty"`
	// Certificate is the certificate that was issued to the agent's key, in PEM.
	Certificate string `json:"certificate,omitempty"`
	// Sealed contains the runtime's Secrets, or nil to leave them unchanged.
	Sealed *Sealed `json:"sealed,omitempty"`
	// RootVersion is the latest version of the root of trust at the time of issue.
	RootVersion int64 `json:"rootVersion"`
	// Source is the Git commit from which the bundle was built, or nil if it was not built from a repository. A later
	// commit that does not affect the runtime does not create a new bundle, so Source can be older than the latest
	// commit.
	Source *Source `json:"source,omitempty"`
	// Critical lists the features that a reader must support to follow the bundle, sorted. A reader that does not
	// support all of them refuses the bundle.
	Critical []Feature `json:"critical,omitempty"`
	// Values are the runtime's values that the state's modules use.
	Values Values `json:"values,omitempty"`
	// Kyma identifies the runtime's Kyma in the control plane. Its UID is KymaUID. Publishers before 0.1.0 omit it.
	Kyma *trust.Kyma `json:"kyma,omitempty"`
	// FormerKymas are the previous Kymas of the runtime, newest last, at most MaxFormerKymas. An agent that enrolled
	// with one of these Kymas accepts the statement.
	FormerKymas []trust.Kyma `json:"formerKymas,omitempty"`
}

// Source is a commit of the Git repository that defines the fleet.
type Source struct {
	// Repository is its address without credentials.
	Repository string `json:"repository"`
	// Commit is the full hash in hexadecimal.
	Commit string `json:"commit"`
}

func (s Source) String() string { return "commit " + s.Commit + " of " + s.Repository }

// Rollback is the return of a module to an older version.
type Rollback struct {
	Module string `json:"module"`
	// From is the newest installed version that the rollback is allowed to replace. To is the version to install.
	From string `json:"from"`
	To   string `json:"to"`
}

// AudienceNone is a key thumbprint that no agent has. It is used if the runtime's key is revoked and no other key is
// enrolled.
const AudienceNone = "nobody"

// Audience identifies the recipient of a bundle. Runtime is always set.
type Audience struct {
	Runtime string `json:"runtime"`
	// ClusterUID is the UID of the kube-system namespace in the cluster that enrolled. An agent with a copy of the
	// Secrets in another cluster refuses the bundle. A cluster that is restored from a snapshot has the same UID: see
	// Report.Instance.
	ClusterUID string `json:"clusterUID,omitempty"`
	// KeyThumbprint is the thumbprint of the agent's key, once enrolled.
	KeyThumbprint string `json:"keyThumbprint,omitempty"`
}

// Position identifies a bundle in the history of one runtime.
type Position struct {
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
}

// NextSequence returns the sequence of a bundle that is issued at the given time. last is the previous sequence, or 0
// for the first bundle.
func NextSequence(last int64, now time.Time) int64 { return max(last+1, now.UnixMilli()) }

func subjectOf(name string, d digest.Digest) Subject {
	return Subject{Name: name, Digest: map[string]string{d.Algorithm().String(): d.Encoded()}}
}

// digest returns the subject's sha256 digest, or "" if the subject has another digest or several digests.
func (s Subject) digest() digest.Digest {
	value, ok := s.Digest[digest.SHA256.String()]
	if !ok || len(s.Digest) != 1 {
		return ""
	}
	return digest.NewDigestFromEncoded(digest.SHA256, value)
}
