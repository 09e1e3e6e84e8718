package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var small = Shape{Real: 2, Simulated: 8, Replicas: 2}

func TestSeedDeterminesPlan(t *testing.T) {
	first, again, other := Generate(7, small, time.Hour), Generate(7, small, time.Hour), Generate(8, small, time.Hour)
	if !slices.Equal(first, again) {
		t.Error("the same seed gave different plans")
	}
	if slices.Equal(first, other) {
		t.Error("different seeds gave the same plan")
	}
}

func TestOneHourPlanHasEveryKindOfFault(t *testing.T) {
	troubled := small
	troubled.Network, troubled.Clocks, troubled.Disasters, troubled.Expiry = true, true, true, true
	troubled.Authorities = true
	counts := Counts(Generate(1, troubled, time.Hour))
	sharded := small
	sharded.Shards = true
	counts += Counts(Generate(1, sharded, time.Hour))
	for _, w := range slices.Concat(troubled.weights(), shards) {
		if !strings.Contains(counts, string(w.kind)) {
			t.Errorf("plan of an hour without step %q", w.kind)
		}
	}
}

// Steps remove only objects that exist, and faults on the same object do not overlap.
func TestChaosPlanCanBeExecuted(t *testing.T) {
	for seed := range uint64(50) {
		length := 10 * time.Minute
		has, kymas, busy := map[string]bool{}, map[string]bool{}, map[string]time.Duration{}
		versions, last := 0, time.Duration(0)
		shape := small
		shape.Network, shape.Clocks, shape.Disasters = seed%2 == 1, seed%3 == 1, seed%5 == 1
		shape.Expiry, shape.Shards = seed%3 == 2, seed%7 >= 4
		for _, s := range Generate(seed, shape, length) {
			if s.At < last || s.At+s.For > length {
				t.Errorf("seed %d: %s begins at %s, after %s, and ends after %s", seed, s, s.At, last, length)
			}
			last = s.At
			switch s.Kind {
			case AddModule, RemoveModule:
				if has[s.Target] == (s.Kind == AddModule) {
					t.Errorf("seed %d: %s: the runtime already has the module: %t", seed, s, has[s.Target])
				}
				has[s.Target] = s.Kind == AddModule
			case CreateKyma, DeleteKyma:
				if kymas[s.Target] == (s.Kind == CreateKyma) {
					t.Errorf("seed %d: %s: the Kyma already exists: %t", seed, s, kymas[s.Target])
				}
				if kymas[s.Target] = s.Kind == CreateKyma; s.About != s.Target {
					t.Errorf("seed %d: %s is about %s, so creation and deletion can overlap", seed, s, s.About)
				}
			case Promote, PromoteBroken, RefuseCommit, MistypeWave:
				if versions++; s.Target != VersionOf(versions) {
					t.Errorf("seed %d: %s follows version %d, want the next version", seed, s, versions-1)
				}
			case HangWay, ResetWay, SlowWay, CutRuntime:
				way := s.Target
				if s.Kind == CutRuntime {
					way = agentToRegistry(way)
				}
				if busy[way] > s.At {
					t.Errorf("seed %d: %s overlaps another disturbance of its target", seed, s)
				}
				busy[way] = s.At + s.For
			case KillPublisher, KillPlanner:
				if busy[allPublishers] > s.At {
					t.Errorf("seed %d: %s overlaps an outage of all publishers", seed, s)
				}
				busy["a publisher"] = max(busy["a publisher"], s.At+s.For)
			case StopPublishers:
				if busy["a publisher"] > s.At || busy[allPublishers] > s.At {
					t.Errorf("seed %d: %s overlaps another outage of a publisher", seed, s)
				}
				if s.For <= bundleValidity && s.At+s.For < length {
					t.Errorf("seed %d: %s is too short for bundles to expire", seed, s)
				}
				busy[allPublishers] = s.At + s.For
			case StopRuntimeAPI, RestoreRuntime, CloneRuntime, LimitObjects, DeleteNamespace, RevokeKey,
				RefuseObjects, StopControlAPI, RestoreControl:
				api := "API server of " + s.Target
				if busy[api] > s.At {
					t.Errorf("seed %d: %s overlaps another disturbance of the API server", seed, s)
				}
				busy[api] = s.At + s.For
			case SetClock:
				if busy["clocks"] > s.At {
					t.Errorf("seed %d: %s begins less than %s after the previous clock shift ended", seed, s, clockRest)
				}
				busy["clocks"] = s.At + s.For + clockRest
			case StopRegistry, SlowRegistry, FailRegistry, LoseAnswers, FillRegistry, LoseBundles, RestoreRegistry,
				RefuseWrites:
				if busy["registry"] > s.At {
					t.Errorf("seed %d: %s overlaps another disturbance of the registry", seed, s)
				}
				busy["registry"] = s.At + s.For
			}
		}
	}
}
