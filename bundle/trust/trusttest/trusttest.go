// Package trusttest creates keys and roots of trust for tests.
package trusttest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Now is the current time in tests. Tests issue bundles one hour before Now, with a validity of one week.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// NewSigner returns a signer with a new random key.
func NewSigner(tb testing.TB) trust.Signer {
	tb.Helper()
	file, err := trust.GenerateKey()
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := trust.LoadSigner(file)
	if err != nil {
		tb.Fatal(err)
	}
	return signer
}

// FixedSigner returns a signer that always has the same key, so signatures from different test runs can be compared.
func FixedSigner(tb testing.TB) trust.Signer {
	tb.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), bytes.Repeat([]byte{1}, 32))
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := signature.LoadECDSASigner(key, crypto.SHA256)
	if err != nil {
		tb.Fatal(err)
	}
	return signer
}

// PublicKey returns a signer's public key.
func PublicKey(tb testing.TB, signer trust.Signer) crypto.PublicKey {
	tb.Helper()
	key, err := signer.PublicKey()
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// Thumbprint returns the thumbprint for a signer's key.
func Thumbprint(tb testing.TB, signer trust.Signer) string {
	tb.Helper()
	hint, err := trust.Thumbprint(PublicKey(tb, signer))
	if err != nil {
		tb.Fatal(err)
	}
	return hint
}

// RootFor returns a root of trust with one publisher key.
func RootFor(tb testing.TB, publisher trust.Signer) trust.Root {
	tb.Helper()
	data, err := NewRoot(NewSigner(tb), []crypto.PublicKey{PublicKey(tb, publisher)}, Now.AddDate(1, 0, 0))
	if err != nil {
		tb.Fatal(err)
	}
	root, err := trust.ParseRoot(data)
	if err != nil {
		tb.Fatal(err)
	}
	return root
}

// RootFixture creates root of trust versions for tests. The root of trust has three root keys, and two of them must
// sign each version.
type RootFixture struct {
	testing.TB
	Keys      []trust.Signer
	Publisher trust.Signer
}

// NewRootFixture returns a RootFixture with new keys.
func NewRootFixture(tb testing.TB) *RootFixture {
	tb.Helper()
	return &RootFixture{tb, []trust.Signer{NewSigner(tb), NewSigner(tb), NewSigner(tb)}, NewSigner(tb)}
}

// Must fails the test on an error.
func (m *RootFixture) Must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// First returns the first root of trust version.
func (m *RootFixture) First() trust.Root {
	m.Helper()
	draft := trust.DraftRoot("fleet-a", 1, Now.AddDate(1, 0, 0))
	for _, key := range m.Keys {
		m.Must(draft.Add(trust.RoleRoot, PublicKey(m, key)))
	}
	draft.SetThreshold(trust.RoleRoot, 2)
	m.Must(draft.Add(trust.RolePublisher, PublicKey(m, m.Publisher)))
	root, err := trust.ParseRoot(m.Signed(draft, m.Keys[:2]...))
	m.Must(err)
	return root
}

// Signed signs a draft with the given keys and returns its root.json.
func (m *RootFixture) Signed(draft *trust.RootDraft, signers ...trust.Signer) []byte {
	m.Helper()
	m.Must(draft.Sign(signers...))
	data, err := draft.Bytes()
	m.Must(err)
	return data
}

// After returns the root.json for the version after the given root. It calls the function change on a draft of this
// version and signs the draft with the given keys.
func (m *RootFixture) After(root trust.Root, change func(*trust.RootDraft), signers ...trust.Signer) []byte {
	m.Helper()
	draft, err := root.Draft(Now.AddDate(1, 0, 0))
	m.Must(err)
	change(draft)
	return m.Signed(draft, signers...)
}

// RSAKey returns a new RSA key, for use as a release key.
func RSAKey(tb testing.TB) *rsa.PrivateKey {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// NewRoot returns the first root of trust version, signed with its only root key.
func NewRoot(rootKey trust.Signer, publishers []crypto.PublicKey, expires time.Time) ([]byte, error) {
	draft := trust.DraftRoot("", 1, expires)
	public, err := rootKey.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read the root key: %w", err)
	}
	if err := draft.Add(trust.RoleRoot, public); err != nil {
		return nil, err
	}
	for _, key := range publishers {
		if err := draft.Add(trust.RolePublisher, key); err != nil {
			return nil, err
		}
	}
	if err := draft.Sign(rootKey); err != nil {
		return nil, err
	}
	return draft.Bytes()
}

// Nested returns a JSON document with empty arrays, nested to the given depth.
func Nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// WantReason fails the test unless err is a *refusal.Error with the given reason. If the reason is empty, err must be
// nil.
func WantReason(tb testing.TB, err error, want refusal.Reason) {
	tb.Helper()
	switch refusal := refusal.Of(err); {
	case want == "" && err != nil:
		tb.Errorf("got error %v, want no error", err)
	case want != "" && err == nil:
		tb.Errorf("got no error, want refusal reason %s", want)
	case want != "" && (refusal == nil || refusal.Reason != want):
		tb.Errorf("got error %v, want refusal reason %s", err, want)
	case want != "" && (refusal.Detail == "" || strings.Contains(refusal.Detail, "%!")):
		tb.Errorf("refusal has an empty or malformed detail %q", refusal.Detail)
	}
}

// Runtime is the runtime's ID in tests.
const Runtime = "r-17"

// NoChange is a function for RootFixture.After that does not modify the draft.
func NoChange(*trust.RootDraft) {}
