package scenario

import (
	"flag"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// longest lists the scenarios with the longest run time, which start first.
var longest = []string{
	"TestAgentWaitsForItsAPIServerAndToken",
	"TestAgentImageWithoutRegistryAccessIsRolledBack",
	"TestReplicasShareAFleetInShards",
	"TestNotificationsReachTheReplicaForARuntime",
	"TestShardsPublishOnlyCompleteCommits",
	"TestReleasedVersionsWorkWithTheCurrentVersion",
	"TestModuleTeamRunsTrialFromItsOwnGoModule",
	"TestTrialStopsIfCanaryNeverBecomesReady",
	"TestPublisherRestoresDataLostFromTheRegistry",
	"TestPublisherRestoresDataLostFromZot",
	"TestZotGarbageCollectionKeepsFleetContent",
	"TestAirGappedRuntimeIsManagedOnlyByFiles",
	"TestBundleUpgradesAgentAndRollsBackABadImage",
	"TestHostileReportsDoNotFillThePublishersMemory",
	"TestRegistryIsNeverTrustedForContent",
	"TestCommitIsPublishedCompletelyOrNotAtAll",
	"TestUnmanagedModuleCanBecomeManagedAgain",
	"TestDowntimeUpgradesWaitForTheirWindow",
	"TestSilentRuntimeIsNotReadyUntilItReports",
	"TestRefusedObjectDoesNotDelayOtherObjects",
	"TestAgentRestoresDeletedKymaManifestsAndCRDs",
}

// scenarioQueue is the scenarios' queue. It decides which scenario starts next.
type scenarioQueue struct {
	beside  int // maximum number of concurrent scenarios
	mu      sync.Mutex
	changed sync.Cond // signaled after each change to ended
	order   []*testing.T
	ended   int
}

// queue is the queue for all scenarios. By default, it runs four at a time, because more would exceed their time limits
// on two slow cores.
var queue = newLine(4)

func newLine(beside int) *scenarioQueue {
	l := &scenarioQueue{beside: beside}
	l.changed.L = &l.mu
	return l
}

// replaceFlag uses the value of -parallel as the queue's limit. It then raises -parallel, because package testing would
// otherwise decide the order of the scenarios.
func (l *scenarioQueue) replaceFlag(parallel *flag.Flag) error {
	if output := parallel.Value.String(); output != parallel.DefValue {
		var err error
		if l.beside, err = strconv.Atoi(output); err != nil {
			return err
		}
	}
	return parallel.Value.Set(strconv.Itoa(math.MaxInt32))
}

// runInQueue replaces t.Parallel in scenarios: it waits until the queue starts the scenario.
func runInQueue(t *testing.T) {
	t.Helper()
	queue.join(t)
	t.Parallel()
	queue.wait(t)
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("took %s", time.Since(began).Round(10*time.Millisecond))
		queue.end()
	})
}

// join adds a scenario to the queue. The queue is sorted by run time, longest first. Subtests come before all other
// scenarios, because package testing starts the other scenarios only after the subtests' parent has ended.
func (l *scenarioQueue) join(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(l.order)
	for at > 0 && rank(l.order[at-1]) > rank(t) {
		at--
	}
	l.order = slices.Insert(l.order, at, t)
}

func rank(t *testing.T) int {
	if strings.Contains(t.Name(), "/") {
		return -1
	}
	if i := slices.Index(longest, t.Name()); i >= 0 {
		return i
	}
	return len(longest)
}

func (l *scenarioQueue) wait(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for slices.Index(l.order, t) >= l.ended+l.beside {
		l.changed.Wait()
	}
}

func (l *scenarioQueue) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	l.changed.Broadcast()
}

func TestSubtestsStartBeforeWaitingScenarios(t *testing.T) {
	l := newLine(1)
	l.join(t)
	t.Run("subtest", func(t *testing.T) {
		l.join(t)
		if l.order[0] != t {
			t.Error("the subtest waits for scenarios that start only after it")
		}
	})
}
