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

// Verified is a bundle with a valid statement. Its blobs are not checked yet; see Open.
type Verified struct {
	Statement Statement
	// Digest is the manifest's digest.
	Digest  digest.Digest
	Config  ocispec.Descriptor
	Catalog ocispec.Descriptor
	// KeyThumbprint is the thumbprint of the publisher key that signed the bundle.
	KeyThumbprint string
	// Gap is true if the runtime missed bundles between the last accepted bundle and this bundle.
	Gap bool
	// Accepted is the new value for Trust.Last. The agent stores it after it has stored the bundle's content.
	Accepted Accepted
}

// Verify decides whether a runtime can apply the bundle. It reads only its arguments.
//
// The checks run in the order of docs/concepts/verification.md and stop at the first failure. No data is parsed before
// it is authenticated, and no content is fetched before the bundle is accepted. The error is always a *refusal.Error.
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
	last := trust.lastInEpoch()
	// If the runtime's clock were behind, an expired bundle could pass. Use the latest signed time if it is ahead of
	// the clock.
	clock := latestTime(now, trust.Last.NewestTime)
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
		NewestTime: latestTime(trust.Last.NewestTime, p.IssuedAt),
	}
	verified.Accepted.Kyma, verified.Accepted.TokenExpires = trust.ownerAfter(p)
	return verified, nil
}

type signedBy struct {
	thumbprint string
	statement  digest.Digest
}

// publisherKey returns the publisher key with this thumbprint from root or one of the former roots, or nil. It ignores
// a key from a former root if the current root revokes the key.
func publisherKey(thumbprint string, root trust.Root, former ...trust.Root) crypto.PublicKey {
	key := root.PublisherKey(thumbprint)
	for _, r := range former {
		if key == nil && !root.IsRevoked(thumbprint) {
			key = r.PublisherKey(thumbprint)
		}
	}
	return key
}

func authenticStatement(
	manifest ocispec.Manifest, root trust.Root, former ...trust.Root,
) (Statement, signedBy, *refusal.Error) {
	var statement Statement
	signed, refused := readAttestation([]byte(manifest.Annotations[AnnotationAttestation]))
	if refused != nil {
		return statement, signedBy{}, refused
	}
	hint := signed.VerificationMaterial.PublicKey.Hint
	key := publisherKey(hint, root, former...)
	if key == nil {
		return statement, signedBy{},
			refusal.New(refusal.UnknownKey, "signed by key %s, which is not a publisher key of root version %d",
				trust.ShortThumbprint(hint), root.Version)
	}
	payload, refused := signed.authenticate(key)
	if refused != nil {
		return statement, signedBy{}, refused
	}
	if statement, refused = decodeBundleStatement(payload); refused != nil {
		return statement, signedBy{}, refused
	}
	return statement, signedBy{hint, digest.FromBytes(payload)}, nil
}

func decodeBundleStatement(payload []byte) (Statement, *refusal.Error) {
	var statement Statement
	if refused := decodeStatement(payload, PredicateDesiredState, &statement); refused != nil {
		return statement, refused
	}
	if err := statement.Predicate.Values.Check(); err != nil {
		return statement, refusal.New(refusal.Malformed, "statement: values: %w", err)
	}
	return statement, nil
}

func decodeStatement(payload []byte, predicateType string, v any) *refusal.Error {
	if err := checkJSON(payload); err != nil {
		return refusal.New(refusal.Malformed, "statement: %w", err)
	}
	found, err := statementKind(payload)
	if err != nil {
		return refusal.New(refusal.Malformed, "statement: %w", err)
	}
	if found.Type != StatementType || found.PredicateType != predicateType {
		return refusal.New(refusal.PredicateType, "statement has type %q and predicate type %q, must be %q and %q",
			found.Type, found.PredicateType, StatementType, predicateType)
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
		return refusal.New(refusal.WrongRuntime, "intended for runtime %q, but this is runtime %q", audience.Runtime,
			pinned.Runtime)
	}
	if audience.ClusterUID != "" && pinned.ClusterUID != "" && audience.ClusterUID != pinned.ClusterUID {
		return refusal.New(refusal.WrongCluster,
			"intended for cluster %s, but this is cluster %s: a cluster cannot use another cluster's runtime ID",
			audience.ClusterUID, pinned.ClusterUID)
	}
	if audience.KeyThumbprint == AudienceNone && pinned.KeyThumbprint != "" {
		return refusal.New(refusal.WrongCluster,
			"the control plane revoked this agent's key: delete the key's Secret and enroll the runtime again")
	}
	if audience.KeyThumbprint != "" && pinned.KeyThumbprint != "" && audience.KeyThumbprint != pinned.KeyThumbprint {
		return refusal.New(refusal.WrongCluster, "intended for an agent with key %s, but this agent has key %s",
			trust.ShortThumbprint(audience.KeyThumbprint), trust.ShortThumbprint(pinned.KeyThumbprint))
	}
	return nil
}

func checkEpoch(epoch, root int64) *refusal.Error {
	if epoch != root {
		return refusal.New(refusal.WrongEpoch, "bundle has epoch %d, but the root has epoch %d", epoch, root)
	}
	return nil
}

func checkRootTime(root trust.Root, clock time.Time) *refusal.Error {
	if !clock.Before(root.Expires) {
		return refusal.New(refusal.RootExpired,
			"root of trust version %d expired at %s: sign a new version with `kcp-publisher keys rotate`", root.Version,
			formatTime(root.Expires))
	}
	return nil
}

func checkTime(p Predicate, clock time.Time, skew time.Duration) *refusal.Error {
	if p.IssuedAt.IsZero() || !p.ExpiresAt.After(p.IssuedAt) {
		return refusal.New(refusal.Malformed, "issuedAt %s is not before expiresAt %s", formatTime(p.IssuedAt),
			formatTime(p.ExpiresAt))
	}
	if !clock.Before(p.ExpiresAt) {
		return refusal.New(refusal.Expired,
			"expired at %s, %s before the time of this clock (%s): correct the clock if it is wrong",
			formatTime(p.ExpiresAt), clock.Sub(p.ExpiresAt).Round(time.Second), formatTime(clock))
	}
	if p.IssuedAt.After(clock.Add(cmp.Or(skew, trust.MaxClockSkew))) {
		return refusal.New(refusal.NotYetIssued,
			"issued at %s, %s ahead of this clock (%s): check the clocks of both sides and correct the wrong one",
			formatTime(p.IssuedAt), p.IssuedAt.Sub(clock).Round(time.Second), formatTime(clock))
	}
	return nil
}

func checkSequence(p Predicate, d, statement digest.Digest, last Accepted) *refusal.Error {
	switch {
	case p.Sequence < 1:
		return refusal.New(refusal.Malformed, "sequence %d is not positive", p.Sequence)
	case p.Sequence < last.Sequence:
		return refusal.New(refusal.Rollback, "sequence %d is older than the accepted sequence %d", p.Sequence,
			last.Sequence)
	case p.Sequence == last.Sequence && d != last.Digest && statement != last.Statement:
		return refusal.New(refusal.Equivocation,
			"sequence %d was accepted with digest %s, but this bundle has digest %s", p.Sequence, last.Digest, d)
	}
	return nil
}

func checkSubjects(subjects []Subject, manifest ocispec.Manifest) *refusal.Error {
	want := append([]ocispec.Descriptor{manifest.Config}, manifest.Layers...)
	if len(subjects) != len(want) {
		return refusal.New(refusal.WrongDigest, "the statement covers %d blobs, but the manifest has %d", len(subjects),
			len(want))
	}
	for i, descriptor := range want {
		if signed := subjects[i].digest(); signed != descriptor.Digest || signed.Validate() != nil {
			return refusal.New(refusal.WrongDigest,
				"%s has digest %q, but the signed digest is %q; must be the same sha256", blobName(i),
				descriptor.Digest, signed)
		}
	}
	return nil
}

func latestTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
