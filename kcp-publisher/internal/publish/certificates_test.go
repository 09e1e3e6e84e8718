package publish

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestCachedCertificateCheckEqualsUncachedCheck(t *testing.T) {
	m, enroll, agent, other := trusttest.NewRootFixture(t), trusttest.NewSigner(t), trusttest.NewSigner(t),
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
	remembered := &certificateCache{}
	for _, c := range []struct {
		what    string
		keys    *Keys
		text    string
		runtime string
		at      time.Time
		good    bool
	}{
		{"certificate checked for the first time", now, first, "one", begun, true},
		{"certificate checked again", now, first, "one", begun.Add(time.Minute), true},
		{"certificate for another key", now, second, "one", begun.Add(time.Minute), true},
		{"expired certificate", now, second, "one", begun.Add(time.Hour), false},
		{"certificate not valid yet", now, second, "one", begun.Add(-trust.MaxClockSkew - time.Second), false},
		{"certificate of another runtime", now, second, "two", begun.Add(time.Minute), false},
		{"root without the enrollment key", later, second, "one", begun.Add(time.Minute), false},
		{"root with the enrollment key again", now, second, "one", begun.Add(time.Minute), true},
		{"empty certificate", now, "", "one", begun, false},
	} {
		want, wrong := c.keys.Root.CheckCertificate(c.text, c.runtime, c.at)
		got, err := remembered.check(c.keys, c.text, c.runtime, c.at)
		if (err == nil) != c.good || (wrong == nil) != c.good || got.Thumbprint != want.Thumbprint ||
			!got.RenewAt().Equal(want.RenewAt()) {
			t.Errorf("%s: got %+v, %v, want %+v, %v", c.what, got, err, want, wrong)
		}
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = remembered.check(now, second, "one", begun) }); n > 0 {
		t.Errorf("cached check: got %v allocations, want 0", n)
	}
}

func TestUnchangedKeysAreNotReplaced(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	inUse := p.keys.Load()
	same := *inUse
	replaced, err := p.ReplaceKeys(t.Context(), same)
	must(t, err)
	if replaced || p.keys.Load() != inUse {
		t.Error("equal keys replaced the keys in use, which invalidates the cached certificates")
	}
	same.FormerRoots = append(same.FormerRoots, same.Root)
	_, err = p.ReplaceKeys(t.Context(), same)
	must(t, err)
	if p.keys.Load() == inUse {
		t.Error("keys with another former root did not replace the keys in use")
	}
}
