package bundle

import (
	"bytes"
	"crypto"
	"encoding/json"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

const (
	// MediaTypeSigstoreBundle is the media type of a sigstore bundle v0.3.
	MediaTypeSigstoreBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	payloadTypeInToto       = "application/vnd.in-toto+json"
)

// attestation is the accepted subset of a sigstore bundle v0.3: a public key hint and a DSSE envelope with one
// signature.
//
// Source: sigstore protobuf-specs, sigstore_bundle.proto; DSSE v1.0.2, envelope.md.
type attestation struct {
	MediaType            string               `json:"mediaType"`
	VerificationMaterial verificationMaterial `json:"verificationMaterial"`
	Envelope             envelope             `json:"dsseEnvelope"`
}

type verificationMaterial struct {
	PublicKey publicKeyHint `json:"publicKey"`
}

type publicKeyHint struct {
	Hint string `json:"hint"`
}

type envelope struct {
	Payload     []byte         `json:"payload"`
	PayloadType string         `json:"payloadType"`
	Signatures  []envelopeSign `json:"signatures"`
}

type envelopeSign struct {
	Sig []byte `json:"sig"`
}

// attest signs the statement and returns the sigstore bundle as JSON.
func attest(statement any, signer trust.Signer) ([]byte, error) {
	return attestWithin(statement, signer, MaxAttestationBytes)
}

func attestWithin(statement any, signer trust.Signer, most int) ([]byte, error) {
	payload, err := json.Marshal(statement)
	if err != nil {
		return nil, err
	}
	public, err := signer.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read the signer's public key: %w", err)
	}
	hint, err := trust.Thumbprint(public)
	if err != nil {
		return nil, err
	}
	sig, err := signer.SignMessage(bytes.NewReader(preAuthEncoding(payload)))
	if err != nil {
		return nil, fmt.Errorf("sign statement: %w", err)
	}
	encoded, err := json.Marshal(attestation{
		MediaType:            MediaTypeSigstoreBundle,
		VerificationMaterial: verificationMaterial{PublicKey: publicKeyHint{Hint: hint}},
		Envelope: envelope{
			Payload: payload, PayloadType: payloadTypeInToto, Signatures: []envelopeSign{{Sig: sig}},
		},
	})
	if err != nil {
		return nil, err
	}
	if len(encoded) > most {
		return nil, fmt.Errorf("attestation is %d bytes, must be at most %d", len(encoded), most)
	}
	return encoded, nil
}

// readAttestation parses a bundle's attestation. It does not verify the signature, so the caller must not trust the
// payload.
func readAttestation(data []byte) (attestation, *refusal.Error) {
	return readAttestationWithin(data, MaxAttestationBytes)
}

func readAttestationWithin(data []byte, most int) (attestation, *refusal.Error) {
	var a attestation
	if len(data) == 0 {
		return a, refusal.New(refusal.Unsigned, "the attestation is missing")
	}
	if len(data) > most {
		return a, refusal.New(refusal.TooLarge, "attestation is %d bytes, must be at most %d", len(data), most)
	}
	if err := decodeStrict(data, &a); err != nil {
		return a, refusal.New(refusal.Malformed, "attestation: %w", err)
	}
	if a.MediaType != MediaTypeSigstoreBundle {
		return a,
			refusal.New(refusal.MediaType, "the attestation has media type %q, must be %q", a.MediaType,
				MediaTypeSigstoreBundle)
	}
	if a.Envelope.PayloadType != payloadTypeInToto {
		return a, refusal.New(refusal.MediaType, "the attestation has payload type %q, must be %q",
			a.Envelope.PayloadType, payloadTypeInToto)
	}
	if n := len(a.Envelope.Signatures); n != 1 {
		return a, refusal.New(refusal.Malformed, "attestation has %d signatures, must have exactly one", n)
	}
	return a, nil
}

// authenticate verifies the signature with the key and returns the payload.
func (a attestation) authenticate(key crypto.PublicKey) ([]byte, *refusal.Error) {
	if !trust.CheckSignature(key, preAuthEncoding(a.Envelope.Payload), a.Envelope.Signatures[0].Sig) {
		return nil,
			refusal.New(refusal.BadSignature, "the signature does not match key %s",
				a.VerificationMaterial.PublicKey.Hint)
	}
	return a.Envelope.Payload, nil
}

func preAuthEncoding(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadTypeInToto), payloadTypeInToto, len(payload), payload)
}
