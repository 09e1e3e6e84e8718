package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

var unhealthyAt = map[int]func(*v1beta2.Kyma){
	3:  broken,
	14: func(k *v1beta2.Kyma) { k.Labels[v1beta2.LabelSkipReconciliation] = "true" },
	15: func(k *v1beta2.Kyma) { k.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Minute)} },
	92: func(k *v1beta2.Kyma) { k.Status.Runtime.HealthyUntil = nil },
	65: func(k *v1beta2.Kyma) {
		long := metav1.NewTime(time.Now().Add(-72 * time.Hour))
		k.Status.Runtime.Observed.Time, k.Status.Runtime.Observed.Heard = long, &long
		k.Status.Runtime.HealthyUntil = &metav1.Time{Time: long.Add(25 * time.Hour)}
	},
}

func broken(k *v1beta2.Kyma) {
	k.Status.State, k.Status.Runtime.HealthyUntil = v1beta2.StateError, nil
	k.Status.Modules[0].State, k.Status.Modules[0].Message = v1beta2.StateError, "crashes"
	k.Status.Conditions[0].Status, k.Status.Conditions[0].Reason = metav1.ConditionFalse, v1beta2.ReasonNotReady
}

func unwellSome(i int, kyma *v1beta2.Kyma) {
	if change := unhealthyAt[i]; change != nil {
		change(kyma)
	}
}

func statusOf(t *testing.T, s *kymaServer, f statusFlags, whole bool, now time.Time) string {
	t.Helper()
	f.namespace = defaultNamespace
	api, table := s.connect(t)
	of := scope{namespace: f.scope(), selector: labels.Everything()}
	in, err := f.readBy(t.Context(), api, table, of)
	if whole {
		in, err = readInput(t.Context(), api, of, dividedRuntimes{})
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
	s, now := manyKymas(t, 100, versionsOfSome, unwellSome, elsewhere), time.Now()
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
		"all namespaces":                 {format: "table", controlPlane: controlPlane{everywhere: true}},
		"all runtimes of all namespaces": {format: formatWide, all: true, controlPlane: controlPlane{everywhere: true}},
		"one runtime of all namespaces": {
			format: "table", runtimeFilter: runtimeFilter{runtime: "runtime-00009"},
			controlPlane: controlPlane{everywhere: true},
		},
	} {
		want := statusOf(t, s, f, true, now)
		if got := statusOf(t, s, f, false, now); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestStatusReadsOnlyUnhealthyKymasInFull(t *testing.T) {
	s := manyKymas(t, 2*pageOf+1, unwellSome)
	if got := statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); !strings.Contains(got, "997 healthy\n") {
		t.Fatalf("got status %s, want 997 healthy runtimes", got)
	}
	slices.Sort(s.whole)
	var want []string
	for _, i := range slices.Sorted(maps.Keys(unhealthyAt)) {
		want = append(want, fmt.Sprintf("runtime-%05d", i))
	}
	if !slices.Equal(s.whole, want) {
		t.Errorf("read Kymas %v, want %v", s.whole, want)
	}
}

func TestStatusListsManyUnreadyKymasInOneRequest(t *testing.T) {
	s := manyKymas(t, 100, func(i int, kyma *v1beta2.Kyma) {
		if i < 2*readersOfKymas {
			broken(kyma)
		}
	})
	if got := statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); !strings.Contains(got,
		"16 failing, 84 healthy\n") {
		t.Errorf("got status %s, want 16 failing and 84 healthy runtimes", got)
	}
	if want := []string{"list status.state!=Ready"}; !slices.Equal(s.whole, want) {
		t.Errorf("read Kymas %v, want %v", s.whole, want)
	}
}

func TestStatusReadsAllKymasWithoutSelectableFields(t *testing.T) {
	s := manyKymas(t, 100, func(i int, kyma *v1beta2.Kyma) {
		if i < 2*readersOfKymas {
			broken(kyma)
		}
	})
	s.fieldless = true
	if got := statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); !strings.Contains(got,
		"16 failing, 84 healthy\n") {
		t.Errorf("got status %s, want 16 failing and 84 healthy runtimes", got)
	}
}

func TestStatusReadsAllKymasWithoutAUsefulTable(t *testing.T) {
	older := manyKymas(t, 100)
	older.columns = slices.DeleteFunc(older.columns, func(name string) bool { return name == "Healthy Until" })
	unvouched := manyKymas(t, 100, func(_ int, kyma *v1beta2.Kyma) { kyma.Status.Runtime.HealthyUntil = nil })
	expired := manyKymas(t, pageOf+1)
	expired.expires = true
	for name, s := range map[string]*kymaServer{"an expired table": expired,
		"a CRD of an older release": older, "an older publisher": unvouched,
		"a small fleet": manyKymas(t, listedWhole)} {
		want := fmt.Sprintf("none of %d runtimes needs attention: %d healthy", len(s.kymas), len(s.kymas))
		pages := slices.Repeat([]string{"list "}, (len(s.kymas)+pageOf-1)/pageOf)
		if got := statusOf(t, s, statusFlags{format: "table"}, false, time.Now()); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", name, got)
		}
		if !slices.Equal(s.whole, pages) {
			t.Errorf("%s: read %v, want %v", name, s.whole, pages)
		}
	}
}

// A Kyma that becomes unhealthy after the table was read must not appear as healthy.
func TestStatusIncludesAKymaThatFailsDuringTheRead(t *testing.T) {
	s := manyKymas(t, 100, func(i int, kyma *v1beta2.Kyma) {
		if i < 2*readersOfKymas {
			broken(kyma)
		}
	})
	api, table := s.connect(t)
	of := scope{namespace: defaultNamespace, selector: labels.Everything()}
	rows, err := listRows(t.Context(), table, of)
	if err != nil {
		t.Fatal(err)
	}
	broken(&s.kymas[50])
	if s.items[50], err = json.Marshal(&s.kymas[50]); err != nil {
		t.Fatal(err)
	}
	f := statusFlags{format: "table"}
	in, err := readInput(t.Context(), api, of, f.divideRuntimes(rows, fleet.Rollouts{}, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	in.Now = time.Now()
	if got := fleet.Assess(in).Summary; got.Total != 100 || got.Health[fleet.Failing] != 17 {
		t.Errorf("got summary %+v, want 17 failing of 100 runtimes", got)
	}
}

func TestStatusFailsWithoutKymaCRD(t *testing.T) {
	api, table := (&kymaServer{undefined: true}).connect(t)
	_, err := (&statusFlags{format: "table"}).readBy(t.Context(), api, table, scope{
		namespace: defaultNamespace, selector: labels.Everything(),
	})
	// a client that knows the cluster's kinds adds a hint
	if err == nil || !strings.HasPrefix(err.Error(), "list Kymas: ") {
		t.Errorf("got %v, want an error about the list of Kymas", err)
	}
}
