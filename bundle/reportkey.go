package bundle

import (
	"crypto"
	"encoding/json"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// reportKey returns the key that must have signed the report. This is the enrolled key, or a new key from the report's
// enrollment or certificate. The payload is not authenticated yet. Reading the new key from it is safe, because an
// enrollment must prove that the agent has the token, and only the control plane issues certificates.
func reportKey(signed attestation, from Reporter) (crypto.PublicKey, bool, *refusal.Error) {
	hint := signed.VerificationMaterial.PublicKey.Hint
	if from.Revoked != nil && from.Revoked(hint) {
		return nil, false,
			refusal.New(refusal.Revoked,
				"signed with key %s, which is revoked: delete the agent's key and enroll it again",
				trust.ShortThumbprint(hint))
	}
	if from.Key != nil {
		known, err := trust.Thumbprint(from.Key)
		if err != nil {
			return nil, false, refusal.New(refusal.ForeignKey, "parse the enrolled key: %w", err)
		}
		if known == hint {
			return from.Key, false, nil
		}
	}
	var introduction struct {
		Predicate struct {
			Enrollment  *trust.Enrollment `json:"enrolment"`
			Certificate string            `json:"certificate"`
		} `json:"predicate"`
	}
	if err := checkJSON(signed.Envelope.Payload); err != nil {
		return nil, false, refusal.New(refusal.Malformed, "statement: %w", err)
	}
	if err := json.Unmarshal(signed.Envelope.Payload, &introduction); err != nil {
		return nil, false, refusal.New(refusal.Malformed, "statement: %w", err)
	}
	enrollment, certificate := introduction.Predicate.Enrollment, introduction.Predicate.Certificate
	if from.Key == nil && certificate != "" && from.Certified != nil {
		key, enrolled, refusal := certifiedKey(certificate, hint, from)
		if refusal == nil || enrollment == nil {
			return key, enrolled, refusal
		}
	}
	switch {
	case enrollment == nil && from.Key != nil:
		return nil, false,
			refusal.New(refusal.ForeignKey, "signed with key %s, which is not the runtime's key",
				trust.ShortThumbprint(hint))
	case enrollment == nil:
		return nil, false, refusal.New(
			refusal.NotEnrolled,
			"the runtime's key is unknown, and the report contains no valid enrollment or certificate: run "+
				"`kcp-publisher enroll %s` and apply its output in the runtime",
			from.Runtime,
		)
	}
	return introducedKey(*enrollment, hint, from)
}

func introducedKey(enrollment trust.Enrollment, hint string, from Reporter) (crypto.PublicKey, bool, *refusal.Error) {
	key, err := trust.DecodePublicKey(enrollment.PublicKey)
	if err != nil {
		return nil, false, refusal.New(refusal.Malformed, "enrollment: %w", err)
	}
	if introduced, err := trust.Thumbprint(key); err != nil || introduced != hint {
		return nil, false, refusal.New(refusal.ForeignKey, "enrolls a key other than the one that signed the report")
	}
	if from.Enroll == nil {
		return nil, false,
			refusal.New(refusal.ForeignKey, "enrolls key %s, but enrollments are not accepted here",
				trust.ShortThumbprint(hint))
	}
	if err := from.Enroll(enrollment); err != nil {
		return nil, false, refusal.New(refusal.NotEnrolled, "enrollment: %w", err)
	}
	return key, true, nil
}

func (from Reporter) isIntroduced(enrollment trust.Enrollment, key crypto.PublicKey) bool {
	encoded, err := trust.EncodePublicKey(key)
	return err == nil && encoded == enrollment.PublicKey && from.Enroll != nil && from.Enroll(enrollment) == nil
}

func certifiedKey(certificate, hint string, from Reporter) (crypto.PublicKey, bool, *refusal.Error) {
	key, err := from.Certified(certificate)
	if err != nil {
		return nil, false, refusal.New(refusal.NotEnrolled, "%w", err)
	}
	if certified, err := trust.Thumbprint(key); err != nil || certified != hint {
		return nil, false,
			refusal.New(refusal.ForeignKey,
				"contains a certificate for a key other than the one that signed the report")
	}
	return key, true, nil
}

// provenBy returns a function that calls enroll and stores the enrollment in proven if enroll accepts it.
func provenBy(enroll func(trust.Enrollment) error, proven **trust.Enrollment) func(trust.Enrollment) error {
	if enroll == nil {
		return nil
	}
	return func(e trust.Enrollment) error {
		err := enroll(e)
		if err == nil {
			*proven = &e
		}
		return err
	}
}
