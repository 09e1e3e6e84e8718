package plan

import (
	"reflect"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestCertificateRenewalChangesOnlyTheValidity(t *testing.T) {
	issued := noon.Add(-time.Hour)
	last := &PublishedBundle{Digest: "sha256:a", Predicate: bundle.Predicate{
		Sequence: 7, Epoch: 1, RootVersion: 3, IssuedAt: issued, ExpiresAt: issued.Add(3 * time.Hour),
		Removals: []string{"keda"},
		Rollback: []bundle.Rollback{{Module: "istio", From: "2.0.0", To: "1.0.0"}}, KymaGeneration: 4, KymaUID: "u",
		Source: &bundle.Source{Commit: "c1"}, Certificate: "x",
	}}
	root, r := trust.Root{Epoch: 1, Version: 3},
		Runtime{RecordedBundle: &RecordedBundle{Epoch: 1, Sequence: 7, Digest: "sha256:a"}}
	for name, c := range map[string]struct {
		now    time.Time
		last   *PublishedBundle
		needed bool
	}{
		"bundle before a third of its validity": {noon.Add(-time.Second), last, false},
		"bundle after a third of its validity":  {noon, last, true},
		"bundle after its expiry":               {noon.Add(24 * time.Hour), last, true},
		"runtime without a bundle":              {noon, nil, false},
		"last bundle of a deleted Kyma": {noon, &PublishedBundle{Predicate: bundle.Predicate{
			Deleting: true, IssuedAt: issued, ExpiresAt: issued.Add(3 * time.Hour),
		}}, false},
	} {
		next, needed := RenewBundle(Adoption{LastBundle: c.last, MayKeep: c.last != nil, Sequence: 7}, r, root, 2*time.Hour,
			c.now)
		if needed != c.needed {
			t.Errorf("%s: got renewal due %t, want %t", name, needed, c.needed)
		}
		if !needed {
			continue
		}
		if next.Sequence <= 7 || !next.IssuedAt.Equal(c.now) || !next.ExpiresAt.Equal(c.now.Add(3*time.Hour)) ||
			next.Previous.Digest != "sha256:a" {
			t.Errorf("%s: got renewal %+v, want a later sequence, time and expiry", name, next)
		}
		next.Sequence, next.IssuedAt, next.ExpiresAt, next.Previous = 7, last.Predicate.IssuedAt,
			last.Predicate.ExpiresAt, nil
		if !reflect.DeepEqual(next, last.Predicate) {
			t.Errorf("%s: the renewal changes the statement\n%+v, want\n%+v", name, next, last.Predicate)
		}
	}
}
