package bundle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func takenOverState() DesiredState {
	state := sampleState()
	state.Takeover = TakeoverAdopt
	state.Manifests[0].Inherited = SortObjects([]ObjectRef{
		{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "kyma-system", Name: "keda-manager"},
		{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass", Name: "keda-priority-class"},
		{Version: "v1", Kind: "ServiceAccount", Namespace: "kyma-system", Name: "keda-manager"},
	})
	return state
}

func takenOverReport() Report {
	report := sampleReport()
	report.Takeover = &ReportedTakeover{
		Phase: TakeoverClean, Adopted: []string{"keda"}, Message: "Deployment kyma-system/skr-webhook: forbidden",
		Removed: []ObjectRef{{Version: "v1", Kind: "Service", Namespace: "kyma-system", Name: "skr-webhook-metrics"}},
	}
	return report
}

func TestInheritedObjectsMustBeUniqueAndSorted(t *testing.T) {
	service := ObjectRef{Version: "v1", Kind: "Service", Namespace: "kyma-system", Name: "keda"}
	role := ObjectRef{
		Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "keda:external-metrics",
	}
	with := func(change func(*ObjectRef)) []ObjectRef {
		o := service
		change(&o)
		return []ObjectRef{o}
	}
	many := make([]ObjectRef, MaxInherited+1)
	for i := range many {
		many[i] = service
		many[i].Name = fmt.Sprintf("keda-%05d", i)
	}
	for name, c := range map[string]struct {
		inherited []ObjectRef
		want      string // empty for no error
	}{
		"no objects":                       {nil, ""},
		"objects in order":                 {[]ObjectRef{service, role}, ""},
		"maximum number of objects":        {many[:MaxInherited], ""},
		"one object more than the maximum": {many, "inherit 5001 objects in total, must be at most 5000"},
		"duplicate object": {
			[]ObjectRef{service, service},
			"manifests[0].inherited[1]: Service kyma-system/keda: objects must be unique and sorted",
		},
		"duplicate object in another version": {
			[]ObjectRef{service, {Version: "v2", Kind: "Service", Namespace: "kyma-system", Name: "keda"}},
			"objects must be unique",
		},
		"unsorted objects":             {[]ObjectRef{role, service}, "manifests[0].inherited[1]"},
		"object without a kind":        {with(func(o *ObjectRef) { o.Kind = "" }), "manifests[0].inherited[0]: kind"},
		"kind that is a path":          {with(func(o *ObjectRef) { o.Kind = "pods/exec" }), "kind"},
		"object without a version":     {with(func(o *ObjectRef) { o.Version = "" }), "version"},
		"invalid group":                {with(func(o *ObjectRef) { o.Group = "a/b" }), "group"},
		"namespace that is a path":     {with(func(o *ObjectRef) { o.Namespace = "../x" }), "namespace"},
		"object without a name":        {with(func(o *ObjectRef) { o.Name = "" }), "name"},
		"name that is a path":          {with(func(o *ObjectRef) { o.Name = "a/b" }), "name"},
		"object named ..":              {with(func(o *ObjectRef) { o.Name = ".." }), "name"},
		"name with a control sequence": {with(func(o *ObjectRef) { o.Name = "a\x1b[2J" }), `name "a\x1b[2J"`},
		"name longer than the limit": {
			with(func(o *ObjectRef) { o.Name = strings.Repeat("a", 254) }), "at most 253",
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := sampleState()
			state.Manifests[0].Inherited = c.inherited
			data, err := EncodeDesiredState(state)
			if err != nil {
				t.Fatal(err)
			}
			_, err = DecodeDesiredState(data)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	shuffled := []ObjectRef{
		role, service, role, {Version: "v2", Kind: "Service", Namespace: "kyma-system", Name: "keda"},
	}
	if got := SortObjects(shuffled); !slices.Equal(got, []ObjectRef{service, role}) || shuffled[0] != role {
		t.Errorf("got objects %v from %v, want a sorted copy without duplicates", got, shuffled)
	}
}

func TestUnknownTakeoverPhasesAreRefused(t *testing.T) {
	for phase, good := range map[TakeoverPhase]bool{"": true, TakeoverAdopt: true, TakeoverClean: true,
		TakeoverRelease: true, "Adopt": false, "finish": false} {
		state := takenOverState()
		state.Takeover = phase
		data, err := EncodeDesiredState(state)
		if err != nil {
			t.Fatal(err)
		}
		read, err := DecodeDesiredState(data)
		if good &&
			(err != nil || !reflect.DeepEqual(read.Manifests[0].Inherited, state.Manifests[0].Inherited) ||
				read.Takeover != phase) {
			t.Errorf("phase %q: got state %v, error %v, want the encoded state", phase, read, err)
		}
		if !good && (err == nil || !strings.Contains(err.Error(), "must be adopt, clean, release or empty")) {
			t.Errorf("phase %q: got error %v, want the list of phases", phase, err)
		}
	}
	state := sampleState()
	state.Settings.Autonomy = AutonomyCatalog
	state.Offers = takenOverState().Manifests
	data, err := EncodeDesiredState(state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeDesiredState(data); err == nil ||
		!strings.Contains(err.Error(), "offers[0].inherited: only manifests can inherit objects") {
		t.Errorf("offer with inherited objects: got error %v, want a refusal", err)
	}
}

func TestDocumentsWithoutTakeoverOmitTakeoverFields(t *testing.T) {
	documents, err := NewDocuments(sampleState(), sampleCatalog())
	if err != nil {
		t.Fatal(err)
	}
	report := encode(t, Report{Modules: []ReportedModule{{Name: "keda", State: v1beta2.StateReady}}})
	for _, text := range []string{string(documents.State.Bytes), report} {
		if strings.Contains(text, "takeover") || strings.Contains(text, "inherited") {
			t.Errorf("got %s, want no fields of a takeover", text)
		}
	}
}
