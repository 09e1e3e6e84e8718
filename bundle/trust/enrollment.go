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

// TokenSecret is the control plane's secret that enrollment tokens are derived from, so that none need be stored.
type TokenSecret []byte

// TokenSecrets are a fleet's secrets, the newest first. It derives what is new; what the others derived counts as well,
// so that a secret can be replaced while what was derived from it is in use.
type TokenSecrets []TokenSecret

// Issue derives the token of a runtime from the newest secret.
func (s TokenSecrets) Issue(runtime string, expires time.Time) (Token, error) {
	if len(s) == 0 {
		return Token{}, errors.New("there is no token secret")
	}
	return s[0].Issue(runtime, expires)
}

// Check reports whether the enrollment proves that its maker held a token of the runtime that is still good, of any of
// the secrets.
func (s TokenSecrets) Check(runtime string, e Enrollment, now time.Time) error {
	err := errNoProof
	for _, secret := range s {
		if err = secret.Check(runtime, e, now); !errors.Is(err, errNoProof) {
			return err
		}
	}
	return err
}

// errNoProof says that the proof was made with no token of a secret.
var errNoProof = errors.New("the proof was not made with a token of this runtime: run `kcp-publisher enroll` again")

// Token lets one runtime introduce one key. Its text form goes into the runtime's bootstrap Secret.
type Token struct {
	Expires time.Time
	mac     []byte
}

const (
	tokenPrefix    = "kpt1"
	minTokenSecret = 32
)

// ID names the secret without revealing it.
func (s TokenSecret) ID() string {
	return hex.EncodeToString(authenticationCode(s, "kyma-pull token secret id v1"))[:16]
}

// Issue derives the token of a runtime.
func (s TokenSecret) Issue(runtime string, expires time.Time) (Token, error) {
	if len(s) < minTokenSecret {
		return Token{}, fmt.Errorf("token secret: %d bytes, want at least %d", len(s), minTokenSecret)
	}
	expires = time.Unix(expires.Unix(), 0)
	return Token{Expires: expires, mac: authenticationCode(s, "kyma-pull token v1", runtime, strconv.FormatInt(expires.Unix(), 10))}, nil
}

// Enrollment introduces the runtime's key.
type Enrollment struct {
	// PublicKey is base64 of the PKIX form.
	PublicKey string `json:"publicKey"`
	// Proof is that the runtime held the token; see Token.Prove.
	Proof []byte `json:"proof"`
	// TokenExpires tells the control plane which token it was, Unix seconds.
	TokenExpires int64 `json:"tokenExpires"`
}

// Check reports whether the enrollment proves that its maker held a token of the runtime that is still good.
func (s TokenSecret) Check(runtime string, e Enrollment, now time.Time) error {
	token, err := s.Issue(runtime, time.Unix(e.TokenExpires, 0))
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
		return fmt.Errorf("the token expired at %s: run `kcp-publisher enroll` again", token.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// Prove binds a key to the token without revealing it.
func (t Token) Prove(runtime string, key crypto.PublicKey) ([]byte, error) {
	thumbprint, err := Thumbprint(key)
	if err != nil {
		return nil, err
	}
	return authenticationCode(t.mac, "kyma-pull enrolment v1", runtime, thumbprint), nil
}

// String is the token's text form; it is a secret.
func (t Token) String() string {
	return strings.Join([]string{tokenPrefix, strconv.FormatInt(t.Expires.Unix(), 10), base64.RawURLEncoding.EncodeToString(t.mac)}, ".")
}

// ParseToken reads what String wrote.
func ParseToken(text string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 3 || parts[0] != tokenPrefix {
		return Token{}, fmt.Errorf("enrollment token: want the form %s.<time>.<code>", tokenPrefix)
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

// authenticationCode is an HMAC over parts that cannot run into each other, because none holds a line feed.
func authenticationCode(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(parts, "\n")))
	return mac.Sum(nil)
}
