package report

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestReportHasTakeoverProgress(t *testing.T) {
	in := digest.FromString("the bundle in force")
	inheriting := []bundle.Manifest{
		{Name: "keda", Module: "keda", Inherited: []bundle.ObjectRef{{Version: "v1", Kind: "ConfigMap", Name: "a"}}},
		{Name: "plain", Module: "plain"},
	}
	manifest := func(annotation string, condition metav1.ConditionStatus) []v1beta2.Manifest {
		m := v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: "keda"}}
		if annotation != "" {
			m.Annotations = map[string]string{v1beta2.AnnotationRecord: `{"record":{"inherited":"` + annotation + `"}}`}
		}
		m.Status.State = v1beta2.StateProcessing
		m.Status.Conditions = []metav1.Condition{
			{Type: v1beta2.ConditionInstallation, Status: condition},
			{Type: v1beta2.ConditionReady, Message: "waits for a pod"},
		}
		return []v1beta2.Manifest{m}
	}
	records := record.Store{Signer: trusttest.NewSigner(t)}
	text, err := json.Marshal(inheriting[0].Inherited)
	require.NoError(t, err)
	inherited := digest.FromBytes(text).String()
	signed := func(inherited string, condition metav1.ConditionStatus) []v1beta2.Manifest {
		all := manifest("", condition)
		require.NoError(t, records.Set(&all[0], record.Record{Inherited: inherited}))
		return all
	}
	leftover := bundle.ObjectRef{Version: "v1", Kind: "Service", Namespace: "kyma-system", Name: "skr-webhook"}
	for name, c := range map[string]struct {
		phase   bundle.TakeoverPhase
		facts   Facts
		done    bool
		adopted []string
		removed int
		message string
	}{
		"Manifest does not exist yet": {
			bundle.TakeoverAdopt, Facts{}, false, nil, 0,
			"module keda (Manifest keda) is not adopted: the Manifest does not exist yet",
		},
		"Manifest without a list of inherited objects": {
			bundle.TakeoverAdopt, Facts{Manifests: manifest("", metav1.ConditionTrue)}, false, nil, 0,
			"(Manifest keda) is not adopted: waits for a pod",
		},
		"Manifest not completely applied": {
			bundle.TakeoverAdopt, Facts{Manifests: signed(inherited, metav1.ConditionFalse)}, false, nil, 0,
			"(Manifest keda) is not adopted: waits for a pod",
		},
		"record without a signature": {
			bundle.TakeoverAdopt, Facts{Manifests: manifest(inherited, metav1.ConditionTrue)}, false, nil, 0,
			"(Manifest keda) is not adopted: waits for a pod",
		},
		"objects from an earlier list": {
			bundle.TakeoverAdopt, Facts{Manifests: signed("sha256:earlier", metav1.ConditionTrue)}, false, nil, 0,
			"(Manifest keda) is not adopted: waits for a pod",
		},
		"content of module is missing": {
			bundle.TakeoverAdopt, Facts{ContentErrors: map[string]error{"keda": errors.New("no such blob")}}, false, nil, 0,
			"(Manifest keda) is not adopted: no such blob",
		},
		"module adopted but not ready": {
			bundle.TakeoverAdopt, Facts{Manifests: signed(inherited, metav1.ConditionTrue)}, true, []string{"keda"}, 0, "",
		},
		"leftovers removed": {
			bundle.TakeoverClean, Facts{PhaseDone: in.String(), Removed: []bundle.ObjectRef{leftover}}, true, nil, 1,
			"",
		},
		"phase in another bundle completed": {
			bundle.TakeoverClean, Facts{PhaseDone: "sha256:another"}, false, nil, 0, "the phase is in progress",
		},
		"removal of leftovers forbidden": {
			bundle.TakeoverClean, Facts{Trouble: &bundle.ReportedTrouble{Message: "is forbidden"}}, false, nil, 0,
			"is forbidden",
		},
		"Manifest not released yet": {
			bundle.TakeoverRelease, Facts{Manifests: manifest("x", metav1.ConditionTrue)}, false, nil, 0,
			"waiting for the deletion of Manifest keda and 0 others",
		},
		"runtime released": {
			bundle.TakeoverRelease, Facts{PhaseDone: in.String()}, true, nil, 0, "",
		},
		"no takeover": {
			"", Facts{PhaseDone: in.String(), Removed: []bundle.ObjectRef{leftover}}, false, nil, 0, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Bundle = &bundle.Bundle{State: bundle.DesiredState{Takeover: c.phase, Manifests: inheriting}}
			c.facts.Bundle.Digest, c.facts.ReadRecord = in, records.Read
			got := New("one", c.facts).Takeover
			if c.phase == "" {
				if got != nil {
					t.Fatalf("got takeover %+v, want none", got)
				}
				return
			}
			if got == nil || got.Phase != c.phase || got.Done != c.done || !slices.Equal(got.Adopted, c.adopted) ||
				len(got.Removed) != c.removed ||
				!strings.Contains(got.Message, c.message) ||
				c.done && got.Message != "" {
				t.Errorf("got takeover %+v, want done %t, adopted %v, %d removed objects and message %q", got, c.done,
					c.adopted, c.removed, c.message)
			}
		})
	}
}

func TestReleasedModulesAreReportedWithTheirVersions(t *testing.T) {
	facts := Facts{
		Bundle:    &bundle.Bundle{State: bundle.DesiredState{Takeover: bundle.TakeoverRelease}},
		Unmanaged: map[string]string{"keda": "1.7.0"},
	}
	if got := modules(facts); len(got) != 1 || got[0].Name != "keda" || got[0].Version != "1.7.0" ||
		got[0].State != v1beta2.StateUnmanaged {
		t.Errorf("got %+v for a released module without a Manifest, want keda 1.7.0 as unmanaged", got)
	}
	facts.Manifests = []v1beta2.Manifest{
		{ObjectMeta: metav1.ObjectMeta{Name: "keda"}, Spec: v1beta2.ManifestSpec{Version: "1.7.0"}},
	}
	if got := modules(facts); len(got) != 1 || got[0].Manifest == nil {
		t.Errorf("got %+v for a module with a Manifest, want one module", got)
	}
	facts.Bundle.State.Takeover, facts.Manifests = bundle.TakeoverAdopt, nil
	if got := modules(facts); len(got) != 0 {
		t.Errorf("got %+v for an unmanaged module in another phase, want no modules", got)
	}
}

func TestLifecycleManagerConditionsAreRemoved(t *testing.T) {
	before := v1beta2.KymaStatus{
		Conditions: []metav1.Condition{{Type: "CRDsSync"}, {Type: "SKRImagePullSecretSync"}, {Type: "SomebodyElses"}},
	}
	for phase, want := range map[bundle.TakeoverPhase]int{bundle.TakeoverAdopt: 3, bundle.TakeoverClean: 1} {
		facts := Facts{Bundle: &bundle.Bundle{State: bundle.DesiredState{Takeover: phase}}, Kyma: &v1beta2.Kyma{}}
		after := KymaStatus(before, facts, time.Unix(0, 0))
		left := 0
		for _, c := range before.Conditions {
			if meta.FindStatusCondition(after.Conditions, c.Type) != nil {
				left++
			}
		}
		if left != want {
			t.Errorf("%s: got %d of the conditions, want %d", phase, left, want)
		}
	}
}
