package status

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func statusOf(t *testing.T, s *controlplanetest.Server, f statusFlags, whole bool, now time.Time) string {
	t.Helper()
	f.Namespace = controlplane.DefaultNamespace
	api, table := s.Connect(t)
	of := controlplane.KymaSelector{Namespace: f.Scope(), Selector: labels.Everything()}
	in, err := f.readBy(t.Context(), api, table, of)
	if whole {
		in, err = controlplane.ReadInput(t.Context(), api, of, controlplane.DividedRuntimes{})
	}
	if err != nil {
		t.Fatal(err)
	}
	in.Now = now
	var out strings.Builder
	if err := f.print(&out, fleet.Assess(in)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestStatusFromTableEqualsStatusFromAllKymas(t *testing.T) {
	s, now := controlplanetest.New(t, 100, setSomeVersions, controlplanetest.BreakSome, elsewhere), time.Now()
	for name, f := range map[string]statusFlags{
		"fleet as a table":       {format: "table"},
		"fleet as a wide table":  {format: formatWide},
		"names of the fleet":     {format: formatName},
		"failing runtimes":       {format: "table", runtimeFilter: runtimeFilter{failing: true}},
		"silent runtimes":        {format: "table", runtimeFilter: runtimeFilter{silent: true}},
		"a healthy runtime":      {format: "table", runtimeFilter: runtimeFilter{runtime: "runtime-00007"}},
		"a failing runtime":      {format: formatWide, runtimeFilter: runtimeFilter{runtime: "runtime-00003"}},
		"one runtime as JSON":    {format: "json", runtimeFilter: runtimeFilter{runtime: "runtime-00008"}},
		"all runtimes":           {format: "table", all: true},
		"all runtimes, wide":     {format: formatWide, all: true},
		"all runtimes as JSON":   {format: "json"},
		"runtimes with a module": {format: formatWide, runtimeFilter: runtimeFilter{module: "module-b"}},
		"runtimes with version 1.7.0": {
			format: "table", runtimeFilter: runtimeFilter{module: "module-b", version: "1.7.0"},
		},
		"runtimes with version 1.8.0": {format: formatName, runtimeFilter: runtimeFilter{version: "1.8.0"}},
		"failing runtimes with a module": {
			format: "table", runtimeFilter: runtimeFilter{module: "module-a", failing: true},
		},
		"all namespaces":                 {format: "table", Flags: controlplane.Flags{Everywhere: true}},
		"all runtimes of all namespaces": {format: formatWide, all: true, Flags: controlplane.Flags{Everywhere: true}},
		"one runtime of all namespaces": {
			format: "table", runtimeFilter: runtimeFilter{runtime: "runtime-00009"},
			Flags: controlplane.Flags{Everywhere: true},
		},
	} {
		want := statusOf(t, s, f, true, now)
		if got := statusOf(t, s, f, false, now); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestStatusReadsOnlyUnhealthyKymasInFull(t *testing.T) {
	s := controlplanetest.New(t, 1001, controlplanetest.BreakSome)
	if got := statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); !strings.Contains(got, "997 healthy\n") {
		t.Fatalf("got status %s, want 997 healthy runtimes", got)
	}
	slices.Sort(s.CompleteReads)
	var want []string
	for _, i := range slices.Sorted(maps.Keys(controlplanetest.UnhealthyAt)) {
		want = append(want, fmt.Sprintf("runtime-%05d", i))
	}
	if !slices.Equal(s.CompleteReads, want) {
		t.Errorf("read Kymas %v, want %v", s.CompleteReads, want)
	}
}

func TestStatusListsManyUnreadyKymasInOneRequest(t *testing.T) {
	s := controlplanetest.New(t, 100, func(i int, kyma *v1beta2.Kyma) {
		if i < 16 {
			controlplanetest.Break(kyma)
		}
	})
	if got := statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); !strings.Contains(got,
		"16 failing, 84 healthy\n") {
		t.Errorf("got status %s, want 16 failing and 84 healthy runtimes", got)
	}
	if want := []string{"list status.state!=Ready"}; !slices.Equal(s.CompleteReads, want) {
		t.Errorf("read Kymas %v, want %v", s.CompleteReads, want)
	}
}

func TestStatusReadsAllKymasWithoutSelectableFields(t *testing.T) {
	s := controlplanetest.New(t, 100, func(i int, kyma *v1beta2.Kyma) {
		if i < 16 {
			controlplanetest.Break(kyma)
		}
	})
	s.Fieldless = true
	if got := statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); !strings.Contains(got,
		"16 failing, 84 healthy\n") {
		t.Errorf("got status %s, want 16 failing and 84 healthy runtimes", got)
	}
}

func TestStatusReadsAllKymasWithoutAUsefulTable(t *testing.T) {
	older := controlplanetest.New(t, 100)
	older.Columns = slices.DeleteFunc(older.Columns, func(name string) bool { return name == "Healthy Until" })
	unvouched := controlplanetest.New(t, 100, func(_ int, kyma *v1beta2.Kyma) { kyma.Status.Runtime.HealthyUntil = nil })
	expired := controlplanetest.New(t, controlplane.PageSize+1)
	expired.Expires = true
	for name, s := range map[string]*controlplanetest.Server{"an expired table": expired,
		"a CRD from an older release": older, "an older publisher": unvouched,
		"a small fleet": controlplanetest.New(t, controlplane.SmallFleet)} {
		want := fmt.Sprintf("0 of %d runtimes need attention: %d healthy", len(s.Kymas), len(s.Kymas))
		pages := slices.Repeat([]string{"list "}, (len(s.Kymas)+controlplane.PageSize-1)/controlplane.PageSize)
		if got := statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", name, got)
		}
		if !slices.Equal(s.CompleteReads, pages) {
			t.Errorf("%s: read %v, want %v", name, s.CompleteReads, pages)
		}
	}
}

// A Kyma that becomes unhealthy after the table was read must not appear as healthy.
func TestStatusIncludesAKymaThatFailsDuringTheRead(t *testing.T) {
	s := controlplanetest.New(t, 100, func(i int, kyma *v1beta2.Kyma) {
		if i < 16 {
			controlplanetest.Break(kyma)
		}
	})
	api, table := s.Connect(t)
	of := controlplane.KymaSelector{Namespace: controlplane.DefaultNamespace, Selector: labels.Everything()}
	rows, err := controlplane.ListRows(t.Context(), table, of)
	if err != nil {
		t.Fatal(err)
	}
	controlplanetest.Break(&s.Kymas[50])
	if s.Items[50], err = json.Marshal(&s.Kymas[50]); err != nil {
		t.Fatal(err)
	}
	f := statusFlags{format: "table"}
	in, err := controlplane.ReadInput(t.Context(), api, of, f.divideRuntimes(rows, fleet.Rollouts{}, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	in.Now = time.Now()
	if got := fleet.Assess(in).Summary; got.Total != 100 || got.Health[fleet.Failing] != 17 {
		t.Errorf("got summary %+v, want 17 failing of 100 runtimes", got)
	}
}

func TestStatusFailsWithoutKymaCRD(t *testing.T) {
	api, table := (&controlplanetest.Server{Undefined: true}).Connect(t)
	_, err := (&statusFlags{format: "table"}).readBy(t.Context(), api, table, controlplane.KymaSelector{
		Namespace: controlplane.DefaultNamespace, Selector: labels.Everything(),
	})
	// only a client with a RESTMapper adds a hint to this error
	if err == nil || !strings.HasPrefix(err.Error(), "list Kymas: ") {
		t.Errorf("got %v, want an error about the list of Kymas", err)
	}
}
