// Package oracle compares the project's verifier with sigstore-go for every attestation that package bundle writes.
// It is a separate module, so the project does not depend on sigstore-go.
package oracle

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

const runtime = "r-17"

var issued = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testCase is an attestation for the project's verifier and for sigstore-go.
type testCase struct {
	attestation []byte
	// artifact is the blob that the attestation describes. Both verifiers trust only key.
	artifact []byte
	key      crypto.PublicKey
	// ours verifies the attestation with the project's verifier.
	ours func(attestation []byte, key crypto.PublicKey) error
}

// written returns all attestations that package bundle writes: bundles and reports, each signed with every kind of key.
func written(t *testing.T) map[string]testCase {
	t.Helper()
	found := map[string]testCase{}
	for name, signer := range signers(t) {
		key, err := signer.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		documents := documents(t)
		for i, blob := range [][]byte{documents.State.Bytes, documents.Catalog.Bytes} {
			found[fmt.Sprintf("bundle signed with %s, blob %d", name, i)] = testCase{
				attestation: annotation(t, composed(t, documents, signer), bundle.AnnotationAttestation),
				artifact:    blob, key: key, ours: verifyBundle(t, documents, signer),
			}
		}
		manifest := composed(t, documents, signer)
		found["report about a bundle signed with "+name] = testCase{
			attestation: annotation(t, report(t, &manifest, signer), bundle.AnnotationReport), artifact: manifest.Bytes,
			key: key, ours: verifyReport(t, &manifest, signer),
		}
		found["first report signed with "+name] = testCase{
			attestation: annotation(t, report(t, nil, signer), bundle.AnnotationReport), artifact: []byte("{}"),
			key: key, ours: verifyReport(t, nil, signer),
		}
	}
	return found
}

func TestBothVerifiersAcceptOurAttestations(t *testing.T) {
	for name, j := range written(t) {
		t.Run(name, func(t *testing.T) {
			statement, err := theirs(j)
			if err != nil {
				t.Fatalf("sigstore-go: %v", err)
			}
			if !slices.Contains([]string{bundle.PredicateDesiredState, bundle.PredicateReport}, statement) {
				t.Errorf("sigstore-go reads predicate type %q", statement)
			}
			if err := j.ours(j.attestation, j.key); err != nil {
				t.Errorf("ours: %v", err)
			}
		})
	}
}

func TestBothVerifiersRejectChangedAttestations(t *testing.T) {
	other, err := keyPair(t, elliptic.P256()).PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, j := range written(t) {
		for _, c := range []struct {
			name   string
			change func(*testing.T, *envelope)
		}{
			{"first bit of the payload flipped", func(_ *testing.T, e *envelope) { e.DSSE.Payload[0] ^= 1 }},
			{
				"bit in the middle of the payload flipped", func(_ *testing.T, e *envelope) {
					e.DSSE.Payload[len(e.DSSE.Payload)/2] ^= 1
				},
			},
			{
				"last bit of the payload flipped", func(_ *testing.T, e *envelope) {
					e.DSSE.Payload[len(e.DSSE.Payload)-1] ^= 0x80
				},
			},
			{
				"bit of the signature flipped", func(_ *testing.T, e *envelope) {
					e.DSSE.Signatures[0].Sig[len(e.DSSE.Signatures[0].Sig)-1] ^= 1
				},
			},
			{"empty signature", func(_ *testing.T, e *envelope) { e.DSSE.Signatures[0].Sig = nil }},
			{
				"two signatures", func(_ *testing.T, e *envelope) {
					e.DSSE.Signatures = append(e.DSSE.Signatures, e.DSSE.Signatures[0])
				},
			},
			{"no signature", func(_ *testing.T, e *envelope) { e.DSSE.Signatures = nil }},
			{
				"another payload type", func(_ *testing.T, e *envelope) {
					e.DSSE.PayloadType = "application/json"
				},
			},
			{"empty payload", func(_ *testing.T, e *envelope) { e.DSSE.Payload = nil }},
			{
				"another bundle version", func(_ *testing.T, e *envelope) {
					e.MediaType = "application/vnd.dev.sigstore.bundle.v9.9+json"
				},
			},
			{
				"hint for another key", func(t *testing.T, e *envelope) {
					e.Material.PublicKey.Hint = thumbprint(t, other)
				},
			},
		} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				var e envelope
				if err := json.Unmarshal(j.attestation, &e); err != nil {
					t.Fatal(err)
				}
				c.change(t, &e)
				changed := j
				changed.attestation = marshal(t, e)
				wantBothRefuse(t, changed)
			})
		}
		t.Run(name+", verified with another key", func(t *testing.T) {
			changed := j
			changed.key = other
			wantBothRefuse(t, changed)
		})
		t.Run(name+", about another blob", func(t *testing.T) {
			changed := j
			changed.artifact = append(slices.Clone(j.artifact), '\n')
			if _, err := theirs(changed); err == nil {
				t.Error("sigstore-go accepts the attestation")
			}
		})
	}
}

// The ECDSA signatures (r, s) and (r, n-s) are equivalent. Code must not identify an attestation by its signature.
func TestBothVerifiersAcceptEquivalentECDSASignature(t *testing.T) {
	for name, j := range written(t) {
		key, ok := j.key.(*ecdsa.PublicKey)
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var e envelope
			if err := json.Unmarshal(j.attestation, &e); err != nil {
				t.Fatal(err)
			}
			e.DSSE.Signatures[0].Sig = otherForm(t, key, e.DSSE.Signatures[0].Sig)
			changed := j
			changed.attestation = marshal(t, e)
			if _, err := theirs(changed); err != nil {
				t.Errorf("sigstore-go: %v", err)
			}
			if err := j.ours(changed.attestation, j.key); err != nil {
				t.Errorf("ours: %v", err)
			}
		})
	}
}

func wantBothRefuse(t *testing.T, j testCase) {
	t.Helper()
	if _, err := theirs(j); err == nil {
		t.Error("sigstore-go accepts the attestation")
	}
	if err := j.ours(j.attestation, j.key); refusal.Of(err) == nil {
		t.Errorf("the project's verifier returned error %v, want a refusal", err)
	}
}

// theirs verifies an attestation with sigstore-go and returns its predicate type.
func theirs(j testCase) (string, error) {
	var read sigbundle.Bundle
	if err := read.UnmarshalJSON(j.attestation); err != nil {
		return "", err
	}
	hint, err := trust.Thumbprint(j.key)
	if err != nil {
		return "", err
	}
	verifier, err := signature.LoadDefaultVerifier(j.key)
	if err != nil {
		return "", err
	}
	material := root.NewTrustedPublicKeyMaterialFromMapping(map[string]*root.ExpiringKey{
		hint: root.NewExpiringKey(verifier, time.Time{}, time.Time{}),
	})
	trusting, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(j.artifact)
	result, err := trusting.Verify(&read,
		verify.NewPolicy(verify.WithArtifactDigest("sha256", sum[:]), verify.WithKey()))
	if err != nil {
		return "", err
	}
	return result.Statement.PredicateType, nil
}

// envelope is a decoded sigstore bundle that tests can change.
type envelope struct {
	MediaType string `json:"mediaType"`
	Material  struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	DSSE struct {
		Payload     []byte       `json:"payload"`
		PayloadType string       `json:"payloadType"`
		Signatures  []signedPart `json:"signatures"`
	} `json:"dsseEnvelope"`
}

type signedPart struct {
	Sig []byte `json:"sig"`
}

// signers returns a signer for every kind of key.
func signers(t *testing.T) map[string]trust.Signer {
	t.Helper()
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edwards, err := signature.LoadED25519Signer(secret)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]trust.Signer{
		"a P-256 key": keyPair(t, elliptic.P256()), "another P-256 key": keyPair(t, elliptic.P256()),
		"an Ed25519 key": edwards,
	}
}

func keyPair(t *testing.T, curve elliptic.Curve) trust.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signature.LoadECDSASigner(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func documents(t *testing.T) bundle.Documents {
	t.Helper()
	documents, err := bundle.NewDocuments(bundle.DesiredState{}, bundle.Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

func composed(t *testing.T, documents bundle.Documents, signer trust.Signer) bundle.Blob {
	t.Helper()
	manifest, err := bundle.Compose(documents, bundle.Predicate{
		Audience: bundle.Audience{Runtime: runtime}, Epoch: 1, Sequence: 7, IssuedAt: issued,
		ExpiresAt: issued.AddDate(0, 0, 7), RootVersion: 1,
		Removals: []string{"keda"},
	}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

func report(t *testing.T, about *bundle.Blob, signer trust.Signer) bundle.Blob {
	t.Helper()
	said := bundle.Report{Runtime: runtime, Sequence: 3, Time: issued, AgentVersion: "v1.2.3"}
	if about != nil {
		said.Observed = &bundle.Observed{Epoch: 1, Sequence: 7, Digest: about.Descriptor.Digest}
	}
	manifest, err := bundle.ComposeReport(said, signer)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

func verifyBundle(t *testing.T, documents bundle.Documents, signer trust.Signer) func([]byte, crypto.PublicKey) error {
	return func(attestation []byte, key crypto.PublicKey) error {
		data, err := trusttest.NewRoot(keyPair(t, elliptic.P256()), []crypto.PublicKey{key}, issued.AddDate(1, 0, 0))
		if err != nil {
			return err
		}
		trusted, err := trust.ParseRoot(data)
		if err != nil {
			return err
		}
		fetched := carrying(t, composed(t, documents, signer), bundle.AnnotationAttestation, attestation)
		_, err = bundle.Verify(fetched, bundle.Trust{Root: trusted, Runtime: runtime}, issued.Add(time.Hour))
		return err
	}
}

func verifyReport(t *testing.T, about *bundle.Blob, signer trust.Signer) func([]byte, crypto.PublicKey) error {
	return func(attestation []byte, key crypto.PublicKey) error {
		fetched := carrying(t, report(t, about, signer), bundle.AnnotationReport, attestation)
		_, err := bundle.VerifyReport(fetched, bundle.Reporter{Runtime: runtime, Key: key})
		return err
	}
}

// carrying returns a copy of the manifest with the given attestation in an annotation.
func carrying(t *testing.T, manifest bundle.Blob, annotation string, attestation []byte) bundle.Fetched {
	t.Helper()
	var shape ocispec.Manifest
	if err := json.Unmarshal(manifest.Bytes, &shape); err != nil {
		t.Fatal(err)
	}
	shape.Annotations[annotation] = string(attestation)
	return bundle.Fetched(bundle.NewBlob(ocispec.MediaTypeImageManifest, marshal(t, shape)))
}

func annotation(t *testing.T, manifest bundle.Blob, name string) []byte {
	t.Helper()
	var shape ocispec.Manifest
	if err := json.Unmarshal(manifest.Bytes, &shape); err != nil {
		t.Fatal(err)
	}
	return []byte(shape.Annotations[name])
}

func thumbprint(t *testing.T, key crypto.PublicKey) string {
	t.Helper()
	hint, err := trust.Thumbprint(key)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.StdEncoding.DecodeString(hint); err != nil || len(raw) != sha256.Size {
		t.Fatalf("thumbprint %q is not a SHA-256 digest", hint)
	}
	return hint
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(data)
}

// otherForm returns the signature (r, n-s), which is equivalent to the signature (r, s).
func otherForm(t *testing.T, key *ecdsa.PublicKey, sig []byte) []byte {
	t.Helper()
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(sig, &parts); err != nil {
		t.Fatal(err)
	}
	parts.S = new(big.Int).Sub(key.Params().N, parts.S)
	changed, err := asn1.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}
