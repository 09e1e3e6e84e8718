package bundle

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// TestAgentFollowsOnlyItsOwnKyma uses bundles that one publisher signed for several Kymas.
func TestAgentFollowsOnlyItsOwnKyma(t *testing.T) {
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
		"its own":                                {accepted, from(victim), true},
		"another Kyma":                           {accepted, from(mallory), false},
		"the name with another UID":              {accepted, from(rebuilt), false},
		"the name with another UID, handed over": {accepted, from(rebuilt, victim), true},
		"another Kyma, handed over":              {accepted, from(mallory, rebuilt, victim), true},
		"another Kyma, handed over by another":   {accepted, from(mallory, rebuilt), false},
		"the name without a UID": {
			accepted, from(trust.Kyma{Namespace: "kcp-system", Name: "victim"}), false,
		},
		"no name, and the UID":     {accepted, unnamed("u1"), true},
		"no name, and another UID": {accepted, unnamed("u3"), false},
		"no name and no UID":       {accepted, unnamed(""), false},
		"the UID under another name": {
			accepted, from(trust.Kyma{Namespace: "kcp-system", Name: "mallory", UID: "u1"}), false,
		},
		"another Kyma by a newer token":               {assigned(mallory, 11), from(mallory), true},
		"its own after a newer token for another one": {assigned(mallory, 11), from(victim), false},
		"another Kyma by the same token":              {assigned(mallory, 10), from(mallory), false},
		"another Kyma by an older token":              {assigned(mallory, 9), from(mallory), false},
		"before the first bundle, its token's Kyma":   {byName, from(victim), true},
		"before the first bundle, another Kyma":       {byName, from(mallory), false},
		"before the first bundle, no name":            {byName, unnamed("u1"), false},
		"an agent that knows no Kyma":                 {Trust{}, from(mallory), true},
		"an agent that knows no Kyma, and no name":    {Trust{}, unnamed(""), true},
	} {
		refused := checkKyma(c.predicate, c.trust)
		if (refused == nil) != c.follow {
			t.Errorf("%s: %v", name, refused)
		}
		if refused != nil && refused.Reason != refusal.WrongKyma {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

// TestAgentKeepsTheKymaOfItsKey checks that the agent adopts the Kyma of a statement only if the statement contains the
// agent's key.
func TestAgentKeepsTheKymaOfItsKey(t *testing.T) {
	victim := trust.Kyma{Namespace: "kcp-system", Name: "victim", UID: "u1"}
	for name, c := range map[string]struct {
		thumbprint string
		kyma       *trust.Kyma
		want       trust.Kyma
	}{
		"enrolled":                     {"mine", &victim, victim},
		"not enrolled yet":             {"", &victim, trust.Kyma{}},
		"enrolled with an old version": {"mine", nil, trust.Kyma{}},
	} {
		pinned := Trust{KeyThumbprint: "mine", Assigned: Assigned{TokenExpires: 4}}
		got := pinned.ownerAfter(Predicate{Kyma: c.kyma, Audience: Audience{KeyThumbprint: c.thumbprint}})
		if got != c.want {
			t.Errorf("%s: it keeps %v", name, got)
		}
	}
}

func TestReportBelongsToOneKymaAndOneCluster(t *testing.T) {
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
		"its own": {owner: &victim, cluster: "c1"},
		"from before the control plane was rebuilt": {owner: &rebuilt, cluster: "c1"},
		"another Kyma":                         {owner: &mallory, cluster: "c1", want: refusal.WrongKyma},
		"a Kyma that handed over":              {owner: &mallory, former: []trust.Kyma{mallory}, cluster: "c1"},
		"an agent that knows no Kyma":          {cluster: "c1"},
		"a copy of the key in another cluster": {owner: &victim, cluster: "c2", want: refusal.WrongCluster},
		"a copy that hides its cluster":        {owner: &victim, want: refusal.WrongCluster},
		"another cluster that enrolls":         {owner: &victim, cluster: "c2", token: true},
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
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && got.Enrolled != c.token {
			t.Errorf("%s: enrolled %v", name, got.Enrolled)
		}
	}
}
