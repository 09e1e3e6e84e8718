package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// An operator moved a runtime from one Kyma to another one, and the other Kyma was deleted later. Only an operator's
// new decision makes the first Kyma the owner again.
func TestFormerOwnerNeedsANewDecision(t *testing.T) {
	tokens := trust.TokenSecrets{[]byte(strings.Repeat("s", 32))}
	for name, owned := range map[string]func(*v1beta2.RuntimeStatus){
		"enrolled":                  enrolled,
		"assigned":                  decided(5),
		"published before enrolled": publishedTo,
	} {
		t.Run(name, func(t *testing.T) {
			former, next := claiming("former", owned), claiming("next", decided(noon.UnixMilli()))
			owners := NewOwners([]v1beta2.Kyma{*former, *next})
			if err := owners.Check(former); reason.Of(err) != reason.RuntimeHandedOver || !CanBeAssigned(former, err) {
				t.Errorf("former owner: got %v, want reason RuntimeHandedOver", err)
			}
			owners.RecordDenied(former)

			alone := []v1beta2.Kyma{*former}
			if owner := NewOwners(alone)["r-1"]; owner != nil {
				t.Errorf("the other Kyma was deleted: Kyma %s became the owner", owner.Name)
			}
			err := NewOwners(alone).Check(former)
			command := "kcp-publisher enroll r-1 --replace --kyma " + former.Namespace + "/former"
			if reason.Of(err) != reason.RuntimeHandedOver || !strings.Contains(err.Error(), command) ||
				!strings.Contains(err.Error(), next.Namespace+"/next") {
				t.Errorf("the other Kyma was deleted: got %v, want the other Kyma and %q", err, command)
			}
			if event, _ := FinalizeReasonRefused(former, err, time.Hour, noon); event != v1beta2.ReasonHandedOver {
				t.Errorf("deletion of the former owner: got reason %q, want %q", event, v1beta2.ReasonHandedOver)
			}

			// A second Kyma does not change the reason.
			mallory := claiming("mallory", nil)
			two := NewOwners([]v1beta2.Kyma{*former, *mallory})
			if err := two.Check(former); reason.Of(err) != reason.RuntimeHandedOver {
				t.Errorf("former owner next to a new Kyma: got %v, want reason RuntimeHandedOver", err)
			}
			if err := two.Check(mallory); reason.Of(err) != reason.RuntimeUnassigned {
				t.Errorf("new Kyma next to a former owner: got %v, want reason RuntimeUnassigned", err)
			}

			byToken := former.DeepCopy()
			AcceptChallenge(byToken, alone, noon.Add(time.Minute))
			byProof := former.DeepCopy()
			proof, err := tokens.HandOver(KymaIdentity(byProof), "r-1", noon.Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			byProof.Annotations = map[string]string{v1beta2.AnnotationHandOver: proof}
			if !HandOver(byProof, alone, tokens) {
				t.Error("the former owner refuses a new hand-over")
			}
			for _, again := range []*v1beta2.Kyma{byToken, byProof} {
				if err := NewOwners([]v1beta2.Kyma{*again}).Check(again); err != nil {
					t.Errorf("after a new decision: got %v", err)
				}
				if s := again.Status.Runtime; s.Unowned != "" || s.AssignedTo != "" {
					t.Errorf("after a new decision: got status %+v, want no trace of the former one", s)
				}
			}
		})
	}
}

// A former owner that gets the runtime back must not publish its own outdated request.
func TestFormerOwnerContinuesTheLatestRequest(t *testing.T) {
	former := claiming("former", func(s *v1beta2.RuntimeStatus) {
		enrolled(s)
		denied(s)
		s.Requested = &v1beta2.RequestedSpec{Generation: 1}
	})
	owner := claiming("owner", func(s *v1beta2.RuntimeStatus) {
		decided(7)(s)
		s.Requested = &v1beta2.RequestedSpec{Generation: 2}
	})
	all := []v1beta2.Kyma{*former, *owner}
	AcceptChallenge(former, all, noon)
	all[0] = *former
	if err := NewOwners(all).Check(former); err != nil || former.Status.Runtime.Requested.Generation != 2 {
		t.Errorf("got request %+v, %v, want the owner's request", former.Status.Runtime.Requested, err)
	}
}

func TestReleasedKymaIsNotAssignedByAToken(t *testing.T) {
	away := claiming("away", enrolled)
	away.Annotations = map[string]string{v1beta2.AnnotationMovedAway: v1beta2.True}
	if err := NewOwners([]v1beta2.Kyma{*away}).Check(away); CanBeAssigned(away, err) {
		t.Errorf("Kyma that was released to another control plane: a token can assign it in spite of %v", err)
	}
}
