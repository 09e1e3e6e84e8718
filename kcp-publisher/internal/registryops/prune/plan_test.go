package prune

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var (
	today = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	rules = Rules{Now: today, MinAge: 30 * 24 * time.Hour, Limit: 1000}
)

func ago(days int) time.Time { return today.AddDate(0, 0, -days) }

func named(repository, tag, name string, blobs ...string) Manifest {
	m := Manifest{Repository: repository, Descriptor: ocispec.Descriptor{Digest: digest.FromString(name), Size: 1}}
	if tag != "" {
		m.Tags = []string{tag}
	}
	for _, b := range blobs {
		m.Blobs = append(m.Blobs, ocispec.Descriptor{Digest: digest.FromString(b), Size: 100})
	}
	return m
}

// bundlesOf returns bundles that were issued the given numbers of days ago. Each has its own documents: state-0 and
// catalog-0, and so on.
func bundlesOf(id string, issued ...int) (all []Bundle) {
	for i, days := range issued {
		tag := ""
		if i == 0 {
			tag = "desired"
		}
		state, catalog := fmt.Sprint("state-", i), fmt.Sprint("catalog-", i)
		all = append(all, Bundle{
			Manifest: named("runtimes/"+id, tag, fmt.Sprint(id, "-", i), state, catalog), IssuedAt: ago(days),
			ExpiresAt: ago(days - 7),
			State:     digest.FromString(state), Catalog: digest.FromString(catalog),
		})
	}
	return all
}

// removalText returns the removals of a plan as text: REPOSITORY:TAG, or REPOSITORY#i for the i-th bundle.
func removalText(inventory Inventory, plan Plan) string {
	var all []string
	for _, r := range plan.Remove {
		name := r.Repository + ":" + strings.Join(r.Tags, ",")
		for _, runtime := range inventory.Runtimes {
			for i, b := range runtime.Bundles {
				if b.Key() == r.Key() && i > 0 {
					name = fmt.Sprint(r.Repository, "#", i)
				}
			}
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestOnlyUnneededManifestsAreRemoved(t *testing.T) {
	long := map[string]time.Time{}
	for _, m := range []Manifest{
		named("documents", "", "set-1"), named("documents", "", "set-4"), named("content", "", "blob-x"),
		named("content", "", "blob-y"),
		named("reports/a", "", "report"), named("runtimes/a", "", "a-0"),
	} {
		long[m.Key()] = ago(40)
	}
	set := func(i int) Manifest {
		return named("documents", fmt.Sprint("set-", i), fmt.Sprint("set-", i), fmt.Sprint("state-", i),
			fmt.Sprint("catalog-", i))
	}
	content := func(name string) Manifest { return named("content", "blob-"+name, "blob-"+name, name) }
	needs := func(state, content string) map[digest.Digest][]digest.Digest {
		return map[digest.Digest][]digest.Digest{digest.FromString(state): {digest.FromString(content)}}
	}
	a := Runtime{ID: "a", Kyma: true}
	with := func(r Runtime, change func(*Runtime)) Runtime {
		change(&r)
		return r
	}
	report := named("reports/a", "latest", "report")
	for name, c := range map[string]struct {
		inventory Inventory
		noted     map[string]time.Time
		want      string
	}{
		"bundles that were superseded long ago are removed, oldest first": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1, 35, 50, 60, 70) })},
			},
			want: "runtimes/a#4 runtimes/a#3 runtimes/a#2",
		},
		"the previous bundle and recently superseded bundles are kept": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1, 2, 3, 200) })},
			},
			want: "",
		},
		"a report does not keep the documents whose blobs it lists": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) {
					r.Bundles = bundlesOf("a", 1)
					r.Reports = []Manifest{named("reports/a", "latest", "report", "set-1", "state-1", "catalog-1")}
				})},
				Shared: []Manifest{set(1)},
			},
			noted: map[string]time.Time{set(1).Key(): ago(40)}, want: "documents:set-1",
		},
		"a bundle that the runtime has applied is kept, with its documents and content": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) {
					r.Bundles, r.Remembered = bundlesOf("a", 40, 50, 60, 70, 80),
						[]digest.Digest{digest.FromString("a-4")}
				})},
				Shared: []Manifest{set(4), content("x")}, Contents: needs("state-4", "x"),
			},
			noted: long, want: "runtimes/a#3 runtimes/a#2",
		},
		"a tagged or referenced bundle is kept": {
			inventory: Inventory{Runtimes: []Runtime{with(a, func(r *Runtime) {
				r.Bundles, r.Named = bundlesOf("a", 40, 50, 60, 70), []digest.Digest{digest.FromString("a-3")}
			})}},
			want: "runtimes/a#2",
		},
		"documents and content that were recorded as unused long ago are removed": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1) })},
				Shared:   []Manifest{set(0), set(1), content("x"), content("y")}, Contents: needs("state-0", "y"),
			},
			noted: long, want: "documents:set-1 content:blob-x",
		},
		"documents with a used catalog are removed if another manifest contains the catalog": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1, 2) })},
				Shared: []Manifest{
					named("documents", "set-1", "set-1", "state-old", "catalog-0"),
					named("documents", "set-4", "set-4", "state-old", "catalog-1"), set(0),
					named("documents", "set-2", "set-2", "state-1", "catalog-old"),
				},
			},
			noted: long, want: "documents:set-1",
		},
		"unused manifests that were not recorded before are not removed yet": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1) })},
				Shared:   []Manifest{set(1), content("x")},
			},
			want: "",
		},
		"a recorded time in the future is replaced with the current time": {
			inventory: Inventory{Shared: []Manifest{set(1)}},
			noted:     map[string]time.Time{set(1).Key(): today.AddDate(1, 0, 0)}, want: "",
		},
		"if some runtimes could not be read, only manifests of single runtimes are removed": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 40, 50, 60) })},
				Shared:   []Manifest{set(1), content("x")}, Unknown: []string{"runtime b: no route"},
			},
			noted: long, want: "runtimes/a#2",
		},
		"without a sole publisher, a runtime without a Kyma is kept, with its content": {
			inventory: Inventory{
				Runtimes: []Runtime{{ID: "a", Bundles: bundlesOf("a", 400), Reports: []Manifest{report}}},
				Shared:   []Manifest{content("x")}, Contents: needs("state-0", "x"),
			},
			noted: long, want: "",
		},
		"with a sole publisher, a runtime without a Kyma is removed after its last bundle expired": {
			inventory: Inventory{
				Sole:     true,
				Runtimes: []Runtime{{ID: "a", Bundles: bundlesOf("a", 400, 401), Reports: []Manifest{report}}},
				Shared:   []Manifest{content("x")}, Contents: needs("state-0", "x"),
			},
			noted: long, want: "runtimes/a#1 runtimes/a:desired reports/a:latest content:blob-x",
		},
		"with a sole publisher, a runtime without a Kyma is kept until its last bundle expires": {
			inventory: Inventory{
				Sole: true, Runtimes: []Runtime{{ID: "a", Bundles: bundlesOf("a", 1), Reports: []Manifest{report}}},
			},
			noted: long, want: "",
		},
		"with a sole publisher, a runtime without a Kyma is kept if it was not recorded before": {
			inventory: Inventory{
				Sole: true, Runtimes: []Runtime{{ID: "a", Bundles: bundlesOf("a", 400), Reports: []Manifest{report}}},
			},
			want: "",
		},
		"a runtime in --gone is removed immediately": {
			inventory: Inventory{
				Runtimes: []Runtime{{ID: "a", Gone: true, Bundles: bundlesOf("a", 1), Reports: []Manifest{report}}},
			},
			want: "runtimes/a:desired reports/a:latest",
		},
		"a runtime with a Kyma is kept even if it is in --gone": {
			inventory: Inventory{
				Sole: true, Runtimes: []Runtime{
					{ID: "a", Kyma: true, Gone: true, Bundles: bundlesOf("a", 400), Reports: []Manifest{report}},
				},
			},
			noted: long, want: "",
		},
		"expired image lists are removed after the minimum age": {
			inventory: Inventory{Lists: []List{
				{Manifest: named("carried", "list-1", "l1", "l1"), ExpiresAt: ago(31)}, {
					Manifest: named("carried", "list-2", "l2", "l2"), ExpiresAt: ago(29),
				},
			}},
			want: "carried:list-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := Decide(c.inventory, c.noted, rules)
			if got := removalText(c.inventory, plan); got != c.want {
				t.Errorf("plan removes %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnusedManifestsAreRecordedUntilMinAge(t *testing.T) {
	unused := named("documents", "set-1", "set-1", "state-1", "catalog-1")
	inventory := Inventory{Shared: []Manifest{unused}}
	first := Decide(inventory, nil, rules)
	if since, ok := first.Noted[unused.Key()]; !ok || !since.Equal(today) || len(first.Remove) != 0 ||
		len(first.Waiting) != 1 {
		t.Fatalf("first run: got plan %+v, want one waiting manifest", first)
	}
	later := rules
	later.Now = today.Add(rules.MinAge)
	if second := Decide(inventory, first.Noted, later); len(second.Remove) != 1 || second.Bytes != 201 {
		t.Errorf("second run: got removals %+v with %d bytes, want one with 201 bytes", second.Remove, second.Bytes)
	}
	inventory.Unknown = []string{"something"}
	if between := Decide(inventory, first.Noted, later); !between.Noted[unused.Key()].Equal(today) {
		t.Errorf("with an unreadable runtime: got recorded times %v, want the previous ones", between.Noted)
	}
	inventory.Unknown, inventory.Runtimes = nil, []Runtime{{ID: "a", Kyma: true, Bundles: bundlesOf("a", 1, 2)}}
	if again := Decide(inventory, first.Noted, later); len(again.Noted) != 0 || len(again.Remove) != 0 {
		t.Errorf("manifest that is needed again: got %+v, want no record", again)
	}
}

func TestPruneRemovesAtMostTheLimitOfManifests(t *testing.T) {
	few := rules
	few.Limit = 2
	inventory := Inventory{Runtimes: []Runtime{{ID: "a", Kyma: true, Bundles: bundlesOf("a", 40, 50, 60, 70, 80, 90)}}}
	plan := Decide(inventory, nil, few)
	if got := removalText(inventory, plan); got != "runtimes/a#5 runtimes/a#4" || plan.Over != 2 {
		t.Errorf("got removals %q and %d over the limit, want 2 each", got, plan.Over)
	}
}

func TestRuntimeWithManyBundlesDoesNotDelayOthers(t *testing.T) {
	few := rules
	report := named("reports/c", "latest", "report")
	inventory := Inventory{
		Runtimes: []Runtime{
			{ID: "a", Kyma: true, Bundles: bundlesOf("a", 40, 50, 60, 70, 80, 90)},
			{ID: "b", Kyma: true, Bundles: bundlesOf("b", 40, 50, 60, 70)},
			{ID: "c", Gone: true, Bundles: bundlesOf("c", 1), Reports: []Manifest{report}},
		},
		Shared: []Manifest{named("documents", "set-x", "set-x", "state-x")},
	}
	noted := map[string]time.Time{inventory.Shared[0].Key(): ago(40)}
	for _, want := range []struct {
		limit, over int
		going       string
	}{
		{4, 5, "runtimes/a#5 runtimes/b#3 runtimes/c:desired documents:set-x"},
		{6, 3, "runtimes/a#5 runtimes/a#4 runtimes/b#3 runtimes/b#2 runtimes/c:desired documents:set-x"},
		{
			9, 0, "runtimes/a#5 runtimes/a#4 runtimes/a#3 runtimes/a#2 runtimes/b#3 runtimes/b#2 runtimes/c:desired " +
				"reports/c:latest documents:set-x",
		},
	} {
		few.Limit = want.limit
		plan := Decide(inventory, noted, few)
		if got := removalText(inventory, plan); got != want.going || plan.Over != want.over {
			t.Errorf("limit %d: plan removes %q with %d beyond the limit, want %q with %d", want.limit, got, plan.Over,
				want.going, want.over)
		}
	}
}

func TestRuntimesWithoutAKymaAreListed(t *testing.T) {
	inventory := Inventory{Runtimes: []Runtime{
		{ID: "b", Bundles: bundlesOf("b", 1)}, {ID: "a", Bundles: bundlesOf("a", 1)},
		{ID: "c", Kyma: true, Bundles: bundlesOf("c", 1)}, {ID: "d", Gone: true, Bundles: bundlesOf("d", 1)}, {ID: "e"},
	}}
	if got := WithoutKyma(inventory, Decide(inventory, nil, rules)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got runtimes without a Kyma %v, want a and b", got)
	}
}
