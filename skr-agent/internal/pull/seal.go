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

// sealedAs is the prefix of the signed text of a saved state. The prefix ensures that a signature for another purpose
// is not valid for a state, although it is made with the same key.
const sealedAs = "kyma-pull agent state v1\n"

// sealedText returns the text of a saved state that the agent signs. It omits the sequence of the last report, which
// changes with each report.
func sealedText(state map[string][]byte) ([]byte, error) {
	signed := maps.Clone(state)
	delete(signed, stateSignature)
	delete(signed, stateReported)
	text, err := json.Marshal(signed)
	return append([]byte(sealedAs), text...), err
}

// sign adds the signature to a state.
func (p *Puller) sign(state map[string][]byte) error {
	if p.Key == nil {
		return nil
	}
	text, err := sealedText(state)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, p.sealed) {
		signature, err := p.Key.SignMessage(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		p.sealed, p.seal = text, signature
	}
	state[stateSignature] = p.seal
	return nil
}

// checkSeal returns the signed text of a state, and whether its signature was made with the given key.
func checkSeal(key crypto.PublicKey, state map[string][]byte) (signed bool, text []byte, err error) {
	text, err = sealedText(state)
	return err == nil && trust.CheckSignature(key, text, state[stateSignature]), text, err
}

// requireSeal returns a refusal if a state is not signed with the agent's key.
func (p *Puller) requireSeal(state map[string][]byte) error {
	if p.Key == nil {
		return p.unsigned()
	}
	key, err := p.Key.PublicKey()
	if err != nil {
		return err
	}
	signed, text, err := checkSeal(key, state)
	if err != nil {
		return err
	}
	if !signed {
		return p.unsigned()
	}
	p.sealed, p.seal = text, state[stateSignature]
	return nil
}

func (p *Puller) unsigned() error {
	return refusal.New(refusal.BadSignature, "Secret %s/%s is not signed with the key of this agent: the agent reads "+
		"the newest bundle and root of trust from the registry again", p.Namespace, StateSecret)
}
