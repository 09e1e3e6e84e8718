package pull

import (
	"bytes"
	"crypto"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// signaturePrefix is the prefix in a saved state's signed text. The prefix ensures that a signature for another purpose
// is not valid for a state, although it is made with the same key.
const signaturePrefix = "kyma-pull agent state v1\n"

// signedText returns the text that the agent signs for a saved state. It omits the sequence of the last report, which
// changes with each report.
func signedText(state map[string][]byte) ([]byte, error) {
	signed := maps.Clone(state)
	delete(signed, signatureKey)
	delete(signed, stateReported)
	text, err := json.Marshal(signed)
	return append([]byte(signaturePrefix), text...), err
}

// signState adds the signature to a state.
func (p *Puller) signState(state map[string][]byte) error {
	if p.Key == nil {
		return nil
	}
	text, err := signedText(state)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, p.signedState) {
		signature, err := p.Key.SignMessage(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		p.signedState, p.stateSignature = text, signature
	}
	state[signatureKey] = p.stateSignature
	return nil
}

// checkSignature returns the signed text of a state, and whether its signature was made with the given key.
func checkSignature(key crypto.PublicKey, state map[string][]byte) (signed bool, text []byte, err error) {
	text, err = signedText(state)
	return err == nil && trust.CheckSignature(key, text, state[signatureKey]), text, err
}

// requireSignature returns a refusal if a state is not signed with the agent's key.
func (p *Puller) requireSignature(state map[string][]byte) error {
	if p.Key == nil {
		return p.unsignedError()
	}
	key, err := p.Key.PublicKey()
	if err != nil {
		return err
	}
	signed, text, err := checkSignature(key, state)
	if err != nil {
		return err
	}
	if !signed {
		return p.unsignedError()
	}
	p.signedState, p.stateSignature = text, state[signatureKey]
	return nil
}

func (p *Puller) unsignedError() error {
	return refusal.New(refusal.BadSignature, "Secret %s/%s is not signed with the key of this agent: the agent reads "+
		"the newest bundle and root of trust from the registry again", p.Namespace, StateSecret)
}
