package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const shardRuntimes = 8

// shardedFollowers starts a fleet with two replicas that share the shards and follow a repository. The first commit
// contains the runtimes' Kymas with module scaler.
func shardedFollowers(t *testing.T, repo *repository, files map[string]string) (
	f *fleet.Fleet, replicas map[string]*candidate, runtimes []*fleet.Simulated,
) {
	t.Helper()
	for i := range shardRuntimes {
		id := fmt.Sprint("shared-", i)
		files["fleet/kymas/"+id+".yaml"] = kymaOf(id, "scaler")
	}
	first := repo.push(files)
	f = startFleet(t, fleet.Options{PublisherRights: []string{"publisher.yaml", "git.yaml", "shards.yaml"}})
	must(t, f.Publisher().Stop())
	for _, v := range []sample.Version{sample.Scaler("1.7.0"), sample.Scaler("1.8.0"), sample.Mailer("1.0.0")} {
		must(t, v.Push(t.Context(), f.Modules))
	}
	replicas = map[string]*candidate{}
	for _, name := range []string{"replica-1", "replica-2"} {
		replicas[name] = startReplica(t, f, name, append(repo.flags(), "--set", "git-poll-interval=500ms",
			"--trust-kyma-authors")...)
	}
	untilShared(t, f, len(replicas))
	untilCommit(t, f, first)
	for i := range shardRuntimes {
		s, err := f.Simulate(t.Context(), fleet.NewKyma(fmt.Sprint("shared-", i), "regular", "scaler"))
		must(t, err)
		runtimes = append(runtimes, s)
	}
	allSettled(t, runtimes, "1.7.0")
	return f, replicas, runtimes
}

// The API server rejects some objects in the promotion's commit. In the long suite, the test kills the planner before
// the commit is applied completely.
func TestShardsPublishOnlyCompleteCommits(t *testing.T) {
	ctx, repo := t.Context(), newRepository(t)
	files := catalogOf(t)
	f, replicas, runtimes := shardedFollowers(t, repo, files)
	for _, s := range runtimes {
		if got, want := bundleSource(t, f, s.ID), repo.git("rev-parse", "HEAD"); got != want {
			t.Errorf("the bundle of %s names commit %s, want %s", s.ID, got, want)
		}
	}
	var pushed pushes
	pushed.reset()
	f.Registry.Observe(pushed.observe)
	limitKymas(t, f, fmt.Sprint(shardRuntimes+1), fmt.Sprint(shardRuntimes))
	promoted := repo.push(map[string]string{
		"fleet/releases/scaler.yaml": strings.Replace(files["fleet/releases/scaler.yaml"], "regular, version: 1.7.0",
			"regular, version: 1.8.0", 1),
		"fleet/kymas/two.yaml": kymaOf("two", "mailer"), "fleet/kymas/three.yaml": kymaOf("three", "mailer"),
	})
	// requestModules changes the Kymas' module requests and waits until the Kymas' statuses contain them. Each shard has
	// then reconciled its Kymas after the commit was partially applied, and must not have pushed a bundle.
	requestModules := func(modules ...string) {
		t.Helper()
		untilPartial(t, f, promoted)
		for _, s := range runtimes {
			must(t, s.Edit(func(spec *v1beta2.KymaSpec) {
				spec.Modules = nil
				for _, name := range modules {
					spec.Modules = append(spec.Modules, managed(name))
				}
			}))
		}
		for _, s := range runtimes {
			until(t, time.Minute, "the control plane records the request of "+s.ID, func() (bool, string) {
				kyma, err := s.Record(ctx)
				if err != nil || kyma.Status.Runtime == nil || kyma.Status.Runtime.Requested == nil {
					return false, fmt.Sprint(err)
				}
				return len(kyma.Status.Runtime.Requested.Spec.Modules) == len(modules),
					fmt.Sprint(kyma.Status.Runtime.Requested)
			})
		}
		pushed.mu.Lock()
		defer pushed.mu.Unlock()
		if len(pushed.bundles) > 0 {
			t.Errorf("bundles were pushed for a partially applied commit: %v", pushed.bundles)
		}
	}
	requestModules("scaler", "mailer")

	t.Run("commit continues after the planner is killed", func(t *testing.T) {
		suite.Long(t)
		_, planner := holders(t, f)
		replicas[planner].kill(t)
		killed := time.Now()
		of := untilShared(t, f, 1, planner)
		successor := slices.Collect(maps.Values(of))[0]
		replicas[successor].untilLogged(t, "failed to follow the repository")
		t.Logf("the other replica had all shards and continued the commit %s after the planner was killed",
			time.Since(killed).Round(100*time.Millisecond))
		requestModules("scaler")
	})

	limitKymas(t, f, fmt.Sprint(shardRuntimes+2), fmt.Sprint(shardRuntimes))
	untilCommit(t, f, promoted)
	for _, s := range runtimes {
		until(t, time.Minute, s.ID+" has scaler 1.8.0", func() (bool, string) {
			return s.Has("scaler") == "1.8.0", fmt.Sprint(s.All(), s.LastError())
		})
		if got := bundleSource(t, f, s.ID); got != promoted {
			t.Errorf("the bundle of %s names commit %s, want %s", s.ID, got, promoted)
		}
	}
	pushed.mu.Lock()
	defer pushed.mu.Unlock()
	for _, s := range runtimes {
		if pushed.bundles[s.ID] != 1 {
			t.Errorf("%d bundles were pushed for %s, want 1", pushed.bundles[s.ID], s.ID)
		}
	}
}
