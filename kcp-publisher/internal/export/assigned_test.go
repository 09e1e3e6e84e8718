package export

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

// versions returns the runtimes with their modules as text, such as "berlin keda 1.0.0".
func versions(runtimes []inventory.Runtime) string {
	var lines []string
	for _, r := range runtimes {
		line := r.ID
		for _, m := range r.Modules {
			line += " " + m.Name + " " + m.Version
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

func TestEarlierBundlesAreFoundThroughPreviousDigests(t *testing.T) {
	f := newFleet(t)
	version := func(v string) bundle.Manifest {
		m := f.installed("keda", "lab/keda:"+v)
		m.Version = v
		return m
	}
	f.publish("berlin", version("1.0.0"))
	f.later = time.Hour
	f.publish("berlin", version("1.1.0"))
	f.later = 2 * time.Hour
	munich := f.publish("munich", version("1.1.0"))
	f.later = 3 * time.Hour
	berlin := f.publish("berlin", version("1.2.0"))
	runtimes := []inventory.Runtime{
		{ID: "berlin", Bundle: berlin.String()},
		{ID: "munich", Bundle: munich.String()},
		{ID: "new"},
	}

	for after, want := range map[time.Duration]string{
		-time.Minute:                "",
		0:                           "berlin keda 1.0.0",
		90 * time.Minute:            "berlin keda 1.1.0",
		3*time.Hour - time.Minute:   "berlin keda 1.1.0, munich keda 1.1.0",
		100 * 24 * time.Hour:        "berlin keda 1.2.0, munich keda 1.1.0",
		2*time.Hour + 1*time.Second: "berlin keda 1.1.0, munich keda 1.1.0",
	} {
		at, unread, err := AssignedRuntimes(t.Context(), f.options(), runtimes, noon.Add(after), noon.Add(1000*time.Hour))
		f.must(err)
		if got := versions(at[0]); got != want || len(unread) != 0 {
			t.Errorf("after %s: got %q, want %q; unread %+v", after, got, want, unread)
		}
		if got := versions(at[1]); got != "berlin keda 1.2.0, munich keda 1.1.0" {
			t.Errorf("after all bundles: got runtimes %q", got)
		}
	}

	// If a bundle cannot be read, the runtime's state is unknown, so AssignedRuntimes must not return the runtime
	// without modules.
	runtimes[0].Bundle = munich.String()
	at, unread, err := AssignedRuntimes(t.Context(), f.options(), runtimes, noon, noon.Add(1000*time.Hour))
	f.must(err)
	if versions(at[1]) != "munich keda 1.1.0" || len(unread) != 1 || unread[0].Runtime != "berlin" {
		t.Errorf("with a bundle of another runtime: got %q, unread %+v", versions(at[1]), unread)
	}
}

func TestPrunedBundlesAreReportedAsMissing(t *testing.T) {
	f := newFleet(t)
	gone := bundle.Position{Sequence: 1, Digest: "sha256:" + bundleDigits}
	f.last["berlin"], f.later = &gone, time.Hour
	newest := f.publish("berlin", f.installed("keda", "lab/keda:1"))
	runtimes := []inventory.Runtime{{ID: "berlin", Bundle: newest.String()}}
	at, unread, err := AssignedRuntimes(t.Context(), f.options(), runtimes, noon, noon.Add(2*time.Hour))
	f.must(err)
	if len(at[0])+len(at[1]) != 0 || len(unread) != 1 ||
		!strings.Contains(unread[0].Problem, "was not found in the registry") {
		t.Errorf("got %+v, unread %+v", at, unread)
	}
	// For later times, the pruned bundle is not needed.
	at, unread, err = AssignedRuntimes(t.Context(), f.options(), runtimes, noon.Add(time.Hour), noon.Add(2*time.Hour))
	f.must(err)
	if len(at[0]) != 1 || len(at[1]) != 1 || len(unread) != 0 {
		t.Errorf("got %+v, unread %+v", at, unread)
	}
}

func TestUnknownHistoryIsNotAnEmptyHistory(t *testing.T) {
	f := newFleet(t)
	f.last["berlin"] = &bundle.Position{Sequence: 100, Digest: "sha256:" + bundleDigits}
	f.publish("berlin", f.installed("keda", "lab/keda:1"))
	f.clockAhead, f.later = 50, time.Hour
	berlin := f.publish("berlin", f.installed("keda", "lab/keda:1")) // as after a new epoch
	f.publish("munich", f.installed("keda", "lab/keda:1"))
	runtimes := inventory.PublishedRuntimes([]v1beta2.Kyma{
		kymaWith("berlin", berlin.String()), kymaWith("munich", ""), kymaWith("new", ""), kymaWith("berlin", ""),
	})
	at, unread, err := AssignedRuntimes(t.Context(), f.options(), runtimes, noon, noon.Add(2*time.Hour))
	f.must(err)
	if len(at[0])+len(at[1]) != 0 || len(unread) != 2 ||
		!strings.Contains(unread[0].Problem, "does not have a higher sequence than its previous bundle") ||
		unread[1] != (inventory.Unread{Runtime: "munich", Problem: "no published bundle is recorded"}) {
		t.Errorf("got %+v, unread %+v, want berlin and munich unread", at, unread)
	}
	// For later times, the earlier bundle is not needed.
	at, unread, err = AssignedRuntimes(t.Context(), f.options(), runtimes[:1], noon.Add(time.Hour), noon.Add(2*time.Hour))
	f.must(err)
	if len(at[0]) != 1 || len(at[1]) != 1 || len(unread) != 0 {
		t.Errorf("got %+v, unread %+v, want berlin in both lists", at, unread)
	}
}

// kymaWith returns the Kyma of a runtime with this published bundle. An empty digest means that none is recorded.
func kymaWith(runtime, published string) (kyma v1beta2.Kyma) {
	kyma.Name, kyma.Labels = runtime, map[string]string{v1beta2.LabelRuntimeID: runtime}
	if published != "" {
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			ID: runtime, Published: &v1beta2.PublishedBundle{Digest: published},
		}
	}
	return kyma
}

const bundleDigits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestRuntimesWithoutAKymaAreFoundInTheRegistry(t *testing.T) {
	repositories := []string{
		"components/x", bundle.ReportRepository("tokyo"), bundle.DesiredRepository("tokyo"),
		bundle.DesiredRepository("berlin"), bundle.DesiredRepository("Not/valid"), bundle.DesiredRepository("munich"),
	}
	if got := runtimesWithoutKyma(repositories, []string{"berlin"}); !slices.Equal(got, []string{"munich", "tokyo"}) {
		t.Errorf("got runtimes %q, want munich and tokyo", got)
	}
	f := newFleet(t)
	if got, err := RuntimesWithoutKyma(t.Context(), f.options(), nil); err == nil {
		t.Errorf("for a store that does not list its repositories: got %q without an error", got)
	}
}

// The results have the order of the runtimes, although several runtimes are read at the same time.
func TestManyRuntimesAreReadInOrder(t *testing.T) {
	f := newFleet(t)
	var runtimes []inventory.Runtime
	var want []string
	for i := range 3 * assignedReads {
		id := fmt.Sprintf("runtime-%02d", i)
		digest := f.publish(id, f.installed("keda", "lab/keda:1"))
		runtimes, want = append(runtimes, inventory.Runtime{ID: id, Bundle: digest.String()}), append(want, id)
	}
	at, unread, err := AssignedRuntimes(t.Context(), f.options(), runtimes, noon.Add(time.Hour))
	f.must(err)
	var got []string
	for _, r := range at[0] {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) || len(unread) > 0 {
		t.Errorf("got runtimes %q, unread %+v, want %q", got, unread, want)
	}
}
