package publish

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// TestCachedCertificateCheckEqualsAFreshCheck compares each result with the result of a check without a cache.
func TestCachedCertificateCheckEqualsAFreshCheck(t *testing.T) {
	m, enroll, agent, other := trusttest.NewMaker(t), trusttest.NewSigner(t), trusttest.NewSigner(t),
		trusttest.NewSigner(t)
	begun := trusttest.Now
	parse := func(data []byte) trust.Root {
		t.Helper()
		root, err := trust.ParseRoot(data)
		must(t, err)
		return root
	}
	listed := parse(
		m.After(m.First(),
			func(d *trust.RootDraft) {
				must(t, d.Add(trust.RoleEnroll, trusttest.PublicKey(t, enroll)))
			}, m.Keys[:2]...))
	unlisted := parse(
		m.After(listed,
			func(d *trust.RootDraft) {
				must(t, d.Remove(trust.RoleEnroll, trusttest.Thumbprint(t, enroll)))
			}, m.Keys[:2]...))
	issue := func(runtime string, key trust.Signer) string {
		t.Helper()
		text, err := trust.IssueCertificate(enroll, listed.Fleet, runtime, trust.Kyma{}, trusttest.PublicKey(t, key),
			begun, begun.Add(time.Hour))
		must(t, err)
		return text
	}
	first, second := issue("one", agent), issue("one", other)
	now, later := &Keys{Root: listed}, &Keys{Root: unlisted}
	remembered := &checkedCertificate{}
	for _, c := range []struct {
		what    string
		keys    *Keys
		text    string
		runtime string
		at      time.Time
		good    bool
	}{
		{"the first look", now, first, "one", begun, true},
		{"the next look", now, first, "one", begun.Add(time.Minute), true},
		{"it was renewed with another key", now, second, "one", begun.Add(time.Minute), true},
		{"it is over", now, second, "one", begun.Add(time.Hour), false},
		{"it has not begun", now, second, "one", begun.Add(-trust.MaxClockSkew - time.Second), false},
		{"another runtime shows it", now, second, "two", begun.Add(time.Minute), false},
		{"who issued it is listed no more", later, second, "one", begun.Add(time.Minute), false},
		{"and is listed again", now, second, "one", begun.Add(time.Minute), true},
		{"no certificate", now, "", "one", begun, false},
	} {
		want, wrong := c.keys.Root.CheckCertificate(c.text, c.runtime, c.at)
		got, err := remembered.check(c.keys, c.text, c.runtime, c.at)
		if (err == nil) != c.good || (wrong == nil) != c.good || got.Thumbprint != want.Thumbprint ||
			!got.RenewAt().Equal(want.RenewAt()) {
			t.Errorf("%s: got %+v, %v, and anew %+v, %v", c.what, got, err, want, wrong)
		}
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = remembered.check(now, second, "one", begun) }); n > 0 {
		t.Errorf("a certificate that was checked costs %v allocations", n)
	}
}

func TestReloadedKeysKeepTheCertificate(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	inUse := p.keys.Load()
	same := *inUse
	replaced, err := p.TakeUp(t.Context(), same)
	must(t, err)
	if replaced || p.keys.Load() != inUse {
		t.Error("the same keys took the place of those in use, and each certificate is checked again")
	}
	same.Former = append(same.Former, same.Root)
	_, err = p.TakeUp(t.Context(), same)
	must(t, err)
	if p.keys.Load() == inUse {
		t.Error("an older root that was found since is not in use")
	}
}
