package bundle

import (
	"cmp"
	"crypto"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Fetched is a manifest as a registry gave it: the response's own description and the bytes.
type Fetched struct {
	// Descriptor is what the response said: Content-Type, and the digest under which it was asked for or found.
	Descriptor ocispec.Descriptor
	Bytes      []byte
}

// Trust is what a runtime knows before it looks at a bundle.
type Trust struct {
	Root    trust.Root
	Runtime string
	// ClusterUID and KeyThumbprint are the runtime's own; when empty, the audience's are not compared.
	ClusterUID    string
	KeyThumbprint string
	// ClockSkew is how far ahead of the runtime's clock a bundle may have been issued; 0 stands for MaxClockSkew.
	ClockSkew time.Duration
	// Last is the newest bundle that was accepted before.
	Last Accepted
	// Assigned is the Kyma of the bootstrap Secret, zero for none.
	Assigned Assigned
	// Installed are the versions that the runtime has, by module: none goes below unless the statement says so. Nil
	// compares nothing.
	Installed map[string]string
}

// Accepted is what a runtime remembers of the newest bundle it accepted. The zero value remembers nothing.
type Accepted struct {
	Epoch    int64         `json:"epoch"`
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
	// Statement is the digest of what was signed. A signature can be written in more than one way, and whoever owns the
	// registry may do so: two manifests with the same statement are the same bundle.
	Statement digest.Digest `json:"statement,omitempty"`
	// NewestTime is the newest verified time: no check ever runs with an older clock.
	NewestTime time.Time `json:"newestTime"`
	// Kyma is the Kyma that the runtime enrolled under, zero before that is known. TokenExpires is the expiry of the newest
	// token that assigned it, Unix seconds, 0 for none.
	Kyma         trust.Kyma `json:"kyma,omitzero"`
	TokenExpires int64      `json:"tokenExpires,omitempty"`
}

// Verified is a bundle whose statement may be followed, once the blobs it names are there (see Open).
type Verified struct {
	Statement Statement
	// Digest is the manifest's.
	Digest  digest.Digest
	Config  ocispec.Descriptor
	Catalog ocispec.Descriptor
	// KeyThumbprint is that of the publisher key that signed.
	KeyThumbprint string
	// Gap says that bundles between the last accepted and this one were not seen.
	Gap bool
	// Accepted is what to remember once the bundle's content is safely stored.
	Accepted Accepted
}

// Verify decides whether a runtime may apply the bundle. It reads nothing but its arguments.
//
// The checks run in the order of docs/concepts/verification.md and stop at the first that fails, so no data is parsed
// before it is authenticated and no content is fetched before the bundle is accepted. The error is always a *Refusal.
//
// Source: in-toto Attestation Framework, Statement v1; DSSE v1.0.2; TUF 1.0.33 section 5 (rollback, freeze).
func Verify(fetched Fetched, trust Trust, now time.Time) (Verified, error) {
	verified, refusal := verify(fetched, trust, now)
	if refusal != nil {
		return Verified{}, refusal
	}
	return verified, nil
}

func verify(fetched Fetched, trust Trust, now time.Time) (Verified, *refusal.Error) {
	manifest, refused := readBundleManifest(fetched)
	if refused != nil {
		return Verified{}, refused
	}
	statement, by, refused := authenticStatement(manifest, trust.Root)
	if refused != nil {
		return Verified{}, refused
	}
	verified := Verified{
		Statement: statement, Digest: digest.FromBytes(fetched.Bytes), KeyThumbprint: by.thumbprint,
		Config: manifest.Config, Catalog: manifest.Layers[0],
	}
	p := statement.Predicate
	last := trust.Last
	if last.Epoch < trust.Root.Epoch {
		last.Sequence, last.Digest, last.Statement = 0, "", ""
	}
	// A clock that runs behind the newest time somebody trusted signed would let an old bundle look fresh.
	clock := latest(now, trust.Last.NewestTime)
	for _, check := range []func() *refusal.Error{
		func() *refusal.Error { return checkAudience(p.Audience, trust) },
		func() *refusal.Error { return checkKyma(p, trust) },
		func() *refusal.Error { return checkEpoch(p.Epoch, trust.Root.Epoch) },
		func() *refusal.Error { return checkRootTime(trust.Root, clock) },
		func() *refusal.Error { return checkTime(p, clock, trust.ClockSkew) },
		func() *refusal.Error { return checkSequence(p, verified.Digest, by.statement, last) },
		func() *refusal.Error { return checkSubjects(statement.Subject, manifest) },
	} {
		if refusal := check(); refusal != nil {
			return Verified{}, refusal
		}
	}
	verified.Gap = last.Sequence != 0 && p.Sequence != last.Sequence &&
		(p.Previous == nil || p.Previous.Sequence != last.Sequence || p.Previous.Digest != last.Digest)
	verified.Accepted = Accepted{
		Epoch: p.Epoch, Sequence: p.Sequence, Digest: verified.Digest, Statement: by.statement,
		NewestTime: latest(trust.Last.NewestTime, p.IssuedAt),
		Kyma:       trust.ownerAfter(p), TokenExpires: max(trust.Last.TokenExpires, trust.Assigned.TokenExpires),
	}
	return verified, nil
}

// signedBy tells who signed what.
type signedBy struct {
	thumbprint string
	statement  digest.Digest
}

// publisherKey returns the publisher key with this thumbprint of the root, or of a former one unless it was revoked
// since.
func publisherKey(thumbprint string, root trust.Root, former ...trust.Root) crypto.PublicKey {
	key := root.PublisherKey(thumbprint)
	for _, r := range former {
		if key == nil && !root.IsRevoked(thumbprint) {
			key = r.PublisherKey(thumbprint)
		}
	}
	return key
}

// authenticStatement returns the statement if a publisher key of the roots signed it and it is about a desired state.
func authenticStatement(manifest ocispec.Manifest, root trust.Root, former ...trust.Root) (Statement, signedBy, *refusal.Error) {
	var statement Statement
	signed, refused := readAttestation([]byte(manifest.Annotations[AnnotationAttestation]))
	if refused != nil {
		return statement, signedBy{}, refused
	}
	hint := signed.VerificationMaterial.PublicKey.Hint
	key := publisherKey(hint, root, former...)
	if key == nil {
		return statement, signedBy{}, refusal.New(refusal.UnknownKey, "signed by a key %s that root version %d does not list as a publisher", trust.ShortThumbprint(hint), root.Version)
	}
	payload, refused := signed.authenticate(key)
	if refused != nil {
		return statement, signedBy{}, refused
	}
	if refusal := decodeStatement(payload, PredicateDesiredState, &statement); refusal != nil {
		return statement, signedBy{}, refusal
	}
	return statement, signedBy{hint, digest.FromBytes(payload)}, nil
}

// decodeStatement reads an authenticated statement of one predicate type into v. The type is compared before the rest
// is decoded, because a statement of another kind has another shape and would only look malformed; so are the critical
// features, which say whether the rest may be read without knowing all of it.
func decodeStatement(payload []byte, predicateType string, v any) *refusal.Error {
	if err := checkJSON(payload); err != nil {
		return refusal.New(refusal.Malformed, "statement: %w", err)
	}
	found, err := statementKind(payload)
	if err != nil {
		return refusal.New(refusal.Malformed, "statement: %w", err)
	}
	if found.Type != StatementType || found.PredicateType != predicateType {
		return refusal.New(refusal.PredicateType, "statement is a %q about %q, want a %q about %q", found.Type, found.PredicateType, StatementType, predicateType)
	}
	if refused := checkCritical(payload); refused != nil {
		return refused
	}
	if err := decodeVerified(payload, v); err != nil {
		return refusal.New(refusal.Malformed, "statement: %w", err)
	}
	return nil
}

func checkAudience(audience Audience, pinned Trust) *refusal.Error {
	if audience.Runtime == "" || audience.Runtime != pinned.Runtime {
		return refusal.New(refusal.WrongRuntime, "meant for runtime %q, this is %q", audience.Runtime, pinned.Runtime)
	}
	if audience.ClusterUID != "" && pinned.ClusterUID != "" && audience.ClusterUID != pinned.ClusterUID {
		return refusal.New(refusal.WrongCluster, "meant for the cluster %s, this is %s: a cluster cannot take over another's runtime id", audience.ClusterUID, pinned.ClusterUID)
	}
	if audience.KeyThumbprint == AudienceNobody && pinned.KeyThumbprint != "" {
		return refusal.New(refusal.WrongCluster, "the control plane revoked this agent's key: delete the key's Secret and enroll the runtime again")
	}
	if audience.KeyThumbprint != "" && pinned.KeyThumbprint != "" && audience.KeyThumbprint != pinned.KeyThumbprint {
		return refusal.New(refusal.WrongCluster, "meant for the agent with key %s, this one's is %s", trust.ShortThumbprint(audience.KeyThumbprint), trust.ShortThumbprint(pinned.KeyThumbprint))
	}
	return nil
}

func checkEpoch(epoch, root int64) *refusal.Error {
	if epoch != root {
		return refusal.New(refusal.WrongEpoch, "of epoch %d, the root is at epoch %d", epoch, root)
	}
	return nil
}

func checkRootTime(root trust.Root, clock time.Time) *refusal.Error {
	if !clock.Before(root.Expires) {
		return refusal.New(refusal.RootExpired, "root of trust version %d expired at %s: sign a new version with `kcp-publisher keys rotate`", root.Version, stamp(root.Expires))
	}
	return nil
}

func checkTime(p Predicate, clock time.Time, skew time.Duration) *refusal.Error {
	if p.IssuedAt.IsZero() || !p.ExpiresAt.After(p.IssuedAt) {
		return refusal.New(refusal.Malformed, "issuedAt %s and expiresAt %s are not a stretch of time", stamp(p.IssuedAt), stamp(p.ExpiresAt))
	}
	if !clock.Before(p.ExpiresAt) {
		return refusal.New(refusal.Expired, "expired at %s, %s ago by this clock, which says %s: if that is wrong, set it", stamp(p.ExpiresAt), clock.Sub(p.ExpiresAt).Round(time.Second), stamp(clock))
	}
	if p.IssuedAt.After(clock.Add(cmp.Or(skew, trust.MaxClockSkew))) {
		return refusal.New(refusal.NotYetIssued, "issued at %s, %s ahead of this clock, which says %s: check the clocks of both sides and set the wrong one", stamp(p.IssuedAt), p.IssuedAt.Sub(clock).Round(time.Second), stamp(clock))
	}
	return nil
}

func checkSequence(p Predicate, d, statement digest.Digest, last Accepted) *refusal.Error {
	switch {
	case p.Sequence < 1:
		return refusal.New(refusal.Malformed, "sequence %d is not a positive number", p.Sequence)
	case p.Sequence < last.Sequence:
		return refusal.New(refusal.Rollback, "sequence %d is older than %d, which was accepted before", p.Sequence, last.Sequence)
	case p.Sequence == last.Sequence && d != last.Digest && statement != last.Statement:
		return refusal.New(refusal.Equivocation, "sequence %d was accepted as %s, this is %s", p.Sequence, last.Digest, d)
	}
	return nil
}

// checkSubjects compares what was signed with what the manifest points to, both ways.
func checkSubjects(subjects []Subject, manifest ocispec.Manifest) *refusal.Error {
	want := append([]ocispec.Descriptor{manifest.Config}, manifest.Layers...)
	if len(subjects) != len(want) {
		return refusal.New(refusal.WrongDigest, "the statement is about %d blobs, the manifest has %d", len(subjects), len(want))
	}
	for i, descriptor := range want {
		if signed := subjects[i].digest(); signed != descriptor.Digest || signed.Validate() != nil {
			return refusal.New(refusal.WrongDigest, "%s is %q, signed was %q, want the same sha256", blobName(i), descriptor.Digest, signed)
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
