package trust_test

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestRootMustFollowThePreviousRoot(t *testing.T) {
	m := trusttest.NewMaker(t)
	first := m.First()
	stranger, other := trusttest.NewSigner(t), trusttest.NewSigner(t)
	rotateAll := func(d *trust.RootDraft) {
		for _, key := range m.Keys {
			m.Must(d.Remove(trust.RoleRoot, trusttest.Thumbprint(t, key)))
		}
		m.Must(d.Add(trust.RoleRoot, trusttest.PublicKey(t, stranger)))
		m.Must(d.Add(trust.RoleRoot, trusttest.PublicKey(t, other)))
	}
	skipped := func() []byte {
		second, err := first.Next(m.After(first, trusttest.Nothing, m.Keys...))
		m.Must(err)
		return m.After(second, trusttest.Nothing, m.Keys...)
	}
	revoked := func() trust.Root {
		second, err := first.Next(m.After(first, func(d *trust.RootDraft) { m.Must(d.Revoke("dGhpZWY=")) }, m.Keys...))
		m.Must(err)
		return second
	}
	for name, c := range map[string]struct {
		from trust.Root
		data []byte
		want string
	}{
		"signed by two of three": {first, m.After(first, trusttest.Nothing, m.Keys[1:]...), ""},
		"all root keys change, both sides sign": {
			first, m.After(first, rotateAll, m.Keys[0], m.Keys[2], stranger, other), "",
		},
		"only the old ones sign": {first, m.After(first, rotateAll, m.Keys...), "root of trust: "},
		"only the new ones sign": {
			first, m.After(first, rotateAll, stranger, other), "is not signed by the keys of version 1",
		},
		"one of two signs": {
			first, m.After(first, trusttest.Nothing, m.Keys[0]), "root of trust: ",
		},
		"one signs twice": {
			first, m.After(first, trusttest.Nothing, m.Keys[0], m.Keys[0]), "root of trust: ",
		},
		"one of two and a stranger": {
			first, m.After(first, trusttest.Nothing, m.Keys[0], stranger), "root of trust: ",
		},
		"the same version again": {first, first.Raw, "version 1 does not follow version 1"},
		"a version is left out":  {first, skipped(), "version 3 does not follow version 1"},
		"a lower epoch": {
			first, m.After(first, func(d *trust.RootDraft) { d.SetEpoch(0) }, m.Keys...), "epoch: 0",
		},
		"another fleet": {
			first, m.After(first, func(d *trust.RootDraft) { d.Fields()["fleet"] = "fleet-b" }, m.Keys...),
			`of fleet "fleet-b"`,
		},
		"no fleet any more": {
			first, m.After(first, func(d *trust.RootDraft) { delete(d.Fields(), "fleet") }, m.Keys...), `of fleet ""`,
		},
		"a revocation is taken back": {
			revoked(), m.After(revoked(), func(d *trust.RootDraft) { delete(d.Fields(), "revoked") }, m.Keys...),
			"takes back that key",
		},
		"a revoked key is listed": {first, m.After(first, func(d *trust.RootDraft) {
			m.Must(d.Revoke(trusttest.Thumbprint(t, stranger)))
			m.Must(d.Add(trust.RolePublisher, trusttest.PublicKey(t, stranger)))
		}, m.Keys...), "is revoked"},
		"without publishers": {
			first, m.After(first, func(d *trust.RootDraft) { m.Must(d.Revoke(trusttest.Thumbprint(t, m.Publisher))) },
				m.Keys...), "at least one key is required",
		},
		"a floor that is no version": {
			first, m.After(first, func(d *trust.RootDraft) { d.SetFloor("a.io/b", "x") }, m.Keys...),
			"is not a semantic version",
		},
		"a release role that cannot be satisfied": {
			first, m.After(first, func(d *trust.RootDraft) { d.SetThreshold(trust.RoleRelease+"a.io/", 1) }, m.Keys...),
			"threshold: 1 of 0 keys",
		},
		"a release key that signs no components": {
			first, m.After(first,
				func(d *trust.RootDraft) {
					m.Must(d.Add(trust.RoleRelease+"a.io/", trusttest.PublicKey(t, stranger)))
				}, m.Keys...), "want RSA",
		},
		"garbage": {first, []byte("{}"), "root of trust: "},
		"what was changed after it was signed": {
			first, []byte(strings.Replace(string(m.After(first, trusttest.Nothing, m.Keys...)), "fleet-a", "fleet-c",
				1)), "root of trust: ",
		},
		"a second lock": {first, m.After(first, func(d *trust.RootDraft) {
			m.Must(d.Add(trust.RoleRelease+"a.io/", &trusttest.RSAKey(t).PublicKey))
			d.SetFloor("a.io/b", "1.2.0")
		}, m.Keys...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			next, err := c.from.Next(c.data)
			if c.want == "" && (err != nil || next.Version != c.from.Version+1) {
				t.Fatalf("got %+v, %v", next, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLaterPinnedRootIsFollowed(t *testing.T) {
	at := func(epoch, version int64) trust.Root { return trust.Root{Epoch: epoch, Version: version} }
	for name, c := range map[string]struct{ followed, pinned, want trust.Root }{
		"the pinned one is the first":      {at(1, 5), at(1, 1), at(1, 5)},
		"the pinned one is later":          {at(1, 5), at(1, 6), at(1, 6)},
		"started anew with a higher epoch": {at(1, 5), at(2, 1), at(2, 1)},
		"an old pin after starting anew":   {at(2, 1), at(1, 9), at(2, 1)},
		"nothing was followed yet":         {trust.Root{}, at(1, 1), at(1, 1)},
	} {
		if got := trust.Newest(c.followed, c.pinned); got.Epoch != c.want.Epoch || got.Version != c.want.Version {
			t.Errorf("%s: got epoch %d version %d", name, got.Epoch, got.Version)
		}
	}
}
