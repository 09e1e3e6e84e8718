package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func setSomeVersions(i int, k *v1beta2.Kyma) {
	if i == 20 {
		k.Status.Modules[2].State = v1beta2.StateUnmanaged
	}
	if i%5 == 0 {
		controlplanetest.SetVersion("1.8.0", k)
	}
}

func elsewhere(i int, k *v1beta2.Kyma) {
	if i < 90 {
		return
	}
	k.Namespace = "other"
	if i < 95 && i != 92 {
		k.Name = fmt.Sprintf("runtime-%05d", i-90)
		k.Status.Runtime.ID = k.Name
	}
}

func TestStatusListsHealthyRuntimesFromTheTable(t *testing.T) {
	var unwell, inKCP []string
	for _, i := range slices.Sorted(maps.Keys(controlplanetest.UnhealthyAt)) {
		unwell = append(unwell, fmt.Sprintf("runtime-%05d", i))
		if i < 90 {
			inKCP = append(inKCP, unwell[len(unwell)-1])
		}
	}
	everywhere := controlplane.Flags{Everywhere: true}
	for name, c := range map[string]struct {
		f    statusFlags
		want []string
	}{
		"all runtimes":     {statusFlags{format: "table", all: true}, inKCP},
		"a module filter":  {statusFlags{format: "table", runtimeFilter: runtimeFilter{module: "module-b"}}, inKCP},
		"a version filter": {statusFlags{format: formatWide, runtimeFilter: runtimeFilter{version: "1.8.0"}}, inKCP},
		"names with module and version filters": {
			statusFlags{format: formatName, runtimeFilter: runtimeFilter{module: "module-b", version: "1.8.0"}}, inKCP,
		},
		"all namespaces":                 {statusFlags{format: "table", Flags: everywhere}, unwell},
		"all runtimes of all namespaces": {statusFlags{format: "table", all: true, Flags: everywhere}, unwell},
	} {
		s := controlplanetest.New(t, 100, setSomeVersions, controlplanetest.BreakSome, elsewhere)
		statusOf(t, s, c.f, false, time.Now())
		if slices.Sort(s.CompleteReads); !slices.Equal(s.CompleteReads, c.want) {
			t.Errorf("%s: read Kymas %v, want %v", name, s.CompleteReads, c.want)
		}
	}
}

func TestStatusReadsAllKymasIfTheTableHasNoVersions(t *testing.T) {
	older := controlplanetest.New(t, 100)
	older.Columns = slices.DeleteFunc(older.Columns, func(name string) bool { return name == "Running" })
	for name, s := range map[string]*controlplanetest.Server{
		"a CRD from an older release": older,
		"an older publisher": controlplanetest.New(t, 100, func(_ int, k *v1beta2.Kyma) {
			k.Status.Runtime.Running = ""
		}),
		"a downgraded publisher": controlplanetest.New(t, 100, func(_ int, k *v1beta2.Kyma) {
			k.Status.Runtime.Published.Sequence++
		}),
	} {
		got := statusOf(t, s, statusFlags{format: "table", runtimeFilter: runtimeFilter{module: "module-b"}}, false,
			time.Now())
		if !strings.Contains(got, "100 of 100 runtimes") || !slices.Equal(s.CompleteReads, []string{"list "}) {
			t.Errorf("%s: read Kymas %v and printed %s", name, s.CompleteReads, got)
		}
		s.CompleteReads = nil
		if statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); len(s.CompleteReads) > 0 {
			t.Errorf("%s: read Kymas %v, want only the table", name, s.CompleteReads)
		}
	}
}

// A rollout can hold a runtime at its version, but the API server's table of Kymas does not show this.
func TestStatusReadsKymasWhoseVersionsARolloutCanHold(t *testing.T) {
	now, everybody, half := time.Now(), int32(100), int64(1)<<53
	s := controlplanetest.New(t, 100, func(i int, k *v1beta2.Kyma) {
		k.Spec.Modules[1].Managed = true
		if i >= 10 {
			controlplanetest.SetVersion("1.8.0", k)
		}
	})
	s.Rollout = &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{
		Namespace: controlplane.DefaultNamespace, Name: "module-b-regular-1",
	},
		Spec: v1alpha1.RolloutSpec{Policy: "waves", Module: "module-b", Channel: "regular", Revision: 1, From: "1.7.0",
			To:     "1.8.0",
			Course: v1alpha1.Course{Waves: []v1alpha1.Wave{{Name: "all", Percent: &everybody}}}},
		Status: v1alpha1.RolloutStatus{
			State: v1alpha1.RolloutPaused, Waves: []v1alpha1.WaveStatus{{Name: "all", Place: &half}},
		}}
	for name, c := range map[string]struct {
		f    statusFlags
		want int
	}{
		"runtimes with the module": {
			statusFlags{format: "table", runtimeFilter: runtimeFilter{module: "module-b"}}, 10,
		},
		"runtimes with the former version": {
			statusFlags{format: "table", runtimeFilter: runtimeFilter{module: "module-b", version: "1.7.0"}}, 10,
		},
		"runtimes with the new version": {
			statusFlags{format: "table", runtimeFilter: runtimeFilter{module: "module-b", version: "1.8.0"}}, 0,
		},
		"names of runtimes with the module": {
			statusFlags{format: formatName, runtimeFilter: runtimeFilter{module: "module-b"}}, 0,
		},
		"all runtimes":    {statusFlags{format: "table", all: true}, 10},
		"the whole fleet": {statusFlags{format: "table"}, 0},
	} {
		want := statusOf(t, s, c.f, true, now)
		s.CompleteReads = nil
		if got := statusOf(t, s, c.f, false, now); got != want || len(s.CompleteReads) != c.want {
			t.Errorf("%s: read %v and printed\n%s\nwant\n%s", name, s.CompleteReads, got, want)
		}
	}
	if whole := statusOf(t, s, statusFlags{format: "table", all: true}, true, now); strings.Count(whole,
		"module module-b is Ready in version 1.7") != 10 {
		t.Errorf("want 10 held runtimes in\n%s", whole)
	}
}

func TestUnknownModuleIsReportedByTableAndWatch(t *testing.T) {
	s := controlplanetest.New(t, 100)
	s.Meta = &v1beta2.ModuleReleaseMeta{
		ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.DefaultNamespace, Name: "module-y"},
		Spec:       v1beta2.ModuleReleaseMetaSpec{ModuleName: "module-y"},
	}
	api, table := s.Connect(t)
	for module, want := range map[string]string{"module-z": "--module module-z is not in", "module-y": "",
		"module-a": ""} {
		s.CompleteReads = nil
		f := statusFlags{
			format: "table", runtimeFilter: runtimeFilter{module: module},
			Flags: controlplane.Flags{Namespace: controlplane.DefaultNamespace},
		}
		in, err := f.readBy(t.Context(), api, table,
			controlplane.KymaSelector{Namespace: controlplane.DefaultNamespace, Selector: labels.Everything()})
		if err != nil || len(s.CompleteReads) > 0 {
			t.Fatalf("read Kymas %v, want none: %v", s.CompleteReads, err)
		}
		around, err := f.readOffered(t.Context(), api)
		if err != nil {
			t.Fatal(err)
		}
		watched, err := f.assess(t.Context(), api, around)
		if err != nil {
			t.Fatal(err)
		}
		for how, err := range map[string]error{"a table": f.checkModuleExists(fleet.Assess(in).Modules),
			"a watch": f.begin(io.Discard, watched)} {
			if got := fmt.Sprint(err); (err != nil) != (want != "") || !strings.Contains(got, want) {
				t.Errorf("%s with module %s: got %v", how, module, err)
			}
		}
	}
}
