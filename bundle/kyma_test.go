package bundle

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestAgentAcceptsOnlyStatementsForItsOwnKyma(t *testing.T) {
	victim := trust.Kyma{Namespace: "kcp-system", Name: "victim", UID: "u1"}
	rebuilt, mallory := victim, trust.Kyma{Namespace: "kcp-system", Name: "mallory", UID: "u3"}
	rebuilt.UID = "u2"
	unnamed := func(uid string) Predicate { return Predicate{KymaUID: uid} }
	from := func(kyma trust.Kyma, former ...trust.Kyma) Predicate {
		return Predicate{Kyma: &kyma, KymaUID: kyma.UID, FormerKymas: former}
	}
	accepted := Trust{Last: Accepted{Kyma: victim, TokenExpires: 10}}
	assigned := func(kyma trust.Kyma, token int64) Trust {
		t := accepted
		t.Assigned = Assigned{kyma, token}
		return t
	}
	byName := Trust{Assigned: Assigned{trust.Kyma{Namespace: "kcp-system", Name: "victim"}, 10}}
	for name, c := range map[string]struct {
		trust     Trust
		predicate Predicate
		follow    bool
	}{
		"statement of its own Kyma":                             {accepted, from(victim), true},
		"statement of another Kyma":                             {accepted, from(mallory), false},
		"Kyma with the same name and another UID":               {accepted, from(rebuilt), false},
		"same name with another UID, own Kyma listed as former": {accepted, from(rebuilt, victim), true},
		"another Kyma, own Kyma listed as former":               {accepted, from(mallory, rebuilt, victim), true},
		"another Kyma, own Kyma not listed as former":           {accepted, from(mallory, rebuilt), false},
		"own Kyma's name without a UID": {
			accepted, from(trust.Kyma{Namespace: "kcp-system", Name: "victim"}), false,
		},
		"own Kyma's UID without a name":     {accepted, unnamed("u1"), true},
		"another Kyma's UID without a name": {accepted, unnamed("u3"), false},
		"statement without name and UID":    {accepted, unnamed(""), false},
		"own Kyma's UID with another name": {
			accepted, from(trust.Kyma{Namespace: "kcp-system", Name: "mallory", UID: "u1"}), false,
		},
		"another Kyma assigned by a newer token":           {assigned(mallory, 11), from(mallory), true},
		"own Kyma after a newer token for another Kyma":    {assigned(mallory, 11), from(victim), false},
		"another Kyma assigned by the same token":          {assigned(mallory, 10), from(mallory), false},
		"another Kyma assigned by an older token":          {assigned(mallory, 9), from(mallory), false},
		"first bundle of the token's Kyma":                 {byName, from(victim), true},
		"first bundle of another Kyma":                     {byName, from(mallory), false},
		"first bundle without the name of a Kyma":          {byName, unnamed("u1"), false},
		"agent without an owner":                           {Trust{}, from(mallory), true},
		"agent without an owner, statement without a name": {Trust{}, unnamed(""), true},
	} {
		refused := checkKyma(c.predicate, c.trust)
		if (refused == nil) != c.follow {
			t.Errorf("%s: got refusal %v, want accepted: %t", name, refused, c.follow)
		}
		if refused != nil && refused.Reason != refusal.WrongKyma {
			t.Errorf("%s: got refusal %v, want reason %s", name, refused, refusal.WrongKyma)
		}
	}
}

func TestAgentAcceptsOwnerOnlyFromStatementsForItsKey(t *testing.T) {
	victim := trust.Kyma{Namespace: "kcp-system", Name: "victim", UID: "u1"}
	for name, c := range map[string]struct {
		thumbprint string
		kyma       *trust.Kyma
		want       trust.Kyma
	}{
		"statement contains the agent's key":    {"mine", &victim, victim},
		"statement without a key":               {"", &victim, trust.Kyma{}},
		"statement of a publisher before 0.1.0": {"mine", nil, trust.Kyma{}},
	} {
		pinned := Trust{KeyThumbprint: "mine", Assigned: Assigned{TokenExpires: 4}}
		got, _ := pinned.ownerAfter(Predicate{Kyma: c.kyma, Audience: Audience{KeyThumbprint: c.thumbprint}})
		if got != c.want {
			t.Errorf("%s: got owner %v, want %v", name, got, c.want)
		}
	}
}

func TestOnlyBundleOfAssignedKymaUsesTheToken(t *testing.T) {
	former := trust.Kyma{Namespace: "kcp-system", Name: "former", UID: "u1"}
	next := trust.Kyma{Namespace: "kcp-system", Name: "next", UID: "u2"}
	const mine, earlier, newer = "mine", 10, 11
	for name, c := range map[string]struct {
		last       Accepted
		from       trust.Kyma
		lists      []trust.Kyma
		thumbprint string
		used       bool
	}{
		"bundle of another Kyma that lists the assigned Kyma": {
			from: next, lists: []trust.Kyma{former}, thumbprint: mine,
		},
		"bundle of the assigned Kyma before its enrollment": {
			last: Accepted{Kyma: next, TokenExpires: earlier}, from: former,
		},
		"bundle of the assigned Kyma for the agent's key": {
			last: Accepted{Kyma: next, TokenExpires: earlier}, from: former, thumbprint: mine, used: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t)
			a.trust.KeyThumbprint, a.trust.Last = mine, c.last
			a.trust.Assigned = Assigned{trust.Kyma{Namespace: former.Namespace, Name: former.Name}, newer}
			a.predicate(func(p *Predicate) {
				p.Kyma, p.FormerKymas, p.Audience.KeyThumbprint = &c.from, c.lists, c.thumbprint
			})
			verified, err := a.verify(t)
			if err != nil {
				t.Fatal(err)
			}
			a.trust.Last = verified.Accepted
			if got := a.trust.IsReassigned(); got == c.used {
				t.Errorf("got reassigned %t, want %t", got, !c.used)
			}
			if got := a.trust.Owner(); !got.SameName(former) {
				t.Errorf("got owner %v, want %v", got, former)
			}
		})
	}
}

func TestNewEpochDiscardsOwnerFromStolenKey(t *testing.T) {
	kyma := func(name string) trust.Kyma { return trust.Kyma{Namespace: "kcp-system", Name: name, UID: name} }
	const mine, token = "mine", 10
	for name, c := range map[string]struct {
		last, from trust.Kyma
		lists      []trust.Kyma
		epoch      int64
		want       refusal.Reason
	}{
		"bundle of the assigned Kyma": {last: kyma("evil"), from: kyma("real"), epoch: 2},
		"bundle of a third Kyma": {
			last: kyma("evil"), from: kyma("third"), epoch: 2, want: refusal.WrongKyma,
		},
		"bundle of the thief's Kyma": {
			last: kyma("evil"), from: kyma("evil"), epoch: 2, want: refusal.WrongKyma,
		},
		"bundle of a Kyma after a move": {
			last: kyma("next"), from: kyma("next"), lists: []trust.Kyma{kyma("real")}, epoch: 2,
		},
		"move together with the new epoch": {
			last: kyma("real"), from: kyma("next"), lists: []trust.Kyma{kyma("real")}, epoch: 2,
		},
		"bundle of the assigned Kyma in the same epoch": {
			last: kyma("evil"), from: kyma("real"), epoch: 1, want: refusal.WrongKyma,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t)
			a.trust.KeyThumbprint, a.trust.Root.Epoch = mine, c.epoch
			a.trust.Assigned = Assigned{trust.Kyma{Namespace: "kcp-system", Name: "real"}, token}
			a.trust.Last = Accepted{Epoch: 1, Sequence: 99, Kyma: c.last, TokenExpires: token}
			if got := a.trust.Owner(); c.epoch > 1 && got != a.trust.Assigned.Kyma {
				t.Errorf("got owner %v before the bundle, want %v", got, a.trust.Assigned.Kyma)
			}
			a.predicate(func(p *Predicate) {
				p.Kyma, p.FormerKymas, p.Audience.KeyThumbprint, p.Epoch = &c.from, c.lists, mine, c.epoch
			})
			verified, err := a.verify(t)
			trusttest.WantReason(t, err, c.want)
			if err == nil && verified.Accepted.Kyma != c.from {
				t.Errorf("got owner %v, want %v", verified.Accepted.Kyma, c.from)
			}
		})
	}
}

func TestReportFromAnotherKymaOrClusterIsRefused(t *testing.T) {
	mine := trusttest.NewSigner(t)
	public := trusttest.PublicKey(t, mine)
	victim := trust.Kyma{Namespace: "kcp-system", Name: "victim", UID: "u1"}
	rebuilt, mallory := victim, trust.Kyma{Namespace: "kcp-system", Name: "mallory", UID: "u3"}
	rebuilt.UID = "u2"
	token := issue(t, testSecret, trusttest.Runtime, trusttest.Now.Add(time.Hour))
	for name, c := range map[string]struct {
		owner   *trust.Kyma
		former  []trust.Kyma
		cluster string
		token   bool
		want    refusal.Reason
	}{
		"report of its own Kyma":                           {owner: &victim, cluster: "c1"},
		"report from before the control plane was rebuilt": {owner: &rebuilt, cluster: "c1"},
		"report of another Kyma":                           {owner: &mallory, cluster: "c1", want: refusal.WrongKyma},
		"report of a former Kyma": {
			owner: &mallory, former: []trust.Kyma{mallory}, cluster: "c1",
		},
		"report of an agent without an owner":   {cluster: "c1"},
		"copy of the key in another cluster":    {owner: &victim, cluster: "c2", want: refusal.WrongCluster},
		"copy of the key without a cluster UID": {owner: &victim, want: refusal.WrongCluster},
		"enrollment from another cluster":       {owner: &victim, cluster: "c2", token: true},
	} {
		report := sampleReport()
		report.Owner, report.ClusterUID, report.Enrollment = c.owner, c.cluster, nil
		if c.token {
			report.Enrollment = introduction(t, token, trusttest.Runtime, mine)
		}
		got, err := VerifyReport(response(t, report, mine), Reporter{
			Runtime: trusttest.Runtime, Fleet: report.Fleet, Key: public, Owner: victim, Former: c.former,
			ClusterUID: "c1", Enroll: tokenChecker,
		})
		if refused := refusal.Of(err); (refused == nil) != (c.want == "") || refused != nil &&
			refused.Reason != c.want {
			t.Errorf("%s: got error %v, want reason %q", name, err, c.want)
		}
		if err == nil && got.Enrolled != c.token {
			t.Errorf("%s: got enrolled %t, want %t", name, got.Enrolled, c.token)
		}
	}
}
