package bundle

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestBundlesSignedWithRevokedKeysAreRefused(t *testing.T) {
	m := trusttest.NewRootFixture(t)
	first, replacement := m.First(), trusttest.NewSigner(t)
	second, err := first.Next(m.After(first, func(d *trust.RootDraft) {
		m.Must(d.Revoke(trusttest.Thumbprint(t, m.Publisher)))
		m.Must(d.Add(trust.RolePublisher, trusttest.PublicKey(t, replacement)))
	}, m.Keys...))
	m.Must(err)
	a := attemptBy(t, m.Publisher)
	a.trust.Root = first
	fetched := a.fetched(t)
	if _, err := Verify(fetched, a.trust, a.now); err != nil {
		t.Fatal(err)
	}
	a.trust.Root = second
	_, err = Verify(fetched, a.trust, a.now)
	trusttest.WantReason(t, err, refusal.UnknownKey)
	if _, err := Adopt(fetched, trusttest.Runtime, second, first); refusal.Of(err) == nil {
		t.Error("adopted a bundle of a revoked key, want a refusal")
	}
	if _, err := Adopt(fetched, trusttest.Runtime, first); err != nil {
		t.Errorf("bundle of the former root: got error %v, want no error", err)
	}
}
