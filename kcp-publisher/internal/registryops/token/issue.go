package token

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Validity is a token's lifetime. A revocation takes effect within this time.
const Validity = 5 * time.Minute

// Issuer signs tokens for one registry. Its key must have no other use, because some registries do not check the issuer
// and the audience.
type Issuer struct {
	// Name and Service are the issuer and the audience in the registry's configuration.
	Name, Service string
	signer        jose.Signer
	key           jose.JSONWebKey
}

// NewIssuer returns an Issuer that signs with key, which the registry must trust.
func NewIssuer(name, service string, key trust.Signer) (*Issuer, error) {
	private, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("registry key: %T cannot sign digests", key)
	}
	public := jose.JSONWebKey{Key: private.Public(), Algorithm: string(jose.ES256), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("registry key: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	opaque := cryptosigner.Opaque(private)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
		Key: jose.JSONWebKey{Key: opaque, KeyID: public.KeyID}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("registry key: %w", err)
	}
	return &Issuer{Name: name, Service: service, signer: signer, key: public}, nil
}

// KeySet returns the file that distribution reads as auth.token.jwks.
func (i *Issuer) KeySet() ([]byte, error) {
	return json.MarshalIndent(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key}}, "", "  ")
}

// sign returns a signed token for a user. The ID must be unique for each token.
func (i *Issuer) sign(user string, granted []Access, id string, now time.Time) (string, error) {
	if granted == nil {
		return "", errors.New("token: the list of permissions is missing, which a registry could treat as full access")
	}
	claims := struct {
		jwt.Claims
		Access []Access `json:"access"`
	}{jwt.Claims{
		Issuer: i.Name, Subject: user, Audience: jwt.Audience{i.Service}, ID: id,
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
		Expiry: jwt.NewNumericDate(now.Add(Validity)),
	}, granted}
	return jwt.Signed(i.signer).Claims(claims).Serialize()
}
