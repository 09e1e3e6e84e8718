package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// An operator moved a runtime to another Kyma, which was deleted later. The first Kyma must not become the owner again
// without a new decision by an operator.
func TestFormerOwnerNeedsANewDecision(t *testing.T) {
	tokens := trust.TokenSecrets{[]byte(strings.Repeat("s", 32))}
	for name, owned := range map[string]func(*v1beta2.RuntimeStatus){
		"enrolled": enrolled,
		"assigned": decided(5),
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

			// Another Kyma with the same runtime ID must not change the reason for the former owner.
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
func TestFormerOwnerDoesNotPublishItsOutdatedRequest(t *testing.T) {
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

func TestPublishedBundleDoesNotMakeAKymaAFormerOwner(t *testing.T) {
	early, next := claiming("early", publishedTo), claiming("next", decided(5))
	owners := NewOwners([]v1beta2.Kyma{*early, *next})
	if err := owners.Check(early); reason.Of(err) != reason.DuplicateRuntimeID {
		t.Errorf("got %v, want reason DuplicateRuntimeID", err)
	}
	owners.RecordDenied(early)
	if err := NewOwners([]v1beta2.Kyma{*early}).Check(early); reason.Of(err) != reason.RuntimeUnassigned {
		t.Errorf("the owner was deleted: got %v, want reason RuntimeUnassigned", err)
	}
}

func TestReleasedKymaIsNotAssignedByAToken(t *testing.T) {
	away := claiming("away", enrolled)
	away.Annotations = map[string]string{v1beta2.AnnotationMovedAway: v1beta2.True}
	if err := NewOwners([]v1beta2.Kyma{*away}).Check(away); CanBeAssigned(away, err) {
		t.Errorf("Kyma that was released to another control plane: a token can assign it in spite of %v", err)
	}
}

func TestLabelChangeDoesNotMakeFormerOwnerTheOwner(t *testing.T) {
	former, next := claiming("former", enrolled), claiming("next", decided(5))
	former.Labels[v1beta2.LabelRuntimeID] = "other"
	NewOwners([]v1beta2.Kyma{*former, *next}).RecordDenied(former)
	former.Labels[v1beta2.LabelRuntimeID] = "r-1"
	if err := NewOwners([]v1beta2.Kyma{*former}).Check(former); reason.Of(err) != reason.RuntimeHandedOver {
		t.Errorf("after the label was restored: got %v, want reason RuntimeHandedOver", err)
	}
}

// The test creates, relabels, reconciles and deletes Kymas at random. A Kyma that names another Kyma's runtime must
// become the owner only if an operator decides so.
func TestRandomHistoriesChangeTheOwnerOnlyByDecisions(t *testing.T) {
	random := rand.New(rand.NewPCG(44, 4))
	for history := range 5000 {
		all, now := []v1beta2.Kyma{*claiming("k0", enrolled)}, noon
		// others contains the Kymas that named the runtime while another Kyma owned it.
		others, created := map[string]bool{}, 1
		var steps []string
		for range 25 {
			now = now.Add(time.Minute)
			step := ""
			decides := false
			switch at := random.IntN(max(1, len(all))); {
			case len(all) == 0 || len(all) < 4 && random.IntN(4) == 0:
				step = fmt.Sprintf("create k%d", created)
				all, created = append(all, *claiming(fmt.Sprintf("k%d", created), nil)), created+1
			case random.IntN(4) == 0:
				step = "delete " + all[at].Name
				if owners := NewOwners(all); owners.Owns(&all[at]) {
					for i := range all {
						if ClaimedRuntimeID(&all[i]) == ClaimedRuntimeID(&all[at]) && i != at {
							owners.RecordDenied(&all[i])
						}
					}
				}
				all = slices.Delete(all, at, at+1)
			case random.IntN(4) == 0:
				step = "relabel " + all[at].Name
				all[at].Labels[v1beta2.LabelRuntimeID] = []string{"r-1", "r-2"}[random.IntN(2)]
			case random.IntN(8) == 0:
				step = "release " + all[at].Name
				all[at].Annotations = map[string]string{v1beta2.AnnotationMovedAway: v1beta2.True}
			case random.IntN(6) == 0 && RuntimeID(&all[at]) == "r-1" && ClaimedRuntimeID(&all[at]) == "r-1":
				step, decides = "assign to "+all[at].Name, true
				AcceptChallenge(&all[at], all, now)
				enrolled(all[at].Status.Runtime)
				all[at].Annotations = nil
			default:
				step = "reconcile " + all[at].Name
				owners := NewOwners(all)
				switch err := owners.Check(&all[at]); {
				case err == nil:
					RecordOwner(&all[at])
				case CanBeAssigned(&all[at], err):
					owners.RecordDenied(&all[at])
				}
			}
			steps = append(steps, step)
			next := ""
			if kyma := NewOwners(all)["r-1"]; kyma != nil {
				next = kyma.Name
			}
			if others[next] && !decides {
				t.Fatalf("history %d: Kyma %s became the owner: %v", history, next, steps)
			}
			for i := range all {
				kyma := &all[i]
				claims := ClaimedRuntimeID(kyma) == "r-1"
				others[kyma.Name] = claims && kyma.Name != next && (next != "" || others[kyma.Name])
			}
		}
	}
}
