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

// bundlesOf returns bundles issued the given numbers of days ago, newest first. Each has its own documents: state-0,
// catalog-0 and so on.
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

// going names the removals of a plan: REPOSITORY:TAG, or REPOSITORY#i for the i-th bundle.
func going(inventory Inventory, plan Plan) string {
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
		"bundles that were superseded long ago go, the oldest first": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1, 35, 50, 60, 70) })},
			},
			want: "runtimes/a#4 runtimes/a#3 runtimes/a#2",
		},
		"the bundle before the newest stays, and one that was superseded lately": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1, 2, 3, 200) })},
			},
			want: "",
		},
		"a bundle that a runtime still runs stays, with its documents and content": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) {
					r.Bundles, r.Remembered = bundlesOf("a", 40, 50, 60, 70, 80),
						[]digest.Digest{digest.FromString("a-4")}
				})},
				Shared: []Manifest{set(4), content("x")}, Contents: needs("state-4", "x"),
			},
			noted: long, want: "runtimes/a#3 runtimes/a#2",
		},
		"a tagged or referenced bundle stays": {
			inventory: Inventory{Runtimes: []Runtime{with(a, func(r *Runtime) {
				r.Bundles, r.Named = bundlesOf("a", 40, 50, 60, 70), []digest.Digest{digest.FromString("a-3")}
			})}},
			want: "runtimes/a#2",
		},
		"signatures go with their bundle and before it, others stay": {
			inventory: Inventory{Runtimes: []Runtime{with(a, func(r *Runtime) {
				r.Bundles = bundlesOf("a", 40, 50, 60)
				for i := range 3 {
					tag := fmt.Sprint("sha256-", i)
					r.Signatures = append(r.Signatures, Signature{
						Subject: r.Bundles[i].Descriptor.Digest, Index: named("runtimes/a", tag, tag),
						Referrers: []Manifest{named("runtimes/a", "", tag+"-referrer")},
					})
				}
			})}},
			want: "runtimes/a:sha256-2 runtimes/a: runtimes/a#2",
		},
		"unused documents and content are removed when they were noted long ago": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1) })},
				Shared:   []Manifest{set(0), set(1), content("x"), content("y")}, Contents: needs("state-0", "y"),
			},
			noted: long, want: "documents:set-1 content:blob-x",
		},
		"documents go though a bundle has the same catalog, unless nothing else holds it": {
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
		"what was not noted before only waits, as what a publisher pushes at this moment": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 1) })},
				Shared:   []Manifest{set(1), content("x")},
			},
			want: "",
		},
		"a note from the future counts from now": {
			inventory: Inventory{Shared: []Manifest{set(1)}},
			noted:     map[string]time.Time{set(1).Key(): today.AddDate(1, 0, 0)}, want: "",
		},
		"nothing that is shared goes while something is unknown; a runtime's own does": {
			inventory: Inventory{
				Runtimes: []Runtime{with(a, func(r *Runtime) { r.Bundles = bundlesOf("a", 40, 50, 60) })},
				Shared:   []Manifest{set(1), content("x")}, Unknown: []string{"runtime b: no route"},
			},
			noted: long, want: "runtimes/a#2",
		},
		"a runtime without a Kyma stays where others may publish, and what it needs does": {
			inventory: Inventory{
				Runtimes: []Runtime{{ID: "a", Bundles: bundlesOf("a", 400), Reports: []Manifest{report}}},
				Shared:   []Manifest{content("x")}, Contents: needs("state-0", "x"),
			},
			noted: long, want: "",
		},
		"with a sole publisher it goes when its last bundle expired": {
			inventory: Inventory{
				Sole:     true,
				Runtimes: []Runtime{{ID: "a", Bundles: bundlesOf("a", 400, 401), Reports: []Manifest{report}}},
				Shared:   []Manifest{content("x")}, Contents: needs("state-0", "x"),
			},
			noted: long, want: "runtimes/a#1 runtimes/a:desired reports/a:latest content:blob-x",
		},
		"and not before: it may still have to learn that it was deleted": {
			inventory: Inventory{
				Sole: true, Runtimes: []Runtime{{ID: "a", Bundles: bundlesOf("a", 1), Reports: []Manifest{report}}},
			},
			noted: long, want: "",
		},
		"nor when it was not known to be gone before": {
			inventory: Inventory{
				Sole: true, Runtimes: []Runtime{{ID: "a", Bundles: bundlesOf("a", 400), Reports: []Manifest{report}}},
			},
			want: "",
		},
		"a runtime that is named as gone goes at once": {
			inventory: Inventory{
				Runtimes: []Runtime{{ID: "a", Gone: true, Bundles: bundlesOf("a", 1), Reports: []Manifest{report}}},
			},
			want: "runtimes/a:desired reports/a:latest",
		},
		"a runtime with a Kyma never is gone": {
			inventory: Inventory{
				Sole: true, Runtimes: []Runtime{
					{ID: "a", Kyma: true, Gone: true, Bundles: bundlesOf("a", 400), Reports: []Manifest{report}},
				},
			},
			noted: long, want: "",
		},
		"expired lists go, after a while": {
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
			if got := going(c.inventory, plan); got != c.want {
				t.Errorf("removes %q, want %q", got, c.want)
			}
		})
	}
}

func TestWaitingManifestsAreNoted(t *testing.T) {
	unused := named("documents", "set-1", "set-1", "state-1", "catalog-1")
	inventory := Inventory{Shared: []Manifest{unused}}
	first := Decide(inventory, nil, rules)
	if since, ok := first.Noted[unused.Key()]; !ok || !since.Equal(today) || len(first.Remove) != 0 ||
		len(first.Waiting) != 1 {
		t.Fatalf("first: %+v", first)
	}
	later := rules
	later.Now = today.Add(rules.MinAge)
	if second := Decide(inventory, first.Noted, later); len(second.Remove) != 1 || second.Bytes != 201 {
		t.Errorf("removes %+v, %d bytes", second.Remove, second.Bytes)
	}
	inventory.Unknown = []string{"something"}
	if between := Decide(inventory, first.Noted, later); !between.Noted[unused.Key()].Equal(today) {
		t.Errorf("an inventory that is not whole forgets what was noted: %v", between.Noted)
	}
	inventory.Unknown, inventory.Runtimes = nil, []Runtime{{ID: "a", Kyma: true, Bundles: bundlesOf("a", 1, 2)}}
	if again := Decide(inventory, first.Noted, later); len(again.Noted) != 0 || len(again.Remove) != 0 {
		t.Errorf("what is needed again is still noted: %+v", again)
	}
}

func TestLimitKeepsFurtherManifestsReachable(t *testing.T) {
	few := rules
	few.Limit = 2
	inventory := Inventory{Runtimes: []Runtime{{ID: "a", Kyma: true, Bundles: bundlesOf("a", 40, 50, 60, 70, 80, 90)}}}
	plan := Decide(inventory, nil, few)
	if got := going(inventory, plan); got != "runtimes/a#5 runtimes/a#4" || plan.Over != 2 {
		t.Errorf("removes %q, %d over", got, plan.Over)
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
		if got := going(inventory, plan); got != want.going || plan.Over != want.over {
			t.Errorf("limit %d: removes %q, %d over, want %q, %d", want.limit, got, plan.Over, want.going, want.over)
		}
	}
}

func TestRuntimesWithoutAKymaAreListed(t *testing.T) {
	inventory := Inventory{Runtimes: []Runtime{
		{ID: "b", Bundles: bundlesOf("b", 1)}, {ID: "a", Bundles: bundlesOf("a", 1)},
		{ID: "c", Kyma: true, Bundles: bundlesOf("c", 1)}, {ID: "d", Gone: true, Bundles: bundlesOf("d", 1)}, {ID: "e"},
	}}
	if got := Strangers(inventory, Decide(inventory, nil, rules)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
}
