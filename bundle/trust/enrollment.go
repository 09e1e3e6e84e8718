package trust

import (
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TokenSecret is a secret from which the control plane derives enrollment tokens.
type TokenSecret []byte

// TokenSecrets are a fleet's token secrets, newest first. The control plane accepts tokens from all of them.
type TokenSecrets []TokenSecret

var errNoTokenSecret = errors.New("the token secret is missing")

// Issue derives an enrollment token for a runtime from the newest secret. The token does not contain a Kyma.
func (s TokenSecrets) Issue(runtime string, expires time.Time) (Token, error) {
	return s.IssueFor(Kyma{}, runtime, expires)
}

// IssueFor derives an enrollment token from the newest secret. The token is valid only for this runtime and this Kyma.
func (s TokenSecrets) IssueFor(kyma Kyma, runtime string, expires time.Time) (Token, error) {
	if len(s) == 0 {
		return Token{}, errNoTokenSecret
	}
	return s[0].IssueFor(kyma, runtime, expires)
}

// Check returns nil if an agent created the enrollment with a valid token for this runtime and Kyma. The token can be
// derived from any of the secrets. If the token contains a UID, it must be the Kyma's UID. If the token contains no
// Kyma, the Kyma must have the same name as the runtime.
func (s TokenSecrets) Check(kyma Kyma, runtime string, e Enrollment, now time.Time) error {
	named := []Kyma{kyma, {Namespace: kyma.Namespace, Name: kyma.Name}}
	if kyma.Namespace == "" { // a Kyma in a file can have no namespace
		named = append(named, Kyma{Namespace: DefaultKymaNamespace, Name: kyma.Name})
	}
	if kyma.Name == runtime {
		named = append(named, Kyma{})
	}
	for _, secret := range s {
		for _, one := range named {
			if err := secret.check(one, runtime, e, now); !errors.Is(err, errNoProof) {
				return err
			}
		}
	}
	return fmt.Errorf("%w of runtime %s for Kyma %s: run `kcp-publisher enroll %s --kyma %s`", errNoProof, runtime,
		kyma, runtime, named[1])
}

var errNoProof = errors.New("the enrollment proof does not match any enrollment token")

// HandOver returns a proof that an operator assigned a runtime to a Kyma at the given time. The proof contains the
// Kyma's UID, so it is not valid for another Kyma with the same name.
func (s TokenSecrets) HandOver(kyma Kyma, runtime string, at time.Time) (string, error) {
	if len(s) == 0 {
		return "", errNoTokenSecret
	}
	if err := kyma.Check(); err != nil || kyma.UID == "" {
		return "", errors.Join(err, fmt.Errorf("Kyma %s: a handover requires the Kyma's name and UID", kyma))
	}
	return s[0].handOver(kyma, runtime, at.UnixMilli()), nil
}

// CheckHandOver verifies a proof that HandOver returned, and returns the time of the assignment.
func (s TokenSecrets) CheckHandOver(kyma Kyma, runtime, proof string) (time.Time, error) {
	parts := strings.Split(proof, ".")
	if len(parts) != 3 || parts[0] != handOverPrefix || kyma.UID == "" {
		return time.Time{}, fmt.Errorf("handover: must have the format %s.<time>.<code>", handOverPrefix)
	}
	at, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("handover: time: %w", err)
	}
	for _, secret := range s {
		if hmac.Equal([]byte(secret.handOver(kyma, runtime, at)), []byte(proof)) {
			return time.UnixMilli(at), nil
		}
	}
	return time.Time{},
		fmt.Errorf("handover: the proof is not for runtime %s and Kyma %s: run `kcp-publisher move` again", runtime,
			kyma)
}

func (s TokenSecret) handOver(kyma Kyma, runtime string, at int64) string {
	when := strconv.FormatInt(at, 10)
	code := authenticationCode(s, "kyma-pull hand-over v1", runtime, kyma.Namespace, kyma.Name, kyma.UID, when)
	return strings.Join([]string{handOverPrefix, when, base64.RawURLEncoding.EncodeToString(code)}, ".")
}

// Token allows one runtime's agent to enroll one key. The runtime's bootstrap Secret contains the token.
type Token struct {
	Expires time.Time
	mac     []byte
}

const (
	tokenPrefix    = "kpt1"
	handOverPrefix = "kph1"
	minTokenSecret = 32
)

// ID returns an identifier for the secret that does not reveal the secret.
func (s TokenSecret) ID() string {
	return hex.EncodeToString(authenticationCode(s, "kyma-pull token secret id v1"))[:16]
}

// Issue derives an enrollment token that does not contain a Kyma.
func (s TokenSecret) Issue(runtime string, expires time.Time) (Token, error) {
	return s.IssueFor(Kyma{}, runtime, expires)
}

// IssueFor derives a runtime's enrollment token for the given Kyma.
func (s TokenSecret) IssueFor(kyma Kyma, runtime string, expires time.Time) (Token, error) {
	if len(s) < minTokenSecret {
		return Token{}, fmt.Errorf("token secret: %d bytes, must be at least %d", len(s), minTokenSecret)
	}
	if err := kyma.Check(); err != nil {
		return Token{}, fmt.Errorf("Kyma %s: %w", kyma, err)
	}
	expires = time.Unix(expires.Unix(), 0)
	parts := []string{"kyma-pull token v1", runtime, strconv.FormatInt(expires.Unix(), 10)}
	if !kyma.IsZero() {
		parts = []string{
			"kyma-pull token v2",
			runtime,
			strconv.FormatInt(expires.Unix(), 10),
			kyma.Namespace,
			kyma.Name,
			kyma.UID,
		}
	}
	return Token{Expires: expires, mac: authenticationCode(s, parts...)}, nil
}

// Enrollment contains the agent's public key and a proof that the agent has a valid token.
type Enrollment struct {
	// PublicKey is the key in PKIX form, encoded as base64.
	PublicKey string `json:"publicKey"`
	// Proof is the result of Token.Prove.
	Proof []byte `json:"proof"`
	// TokenExpires is the expiry of the token in Unix seconds.
	TokenExpires int64 `json:"tokenExpires"`
}

func (s TokenSecret) check(kyma Kyma, runtime string, e Enrollment, now time.Time) error {
	token, err := s.IssueFor(kyma, runtime, time.Unix(e.TokenExpires, 0))
	if err != nil {
		return err
	}
	key, err := DecodePublicKey(e.PublicKey)
	if err != nil {
		return err
	}
	proof, err := token.Prove(runtime, key)
	if err != nil {
		return err
	}
	if !hmac.Equal(proof, e.Proof) {
		return errNoProof
	}
	if !now.Before(token.Expires) {
		return fmt.Errorf("the token expired at %s: run `kcp-publisher enroll` again",
			token.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// Prove returns a proof that the token's owner enrolls this key. The proof does not reveal the token.
func (t Token) Prove(runtime string, key crypto.PublicKey) ([]byte, error) {
	thumbprint, err := Thumbprint(key)
	if err != nil {
		return nil, err
	}
	return authenticationCode(t.mac, "kyma-pull enrolment v1", runtime, thumbprint), nil
}

// String returns the token as text. The text is a secret.
func (t Token) String() string {
	return strings.Join([]string{tokenPrefix, strconv.FormatInt(t.Expires.Unix(), 10),
		base64.RawURLEncoding.EncodeToString(t.mac)}, ".")
}

// ParseToken parses a token that Token.String returned.
func ParseToken(text string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 3 || parts[0] != tokenPrefix {
		return Token{}, fmt.Errorf("enrollment token: must have the form %s.<time>.<code>", tokenPrefix)
	}
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("enrollment token: time: %w", err)
	}
	mac, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(mac) != sha256.Size {
		return Token{}, errors.New("enrollment token: the code is damaged")
	}
	return Token{Expires: time.Unix(seconds, 0), mac: mac}, nil
}

// authenticationCode returns the HMAC of the parts. Line feeds separate the parts. The parts themselves do not contain
// line feeds.
func authenticationCode(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(parts, "\n")))
	return mac.Sum(nil)
}
