package trust_test

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestRootMustFollowThePreviousRoot(t *testing.T) {
	m := trusttest.NewRootFixture(t)
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
		second, err := first.Next(m.After(first, trusttest.NoChange, m.Keys...))
		m.Must(err)
		return m.After(second, trusttest.NoChange, m.Keys...)
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
		"signed by two of three root keys": {first, m.After(first, trusttest.NoChange, m.Keys[1:]...), ""},
		"all root keys change, old and new keys sign": {
			first, m.After(first, rotateAll, m.Keys[0], m.Keys[2], stranger, other), "",
		},
		"all root keys change, only old keys sign": {first, m.After(first, rotateAll, m.Keys...), "root of trust: "},
		"all root keys change, only new keys sign": {
			first, m.After(first, rotateAll, stranger, other), "is not signed by the keys of version 1",
		},
		"one of two required keys signs": {
			first, m.After(first, trusttest.NoChange, m.Keys[0]), "root of trust: ",
		},
		"one key signs twice": {
			first, m.After(first, trusttest.NoChange, m.Keys[0], m.Keys[0]), "root of trust: ",
		},
		"one required key and an unknown key sign": {
			first, m.After(first, trusttest.NoChange, m.Keys[0], stranger), "root of trust: ",
		},
		"root with the same version": {first, first.Raw, "version 1 does not follow version 1"},
		"skipped version":            {first, skipped(), "version 3 does not follow version 1"},
		"lower epoch": {
			first, m.After(first, func(d *trust.RootDraft) { d.SetEpoch(0) }, m.Keys...), "epoch: 0",
		},
		"another fleet": {
			first, m.After(first, func(d *trust.RootDraft) { d.Fields()["fleet"] = "fleet-b" }, m.Keys...),
			`has fleet "fleet-b"`,
		},
		"fleet removed": {
			first, m.After(first, func(d *trust.RootDraft) { delete(d.Fields(), "fleet") }, m.Keys...), `has fleet ""`,
		},
		"revocation withdrawn": {
			revoked(), m.After(revoked(), func(d *trust.RootDraft) { delete(d.Fields(), "revoked") }, m.Keys...),
			"withdraws the revocation of key",
		},
		"root lists a revoked key": {first, m.After(first, func(d *trust.RootDraft) {
			m.Must(d.Revoke(trusttest.Thumbprint(t, stranger)))
			m.Must(d.Add(trust.RolePublisher, trusttest.PublicKey(t, stranger)))
		}, m.Keys...), "is revoked"},
		"no publisher keys": {
			first, m.After(first, func(d *trust.RootDraft) { m.Must(d.Revoke(trusttest.Thumbprint(t, m.Publisher))) },
				m.Keys...), "at least one key is required",
		},
		"minimum version that is not a version": {
			first, m.After(first, func(d *trust.RootDraft) { d.SetFloor("a.io/b", "x") }, m.Keys...),
			"is not a semantic version",
		},
		"release role without enough keys": {
			first, m.After(first, func(d *trust.RootDraft) { d.SetThreshold(trust.RoleRelease+"a.io/", 1) }, m.Keys...),
			"threshold: 1, must be 1 to 0",
		},
		"release key of an unsupported type": {
			first, m.After(first,
				func(d *trust.RootDraft) {
					m.Must(d.Add(trust.RoleRelease+"a.io/", trusttest.PublicKey(t, stranger)))
				}, m.Keys...), "must be RSA",
		},
		"empty object": {first, []byte("{}"), "root of trust: "},
		"root changed after signing": {
			first, []byte(strings.Replace(string(m.After(first, trusttest.NoChange, m.Keys...)), "fleet-a", "fleet-c",
				1)), "root of trust: ",
		},
		"release key added": {first, m.After(first, func(d *trust.RootDraft) {
			m.Must(d.Add(trust.RoleRelease+"a.io/", &trusttest.RSAKey(t).PublicKey))
			d.SetFloor("a.io/b", "1.2.0")
		}, m.Keys...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			next, err := c.from.Next(c.data)
			if c.want == "" && (err != nil || next.Version != c.from.Version+1) {
				t.Fatalf("got root %+v, error %v, want the next version", next, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestNewestRootComparesEpochBeforeVersion(t *testing.T) {
	at := func(epoch, version int64) trust.Root { return trust.Root{Epoch: epoch, Version: version} }
	for name, c := range map[string]struct{ followed, pinned, want trust.Root }{
		"pinned root is older than the followed root": {at(1, 5), at(1, 1), at(1, 5)},
		"pinned root is newer than the followed root": {at(1, 5), at(1, 6), at(1, 6)},
		"pinned root has a higher epoch":              {at(1, 5), at(2, 1), at(2, 1)},
		"pinned root has a lower epoch":               {at(2, 1), at(1, 9), at(2, 1)},
		"no followed root":                            {trust.Root{}, at(1, 1), at(1, 1)},
	} {
		if got := trust.NewestRoot(c.followed, c.pinned); got.Epoch != c.want.Epoch || got.Version != c.want.Version {
			t.Errorf("%s: got epoch %d and version %d, want %d and %d",
				name, got.Epoch, got.Version, c.want.Epoch, c.want.Version)
		}
	}
}

func TestSuccessorIsSignedByTheRootKeys(t *testing.T) {
	m := trusttest.NewRootFixture(t)
	first := m.First()
	parse := func(data []byte) trust.Root {
		root, err := trust.ParseRoot(data)
		m.Must(err)
		return root
	}
	second := parse(m.After(first, trusttest.NoChange, m.Keys...))
	third := parse(m.After(second, trusttest.NoChange, m.Keys...))
	foreign := trusttest.NewRootFixture(t)
	other := foreign.First()
	for name, c := range map[string]struct {
		root, next trust.Root
		want       bool
	}{
		"same version":                {first, first, true},
		"next version":                {first, second, true},
		"skipped version":             {first, third, true},
		"earlier version":             {second, first, false},
		"same version of other keys":  {first, other, false},
		"later version of other keys": {first, parse(foreign.After(other, trusttest.NoChange, foreign.Keys...)), false},
		"another fleet": {
			first,
			parse(m.After(first, func(d *trust.RootDraft) { d.Fields()["fleet"] = "fleet-b" }, m.Keys...)), false,
		},
		"higher epoch": {first, parse(m.After(first, func(d *trust.RootDraft) { d.SetEpoch(2) }, m.Keys...)), true},
	} {
		if got := c.root.IsSuccessor(c.next); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
