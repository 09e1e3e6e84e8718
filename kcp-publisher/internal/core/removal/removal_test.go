package removal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

func pending(module string, runtimes ...string) (all []PendingRemoval) {
	for _, runtime := range runtimes {
		all = append(all, PendingRemoval{Removal: Removal{runtime, module}})
	}
	return all
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("r%03d", i))
	}
	return names
}

func with(all []PendingRemoval, change func(*PendingRemoval)) []PendingRemoval {
	for i := range all {
		change(&all[i])
	}
	return all
}

func held(reason Reason) func(*PendingRemoval) {
	return func(p *PendingRemoval) { p.HeldReason = reason }
}

func TestRemovalsAboveLimitsWait(t *testing.T) {
	limits := Limits{Percent: 10, Count: 1, PerModule: 20, Window: time.Hour}
	for name, c := range map[string]struct {
		fleet Fleet
		want  map[Reason]int
	}{
		"one runtime loses a module":         {Fleet{Runtimes: 3, Pending: pending("keda", "a")}, nil},
		"the only runtime loses all modules": {Fleet{Runtimes: 1, Pending: pending("", "a")}, nil},
		"one runtime loses several modules": {
			Fleet{Runtimes: 3, Pending: append(pending("keda", "a"), pending("istio", "a")...)}, nil,
		},
		"two of three runtimes lose a module": {
			Fleet{Runtimes: 3, Pending: pending("keda", "a", "b")}, map[Reason]int{FleetShare: 2},
		},
		"two of three runtimes lose different modules": {
			Fleet{Runtimes: 3, Pending: append(pending("keda", "a"), pending("", "b")...)},
			map[Reason]int{FleetShare: 2},
		},
		"a tenth of the runtimes lose a module": {
			Fleet{Runtimes: 100, Pending: pending("keda", numbered(10)...)}, nil,
		},
		"more than a tenth of the runtimes lose a module": {
			Fleet{Runtimes: 100, Pending: pending("keda", numbered(11)...)}, map[Reason]int{FleetShare: 11},
		},
		"more runtimes than PerModule lose a module": {
			Fleet{Runtimes: 1000, Pending: pending("keda", numbered(21)...)}, map[Reason]int{ModuleCount: 21},
		},
		"second runtime loses its modules within the window": {
			Fleet{Runtimes: 3, Pending: pending("", "b"), Recent: []Removal{{"a", ""}}}, map[Reason]int{FleetShare: 1},
		},
		"same runtime loses more modules within the window": {
			Fleet{Runtimes: 3, Pending: pending("", "a"), Recent: []Removal{{"a", "keda"}}}, nil,
		},
		"approved removals above the limits": {
			Fleet{Runtimes: 3, Pending: with(pending("keda", "a", "b"), func(p *PendingRemoval) { p.Approved = true })}, nil,
		},
		"approved removals do not make other removals wait": {
			Fleet{Runtimes: 3, Pending: append(with(pending("keda", "a", "b"), func(p *PendingRemoval) {
				p.HeldReason, p.Approved = FleetShare, true
			}), pending("istio", "c")...)}, nil},
		"held removal keeps waiting below the limits": {
			Fleet{Runtimes: 100, Pending: with(pending("keda", "a"), held(FleetShare))}, map[Reason]int{FleetShare: 1},
		},
		"held removals do not block another module": {
			Fleet{Runtimes: 3,
				Pending: append(with(pending("keda", "a", "b"), held(FleetShare)), pending("istio", "c")...)},
			map[Reason]int{FleetShare: 2},
		},
		"later removal of a held module waits": {
			Fleet{Runtimes: 3,
				Pending: append(with(pending("keda", "a", "b"), held(FleetShare)), pending("keda", "c")...)},
			map[Reason]int{FleetShare: 3},
		},
		"removals of invented modules do not affect another runtime's removal": {
			Fleet{
				Runtimes: 3, RecentUnrecorded: []Removal{{"a", "invented"}},
				Pending: append(with(pending("other", "a"), func(p *PendingRemoval) { p.Unrecorded = true }),
					pending("keda", "b")...),
			}, nil,
		},
		"two of three runtimes lose modules that only reports contain": {
			Fleet{
				Runtimes: 3, RecentUnrecorded: []Removal{{"a", "forgotten"}},
				Pending: with(pending("forgotten", "b"), func(p *PendingRemoval) { p.Unrecorded = true }),
			}, map[Reason]int{FleetShare: 1},
		},
		"removal by a restored control plane": {
			Fleet{Runtimes: 100, Pending: with(pending("keda", "a"), func(p *PendingRemoval) { p.Restored = true })},
			map[Reason]int{Restored: 1},
		},
		"removal confirmed by Git's newest commit": {
			Fleet{Runtimes: 100, Pending: with(pending("keda", "a"), held(Restored))}, nil,
		},
		"too many removals confirmed by Git's newest commit": {
			Fleet{Runtimes: 3, Pending: with(pending("keda", "a", "b"), held(Restored))}, map[Reason]int{FleetShare: 2},
		},
		"deleted namespace with one Kyma": {
			Fleet{Runtimes: 1, Pending: pending("", "a"), NamespaceDeleted: true}, map[Reason]int{NamespaceDeleted: 1},
		},
		"approved deletion of a namespace": {
			Fleet{Runtimes: 2, NamespaceDeleted: true, Pending: with(pending("", "a", "b"), func(p *PendingRemoval) {
				p.HeldReason, p.Approved = NamespaceDeleted, true
			})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[Reason]int{}
			for _, reason := range limits.Decide(c.fleet) {
				got[reason]++
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("got held removals %v, want %v", got, c.want)
			}
		})
	}
}

// Within one window, the number of removals that are allowed without approval must never exceed the limits.
func TestRandomHistoriesStayWithinTheLimits(t *testing.T) {
	for seed := range uint64(2_000) {
		random := rand.New(rand.NewPCG(seed, 1))
		runtimes, limits := numbered(1+random.IntN(40)), Limits{
			Percent:   random.IntN(30),
			Count:     random.IntN(3),
			PerModule: 1 + random.IntN(8),
		}
		modules := []string{"", "keda", "istio"}
		known, recent := map[Removal]PendingRemoval{}, []Removal{}
		for range 30 {
			for range 1 + random.IntN(6) {
				r := Removal{runtimes[random.IntN(len(runtimes))], modules[random.IntN(len(modules))]}
				if _, is := known[r]; !is {
					known[r] = PendingRemoval{Removal: r}
				}
			}
			fleet := Fleet{Runtimes: len(runtimes), Recent: recent}
			for _, p := range known {
				fleet.Pending = append(fleet.Pending, p)
			}
			waits := limits.Decide(fleet)
			for r, p := range known {
				if p.HeldReason = waits[r]; p.HeldReason == "" {
					recent = append(recent, r)
					delete(known, r)
					continue
				}
				known[r] = p
			}
		}
		affected, perModule := map[string]bool{}, map[string]map[string]bool{}
		for _, r := range recent {
			affected[r.Runtime] = true
			addRemoval(perModule, r)
		}
		if most := max(limits.Count, len(runtimes)*limits.Percent/100); len(affected) > most {
			t.Fatalf("seed %d: %d runtimes lost modules, want at most %d", seed, len(affected), most)
		}
		for module, lost := range perModule {
			if most := max(limits.Count, limits.PerModule); len(lost) > most {
				t.Fatalf("seed %d: %d runtimes lost module %q, want at most %d", seed, len(lost), module, most)
			}
		}
	}
}

func TestRemovalLimitsAreDividedAmongShards(t *testing.T) {
	configured := Limits{Percent: 10, Count: 1, PerModule: 50, Window: time.Hour}
	for _, shards := range []int{0, 1} {
		if got := configured.ForShard(0, shards); got != configured {
			t.Errorf("%d shards: got %+v, want %+v", shards, got, configured)
		}
	}
	for _, c := range []struct{ shards, count, perModule int }{{3, 7, 50}, {6, 1, 4}, {6, 0, 0}, {50, 1, 50}} {
		sum, want := Limits{}, Limits{Count: c.count, PerModule: c.perModule}
		for number := range c.shards {
			got := Limits{Percent: 10, Count: c.count, PerModule: c.perModule, Window: time.Hour}.
				ForShard(number, c.shards)
			if got.Percent != 10 || got.Window != time.Hour || got.PerModule > c.perModule/c.shards+1 {
				t.Errorf("shard %d of %d: got limits %+v", number, c.shards, got)
			}
			sum.Count, sum.PerModule = sum.Count+got.Count, sum.PerModule+got.PerModule
		}
		if sum != want {
			t.Errorf("%d shards: got the sum %+v, want %+v", c.shards, sum, want)
		}
	}
}

// Each shard has one runtime, and an edit removes the only module from all runtimes.
func TestSingleRuntimeShardsJointlyStayWithinLimits(t *testing.T) {
	const shards = 5
	limits := Limits{Percent: 10, Count: 1, PerModule: 50, Window: time.Hour}
	allowed := 0
	for number := range shards {
		fleet := Fleet{Runtimes: 1, Pending: pending("keda", fmt.Sprint("r", number))}
		if len(limits.ForShard(number, shards).Decide(fleet)) == 0 {
			allowed++
		}
	}
	if allowed != 1 {
		t.Errorf("%d of %d runtimes lose the module without approval, want 1", allowed, shards)
	}
}
