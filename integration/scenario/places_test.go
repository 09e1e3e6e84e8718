package scenario

import (
	"flag"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// longest are the stories that take longest. They begin first: one of them that began last would go on alone, and
// leave a processor idle.
var longest = []string{
	"TestAgentWaitsForItsAPIServerAndToken",
	"TestAgentImageWithoutRegistryAccessIsRolledBack",
	"TestReplicasShareAFleetInShards",
	"TestEachReleaseWorksWithTheCurrentVersion",
	"TestModuleTeamRunsTryInItsOwnTest",
	"TestTryStopsWhenTheCanaryNeverGetsReady",
	"TestPublisherRefillsARegistryThatLostData",
	"TestPublisherRefillsAZotThatLostData",
	"TestZotGarbageCollectionKeepsFleetContent",
	"TestRuntimeReachedOnlyByFiles",
	"TestBundleUpgradesAgentAndRollsBackABadImage",
	"TestHostileReportsDoNotGrowThePublisher",
	"TestRegistryIsNeverTrustedForContent",
	"TestCommitIsPublishedCompletelyOrNotAtAll",
	"TestUnmanagedModuleIsReleasedAndTakenBack",
	"TestDowntimeUpgradesWaitForTheirWindow",
	"TestSilentRuntimeIsNotReadyUntilItReports",
	"TestObjectRefusedByTenantDelaysNothingElse",
	"TestAgentRestoresDeletedKymaManifestsAndCRDs",
}

// line is the stories in the order in which they begin. All have joined it before the first of them waits, as package
// testing lets no parallel test go on before it has begun them all.
type line struct {
	beside  int // number of scenarios that run at once
	mu      sync.Mutex
	changed sync.Cond // on ended
	order   []*testing.T
	ended   int
}

// turns limits the scenarios that run at once to four, unless -parallel has another value. More of them run into the
// programs' limits of time on two slow cores.
var places = newLine(4)

func newLine(beside int) *line {
	l := &line{beside: beside}
	l.changed.L = &l.mu
	return l
}

// replaceFlag takes the place of -parallel, which knows no order.
func (l *line) replaceFlag(parallel *flag.Flag) error {
	if output := parallel.Value.String(); output != parallel.DefValue {
		var err error
		if l.beside, err = strconv.Atoi(output); err != nil {
			return err
		}
	}
	return parallel.Value.Set(strconv.Itoa(math.MaxInt32))
}

// besideOthers is t.Parallel for stories. It logs how long one took, as for package testing one that waits for its
// turn is running.
func besideOthers(t *testing.T) {
	t.Helper()
	places.join(t)
	t.Parallel()
	places.wait(t)
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("took %s", time.Since(began).Round(10*time.Millisecond))
		places.end()
	})
}

// join puts a story behind those that take as long or longer.
func (l *line) join(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(l.order)
	for at > 0 && rank(l.order[at-1]) > rank(t) {
		at--
	}
	l.order = slices.Insert(l.order, at, t)
}

func rank(t *testing.T) int {
	if i := slices.Index(longest, t.Name()); i >= 0 {
		return i
	}
	return len(longest)
}

func (l *line) wait(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for slices.Index(l.order, t) >= l.ended+l.beside {
		l.changed.Wait()
	}
}

func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	l.changed.Broadcast()
}
