package plan

import (
	"crypto"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func claiming(name string, change func(*v1beta2.RuntimeStatus)) *v1beta2.Kyma {
	kyma := kymaOf(name)
	kyma.UID, kyma.Labels = types.UID("uid-"+name), map[string]string{v1beta2.LabelRuntimeID: "r-1"}
	kyma.CreationTimestamp = metav1.NewTime(noon)
	if change != nil {
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{}
		change(kyma.Status.Runtime)
	}
	return kyma
}

func enrolled(s *v1beta2.RuntimeStatus) { s.ID, s.Key = "r-1", &v1beta2.RuntimeKey{Thumbprint: "t"} }
func publishedTo(s *v1beta2.RuntimeStatus) {
	s.ID, s.Published = "r-1", &v1beta2.PublishedBundle{Sequence: 1}
}
func denied(s *v1beta2.RuntimeStatus) { s.Unowned = "r-1" }
func decided(at int64) func(*v1beta2.RuntimeStatus) {
	return func(s *v1beta2.RuntimeStatus) { s.ID, s.Assignment = "r-1", &v1beta2.Assignment{Decided: at} }
}
func foreign(s *v1beta2.RuntimeStatus) { enrolled(s); s.ID = "mallory" }

func TestOwnershipIsDecidedOnlyByOperators(t *testing.T) {
	for name, c := range map[string]struct {
		a, b func(*v1beta2.RuntimeStatus)
		// owner is the name of the Kyma that must own the runtime, or "" if the runtime must not have an owner.
		owner string
	}{
		"two Kymas without a key or an assignment":       {nil, nil, ""},
		"two denied Kymas":                               {denied, denied, ""},
		"Kyma with a published bundle and another Kyma":  {publishedTo, nil, ""},
		"enrolled Kyma and another Kyma":                 {enrolled, nil, "a"},
		"Kyma with a published bundle and enrolled Kyma": {publishedTo, enrolled, "b"},
		"two enrolled Kymas":                             {enrolled, enrolled, ""},
		"relabeled Kyma of another runtime":              {foreign, enrolled, "b"},
		"enrolled Kyma and assigned Kyma":                {enrolled, decided(5), "b"},
		"Kymas with a newer and an older assignment":     {decided(6), decided(5), "a"},
		"Kymas with two assignments at the same time":    {decided(5), decided(5), ""},
		"assigned Kyma that was denied after its assignment": {
			func(s *v1beta2.RuntimeStatus) { denied(s); decided(1)(s) }, denied, "",
		},
		"former owner with a key and a denied Kyma": {
			func(s *v1beta2.RuntimeStatus) { denied(s); enrolled(s) }, denied, "",
		},
		"enrolled Kyma and denied Kyma": {enrolled, denied, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			older, younger := claiming("a", c.a), claiming("b", c.b)
			older.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
			// A skipped Kyma still owns its runtime.
			older.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
			for _, all := range [][]v1beta2.Kyma{{*older, *younger}, {*younger, *older}} {
				owners := NewOwners(all)
				got := ""
				if owner := owners["r-1"]; owner != nil {
					got = owner.Name
				}
				if got != c.owner {
					t.Errorf("got owner %q, want %q", got, c.owner)
				}
				for i := range all {
					if RuntimeID(&all[i]) != ClaimedRuntimeID(&all[i]) {
						continue
					}
					if err := owners.Check(&all[i]); (err == nil) != (all[i].Name == c.owner) {
						t.Errorf("check of Kyma %s: got %v, want an error unless it is owner %q", all[i].Name, err,
							c.owner)
					}
				}
				for _, m := range Members(all, offering(t)) {
					if m.Runtime == "r-1" && m.Kyma.Name != c.owner {
						t.Errorf("Kyma %s is a member but does not own the runtime", m.Kyma.Name)
					}
				}
			}
		})
	}
}

func TestDeniedKymaDoesNotBecomeOwner(t *testing.T) {
	waiting := claiming("aaa", nil)
	NewOwners(nil).RecordDenied(waiting)
	if why := NewOwners([]v1beta2.Kyma{*waiting}).Check(waiting); reason.Of(why) != reason.RuntimeUnassigned {
		t.Error("the denied Kyma owns the runtime")
	}
	waiting.Labels[v1beta2.LabelRuntimeID] = "its-own"
	if err := NewOwners([]v1beta2.Kyma{*waiting}).Check(waiting); err != nil {
		t.Errorf("denied Kyma with its own runtime ID: got %v", err)
	}
	if RecordOwner(waiting); waiting.Status.Runtime.Unowned != "" || waiting.Status.Runtime.ID != "its-own" {
		t.Errorf("got status %+v, want runtime ID its-own", waiting.Status.Runtime)
	}
}

func TestDuplicateKymaNamesAcrossNamespacesOwnNoRuntime(t *testing.T) {
	one, two := kymaOf("prod"), kymaOf("prod")
	one.Namespace, two.Namespace = "a", "b"
	owners := NewOwners([]v1beta2.Kyma{*two, *one})
	for _, kyma := range []*v1beta2.Kyma{one, two} {
		if err := owners.Check(kyma); err == nil ||
			!strings.Contains(err.Error(), "several Kymas have runtime ID prod") {
			t.Errorf("Kyma %s/%s: got %v, want an error", kyma.Namespace, kyma.Name, err)
		}
	}
}

func introducing(t *testing.T, tokens trust.TokenSecrets, kyma trust.Kyma, expires time.Time) trust.Enrollment {
	t.Helper()
	key := trusttest.PublicKey(t, trusttest.NewSigner(t))
	encoded, err := trust.EncodePublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.IssueFor(kyma, "r-1", expires)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := token.Prove("r-1", key)
	if err != nil {
		t.Fatal(err)
	}
	return trust.Enrollment{PublicKey: encoded, Proof: proof, TokenExpires: expires.Unix()}
}

func TestTokenIsOnlyValidForItsKyma(t *testing.T) {
	tokens := trust.TokenSecrets{[]byte(strings.Repeat("s", 32))}
	legitimate, mallory := claiming("legitimate", nil), claiming("mallory", nil)
	named := trust.Kyma{Namespace: legitimate.Namespace, Name: "legitimate"}
	ownName := claiming("r-1", nil)
	for name, c := range map[string]struct {
		token trust.Kyma
		kyma  *v1beta2.Kyma
		want  bool
	}{
		"token for the Kyma's name": {named, legitimate, true},
		"token for the Kyma's UID":  {KymaIdentity(legitimate), legitimate, true},
		"token for another Kyma":    {named, mallory, false},
		"token for the same name with another UID": {
			trust.Kyma{Namespace: named.Namespace, Name: named.Name, UID: "before"}, legitimate, false,
		},
		"token for the same name in another namespace": {
			trust.Kyma{Namespace: "elsewhere", Name: named.Name}, legitimate, false,
		},
		"token without a Kyma, Kyma with the runtime ID in its label": {trust.Kyma{}, mallory, false},
		"token without a Kyma, Kyma with the runtime ID as its name":  {trust.Kyma{}, ownName, true},
	} {
		err := (Rules{}).Reporter(c.kyma, tokens, noon).Enroll(introducing(t, tokens, c.token, noon.Add(time.Hour)))
		if (err == nil) != c.want {
			t.Errorf("%s: got error %v, want accepted %t", name, err, c.want)
		}
	}
}

func TestCertificateIsOnlyValidForItsKyma(t *testing.T) {
	enroll, agent := trusttest.NewSigner(t), trusttest.NewSigner(t)
	m := trusttest.NewRootFixture(t)
	draft := trust.DraftRoot("fleet", 1, trusttest.Now.AddDate(1, 0, 0))
	m.Must(draft.Add(trust.RoleRoot, trusttest.PublicKey(t, m.Keys[0])))
	m.Must(draft.Add(trust.RolePublisher, trusttest.PublicKey(t, m.Publisher)))
	m.Must(draft.Add(trust.RoleEnroll, trusttest.PublicKey(t, enroll)))
	root, err := trust.ParseRoot(m.Signed(draft, m.Keys[0]))
	m.Must(err)
	own := claiming("own", nil)
	sameName := KymaIdentity(own)
	sameName.UID = "of the control plane before"
	assigned := claiming("assigned", decided(1))
	for name, c := range map[string]struct {
		certified trust.Kyma
		kyma      *v1beta2.Kyma
		want      bool
	}{
		"certificate for the Kyma":                 {KymaIdentity(own), own, true},
		"certificate from a rebuilt control plane": {sameName, own, true},
		"certificate for another Kyma": {
			KymaIdentity(claiming("aaa", nil)), own, false,
		},
		"certificate without a Kyma, Kyma with the runtime ID in its label": {trust.Kyma{}, own, false},
		"certificate without a Kyma, Kyma with the runtime ID as its name":  {trust.Kyma{}, claiming("r-1", nil), true},
		"certificate for the former owner of an assigned runtime":           {KymaIdentity(own), assigned, true},
	} {
		text, err := trust.IssueCertificate(enroll, root.Fleet, "r-1", c.certified, trusttest.PublicKey(t, agent),
			trusttest.Now, trusttest.Now.AddDate(0, 0, 90))
		if err != nil {
			t.Fatal(err)
		}
		var key crypto.PublicKey
		key, err = (Rules{Root: root}).Reporter(c.kyma, nil, trusttest.Now).Certified(text)
		if (err == nil) != c.want || c.want && key == nil {
			t.Errorf("%s: got error %v, want accepted %t", name, err, c.want)
		}
	}
}

// The author of a Kyma can set the hand-over annotation, but only an operator can create a valid proof for it.
func TestRuntimeHandoverNeedsAnOperator(t *testing.T) {
	tokens := trust.TokenSecrets{[]byte(strings.Repeat("s", 32))}
	proof := func(kyma *v1beta2.Kyma, at time.Time) string {
		t.Helper()
		text, err := tokens.HandOver(KymaIdentity(kyma), "r-1", at)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	former := claiming("former", func(s *v1beta2.RuntimeStatus) {
		enrolled(s)
		s.Requested, s.ReportSequence = &v1beta2.RequestedSpec{Generation: 7}, 3
		s.Published = &v1beta2.PublishedBundle{Sequence: 9}
	})
	recent := claiming("recent", decided(noon.Add(time.Hour).UnixMilli()))
	for name, c := range map[string]struct {
		proof string
		other *v1beta2.Kyma
		want  bool
	}{
		"proof for the Kyma":                  {proof(claiming("next", nil), noon), former, true},
		"empty proof":                         {"", former, false},
		"proof for another Kyma":              {proof(former, noon), former, false},
		"forged proof":                        {"kph1.1795000000000.AAAA", former, false},
		"proof older than another assignment": {proof(claiming("next", nil), noon), recent, false},
		"proof newer than another assignment": {proof(claiming("next", nil), noon.Add(2*time.Hour)), recent, true},
		"modified proof": {
			strings.Replace(proof(claiming("next", nil), noon), ".", ".1", 1), former, false,
		},
		"former owner deleted": {proof(claiming("next", nil), noon), nil, true},
	} {
		next := claiming("next", denied)
		next.Annotations = map[string]string{v1beta2.AnnotationHandOver: c.proof}
		all := []v1beta2.Kyma{*next}
		if c.other != nil {
			all = append(all, *c.other)
		}
		if got := HandOver(next, all, tokens); got != c.want {
			t.Errorf("%s: got assigned %t, want %t", name, got, c.want)
			continue
		}
		if !c.want {
			continue
		}
		all[0] = *next
		if err := NewOwners(all).Check(next); err != nil {
			t.Errorf("%s: check of the new owner: got %v", name, err)
		}
		if c.other != former {
			continue
		}
		s := next.Status.Runtime
		if s.Requested == nil || s.Published == nil || s.Key == nil || len(s.Assignment.Former) != 1 ||
			s.Assignment.Former[0].Name != "former" {
			t.Errorf("%s: the status was not taken over: %+v", name, s)
		}
		if why := NewOwners(all).Check(former); reason.Of(why) != reason.RuntimeHandedOver {
			t.Errorf("%s: former owner: got %v", name, why)
		} else if event, _ := FinalizeReasonRefused(former, why, time.Hour, noon); event != v1beta2.ReasonHandedOver {
			t.Errorf("%s: former owner: got finalization reason %q", name, event)
		}
		if HandOver(next, all, tokens) {
			t.Errorf("%s: the runtime is assigned again", name)
		}
	}
}

func TestReportFromAnotherKymaRequiresANewerToken(t *testing.T) {
	tokens := trust.TokenSecrets{[]byte(strings.Repeat("s", 32))}
	former := claiming("former", func(s *v1beta2.RuntimeStatus) {
		enrolled(s)
		s.Key.TokenExpires = metav1.NewTime(noon.Add(time.Hour))
	})
	next := claiming("next", denied)
	all := []v1beta2.Kyma{*former, *next}
	from := (Rules{}).ChallengeReporter(next, all, tokens, noon)
	for name, c := range map[string]struct {
		token   trust.Kyma
		expires time.Time
		want    bool
	}{
		"newer token for this Kyma":           {KymaIdentity(next), noon.Add(2 * time.Hour), true},
		"token of the same age for this Kyma": {KymaIdentity(next), noon.Add(time.Hour), false},
		"newer token for the other Kyma":      {KymaIdentity(former), noon.Add(2 * time.Hour), false},
	} {
		if err := from.Enroll(introducing(t, tokens, c.token, c.expires)); (err == nil) != c.want {
			t.Errorf("%s: got error %v, want accepted %t", name, err, c.want)
		}
	}
	if from.Certified != nil || from.Key != nil {
		t.Error("a challenge without a token is accepted")
	}
	AcceptChallenge(next, all, noon)
	all[1] = *next
	if err := NewOwners(all).Check(next); err != nil {
		t.Errorf("check of the new owner: got %v", err)
	}
	if err := NewOwners(all).Check(former); err == nil {
		t.Error("the former owner still owns the runtime")
	}

	// The clock of the operator who last moved the runtime was wrong.
	moved, latest := claiming("moved", decided(noon.AddDate(100, 0, 0).UnixMilli())), claiming("latest", denied)
	enrolled(moved.Status.Runtime)
	all = []v1beta2.Kyma{*moved, *latest}
	AcceptChallenge(latest, all, noon)
	all[1] = *latest
	if err := NewOwners(all).Check(latest); err != nil {
		t.Errorf("check of the new owner after an assignment in the future: got %v", err)
	}
}

// A Kyma was deleted, or the control plane was lost. The owner of the runtime must be determined from the bundle in the
// registry.
func TestBundleInRegistryShowsTheOwner(t *testing.T) {
	own := trust.Kyma{Namespace: "kcp-system", Name: "victim", UID: "u1"}
	rebuilt := trust.Kyma{Namespace: "kcp-system", Name: "victim", UID: "u2"}
	aaa := trust.Kyma{Namespace: "kcp-system", Name: "aaa", UID: "u3"}
	issued := noon
	predicate := func(kyma *trust.Kyma, uid, key string, former ...trust.Kyma) *bundle.Predicate {
		return &bundle.Predicate{
			Kyma:        kyma,
			KymaUID:     uid,
			FormerKymas: former,
			IssuedAt:    issued,
			Audience:    bundle.Audience{Runtime: "r-1", KeyThumbprint: key},
		}
	}
	for name, c := range map[string]struct {
		stored   *bundle.Predicate
		kyma     trust.Kyma
		assigned int64
		want     bool
		former   []trust.Kyma
	}{
		"registry without a bundle": {nil, aaa, 0, true, nil},
		"bundle for the same Kyma":  {predicate(&own, "u1", "k"), own, 0, true, nil},
		"bundle from before the control plane was rebuilt": {
			predicate(&own, "u1", "k"), rebuilt, 0, true, []trust.Kyma{own},
		},
		"bundle for another Kyma": {predicate(&own, "u1", "k"), aaa, 0, false, nil},
		"bundle for another Kyma, runtime assigned": {
			predicate(&own, "u1", "k"), aaa, 1, true, []trust.Kyma{own},
		},
		"bundle for a runtime that never enrolled": {
			predicate(&own, "u1", ""), aaa, 0, true, []trust.Kyma{own},
		},
		"bundle from a version before 0.1.0 for the same UID": {predicate(nil, "u1", "k"), own, 0, true, nil},
		"bundle from a version before 0.1.0, Kyma with the runtime ID in its label": {
			predicate(nil, "u1", "k"), aaa, 0, false, nil,
		},
		"bundle from a version before 0.1.0, Kyma with the runtime ID as its name": {
			predicate(nil, "u1", "k"), trust.Kyma{Namespace: "kcp-system", Name: "r-1", UID: "u4"}, 0, true, nil,
		},
		"bundle from a version before 0.1.0 for a Kyma from a file": {predicate(nil, "", "k"), aaa, 0, true, nil},
		"bundle that lists the Kyma as a former owner": {
			predicate(&own, "u1", "k", aaa), aaa, 0, false, nil,
		},
		"bundle created after the assignment of a listed former owner": {
			predicate(&own, "u1", "k", aaa), aaa, issued.UnixMilli() - 1, false, nil,
		},
		"bundle created before the assignment of a listed former owner": {
			predicate(&own, "u1", "k", aaa), aaa, issued.UnixMilli() + 1, true, []trust.Kyma{own},
		},
		"bundle for the same Kyma with a former owner": {
			predicate(&own, "u1", "k", aaa), own, 0, true, []trust.Kyma{aaa},
		},
		"Kyma with the same name from a file": {
			predicate(&own, "u1", "k"), trust.Kyma{Name: "victim"}, 0, true, []trust.Kyma{own},
		},
	} {
		a, r := Adoption{StoredPredicate: c.stored}, Runtime{ID: "r-1", Kyma: c.kyma, AssignedAt: c.assigned}
		err := a.CheckOwner(r)
		if (err == nil) != c.want || err != nil && reason.Of(err) != reason.RuntimeUnassigned {
			t.Errorf("%s: got error %v, want accepted %t", name, err, c.want)
		}
		if got := a.listFormerOwners(r); c.want && !slices.Equal(got, c.former) {
			t.Errorf("%s: got former owners %v, want %v", name, got, c.former)
		}
	}
}
