package scenario

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	shards           = 6
	publisherLease   = "kcp-publisher.kyma-pull.dev"
	concurrentOthers = 5
)

// pushes counts accepted bundles by runtime.
type pushes struct {
	mu       sync.Mutex // guards the fields below
	bundles  map[string]int
	first    map[string]time.Time // time of each runtime's first bundle
	order    []string
	open     map[string]bool // runtimes that have not yet reported their newest bundle
	mostOpen int
}

func (p *pushes) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bundles, p.first, p.order, p.open, p.mostOpen = map[string]int{}, map[string]time.Time{}, nil, map[string]bool{},
		0
}

func (p *pushes) observe(request *http.Request, status int) {
	if request.Method != http.MethodPut || status >= http.StatusBadRequest ||
		!strings.Contains(request.URL.Path, "/manifests/") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := strings.Split(request.URL.Path, "/")
	for i, part := range parts[:len(parts)-1] {
		switch id := parts[i+1]; part {
		case "runtimes":
			if p.bundles[id]++; p.bundles[id] == 1 {
				p.first[id], p.open[id] = time.Now(), true
				p.order = append(p.order, id)
			}
			others := 0
			for open := range p.open {
				if strings.HasPrefix(open, "other-") {
					others++
				}
			}
			p.mostOpen = max(p.mostOpen, others)
		case "reports":
			delete(p.open, id)
		}
	}
}

// wantInWaves checks that the canaries got their bundles first, and that the other runtimes did not exceed their
// concurrency limit.
func (p *pushes) wantInWaves(t *testing.T, canaries int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, id := range p.order {
		if (at < canaries) != strings.HasPrefix(id, "canary-") {
			t.Errorf("want the first bundles for the canaries, got order %v", p.order)
			break
		}
	}
	if p.mostOpen > concurrentOthers {
		t.Errorf("%d other runtimes had an unreported bundle at once, want at most %d", p.mostOpen, concurrentOthers)
	}
}

// since returns the time from began until the last runtime got its first bundle.
func (p *pushes) since(began time.Time) (took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.first {
		took = max(took, at.Sub(began))
	}
	return took
}

// wantOnce checks that each of these runtimes got exactly one bundle, and that all other runtimes got none.
func (p *pushes) wantOnce(t *testing.T, runtimes []*fleet.Simulated, replicas map[string]*candidate) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range runtimes {
		if p.bundles[s.ID] != 1 {
			t.Errorf("%d bundles were pushed for %s, want 1:\n%s", p.bundles[s.ID], s.ID,
				publishedTo(t, replicas, s.ID))
		}
	}
	if len(p.bundles) > len(runtimes) {
		t.Errorf("bundles were pushed for %d runtimes, want %d", len(p.bundles), len(runtimes))
	}
}

// publishedTo returns the lines in the replicas' logs about bundles for a runtime.
func publishedTo(t *testing.T, replicas map[string]*candidate, id string) string {
	t.Helper()
	var lines []string
	for name, r := range replicas {
		data, err := os.ReadFile(r.log)
		must(t, err)
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, `"published bundle"`) && strings.Contains(line, `"runtime":"`+id+`"`) {
				lines = append(lines, strings.TrimSpace(line)+" by "+name)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// holders returns the replica that holds each shard's Lease, and the replica that holds the planner's Lease.
func holders(t *testing.T, f *fleet.Fleet) (of map[string]string, planner string) {
	t.Helper()
	var leases coordinationv1.LeaseList
	must(t, f.Control.List(t.Context(), &leases, client.InNamespace(sample.Namespace)))
	of = map[string]string{}
	for _, lease := range leases.Items {
		holder := ""
		if lease.Spec.HolderIdentity != nil {
			holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_") // name of the Pod
		}
		if shard, is := strings.CutPrefix(lease.Name, publisherLease+"-shard-"); is && holder != "" {
			of[shard] = holder
		} else if lease.Name == publisherLease {
			planner = holder
		}
	}
	return of, planner
}

// untilShared waits until the given number of replicas share all shards equally. Replicas in gone must not have a
// shard.
func untilShared(t *testing.T, f *fleet.Fleet, replicas int, gone ...string) (of map[string]string) {
	t.Helper()
	until(t, 2*time.Minute, fmt.Sprintf("%d replicas share %d shards", replicas, shards), func() (bool, string) {
		of, _ = holders(t, f)
		counts := map[string]int{}
		for _, holder := range of {
			counts[holder]++
		}
		fair := len(of) == shards && len(counts) == replicas
		for holder, n := range counts {
			fair = fair && n == shards/replicas && !slices.Contains(gone, holder)
		}
		return fair, fmt.Sprint(of)
	})
	return of
}

// startReplica starts a replica that restarts after it loses its Leases, as in a Pod.
func startReplica(t *testing.T, f *fleet.Fleet, name string, flags ...string) *candidate {
	t.Helper()
	return runCandidate(t, f, name, fleet.Command{
		Args: append([]string{
			"--shards", fmt.Sprint(shards), "--agent-poll-interval", "300ms", "--agent-report-interval", "2s",
		}, flags...),
		Env: []string{"POD_NAME=" + name}, Restart: true,
	})
}

// The test divides a fleet among three replicas, kills some of them and adds another.
func TestReplicasShareAFleetInShards(t *testing.T) {
	suite.Long(t) // the short suite runs the tests in core/shard
	ctx := t.Context()
	f := newFleet(t, fleet.Options{LeaderElect: true, PublisherRights: []string{"publisher.yaml", "shards.yaml"}})
	must(t, f.Offer(ctx, sample.Scaler("1.9.0"), sample.Scaler("2.0.0")))
	canaries, others := simulate(t, f, 2, 28)
	all := slices.Concat(canaries, others)
	var pushed pushes
	pushed.reset()
	f.Registry.Observe(pushed.observe)

	// The replicas wait until a publisher without shards stops.
	replicas := map[string]*candidate{}
	for _, name := range []string{"replica-1", "replica-2", "replica-3"} {
		replicas[name] = startReplica(t, f, name)
	}
	untilShared(t, f, 3)
	must(t, f.Publisher().Stop())
	until(t, time.Minute, "every Kyma has the label of a shard", func() (bool, string) {
		var kymas v1beta2.KymaList
		must(t, f.Control.List(ctx, &kymas, client.HasLabels{v1beta2.LabelShard}))
		return len(kymas.Items) == len(all), fmt.Sprint(len(kymas.Items))
	})
	promoteRegular(t, f, "1.8.0") // wantOnce below proves that the takeover did not publish bundles
	allSettled(t, all, "1.8.0")
	pushed.wantOnce(t, all, replicas)

	// The planner also has shards.
	_, planner := holders(t, f)
	pushed.reset()
	replicas[planner].kill(t)
	killed := time.Now()
	promoteRegular(t, f, "1.9.0")
	allSettled(t, all, "1.9.0")
	pushed.wantOnce(t, all, replicas)
	took := pushed.since(killed)
	t.Logf("all runtimes of a killed replica got a bundle after %s", took.Round(time.Millisecond))
	if took > fleet.LongTimeout { // usually half a minute on an idle machine
		t.Errorf("the runtimes of a killed replica got a bundle after %s, which is too late", took)
	}

	// An additional replica takes over its share of the shards and does not republish bundles.
	of := untilShared(t, f, 2, planner)
	pushed.reset()
	replicas["replica-4"] = startReplica(t, f, "replica-4")
	next := untilShared(t, f, 3, planner)
	moved := 0
	for shard, holder := range of {
		if next[shard] != holder {
			moved++
		}
	}
	if moved > shards/3 {
		t.Errorf("%d of %d shards moved to the additional replica:\n%v\n%v", moved, shards, of, next)
	}

	// A wave with runtimes from all shards must keep its concurrency limit while a replica is killed.
	course := stages(func(_, others *v1alpha1.Wave) { others.MaxConcurrent = new(intstr.FromInt32(concurrentOthers)) })
	course.OfflineAfter.Duration = soonOffline // less time than taking over shards takes
	must(t, f.CreatePolicy(ctx, "scaler", course))
	promoteRegular(t, f, "2.0.0")
	must(t, f.UntilRollout(ctx, firstRollout, "the second wave has started", func(s v1alpha1.RolloutStatus) bool {
		return s.Updated > int32(len(canaries)+2)
	}))
	replicas["replica-4"].kill(t)
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	allSettled(t, all, "2.0.0")
	pushed.wantOnce(t, all, replicas)
	pushed.wantInWaves(t, len(canaries))
	wantEventsOnce(t, f, firstRollout)
	rights, err := f.PublisherRights()
	must(t, err)
	lacksNothing(t, "publisher", rights)
	for name, r := range replicas {
		if data, err := os.ReadFile(r.log); err != nil || strings.Contains(string(data), "panic") {
			t.Errorf("unexpected log of %s: error %v\n%s", name, err, data)
		}
	}
}

// promoteRegular changes only the "regular" channel, so each runtime gets exactly one new bundle.
func promoteRegular(t *testing.T, f *fleet.Fleet, version string) {
	t.Helper()
	must(t, f.Release(t.Context(), "scaler", sample.Scaler("").Component(), sample.Channel("regular", version),
		sample.Channel("fast", "1.8.0")))
}

func allSettled(t *testing.T, all []*fleet.Simulated, version string) {
	t.Helper()
	for _, s := range all {
		untilSettled(t, s, version)
	}
}

// wantEventsOnce checks that each of a rollout's Events exists exactly once.
func wantEventsOnce(t *testing.T, f *fleet.Fleet, rollout string) {
	t.Helper()
	var events eventsv1.EventList
	must(t, f.Control.List(t.Context(), &events))
	counts := map[string]int{}
	for _, e := range events.Items {
		if e.Regarding.Name == rollout {
			counts[e.Reason+": "+e.Note]++
			if e.Series != nil {
				counts[e.Reason+": "+e.Note] += int(e.Series.Count)
			}
		}
	}
	if len(counts) == 0 {
		t.Errorf("no Event reports rollout %s", rollout)
	}
	for what, n := range counts {
		if n != 1 {
			t.Errorf("an Event was emitted %d times: %s", n, what)
		}
	}
}
