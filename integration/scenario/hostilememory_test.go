package scenario

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// chartMemory and chartGoMemory are the memory limit and GOMEMLIMIT of the publisher in its chart.
const (
	chartMemory   = 1 << 30
	chartGoMemory = "921MiB"
)

// Fifty runtimes with stolen keys send 10,000 expensive reports to the publisher, which has the memory limit of its
// chart. After the runtimes send normal reports again, the publisher needs as much memory as before.
//
// The buffers of watches and connections grow to the largest object once and are then reused. Two rounds of hostile
// reports fill them before the first measurement, and maxBuffers limits this growth.
func TestHostileReportsDoNotFillThePublishersMemory(t *testing.T) {
	suite.Long(t) // the short suite runs TestHostileReportsAreFreedFromMemory
	const reporters, hostileRounds, maxBuffers = 50, 200, 8 << 20
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	profiles := freeAddress(t)
	f := startFleet(t, fleet.Options{
		Measured: true, PublisherEnvironment: []string{"GOMEMLIMIT=" + chartGoMemory}, PublisherFlags: []string{
			"--set=report-poll-interval=300ms", "--set=pprof=true", "--metrics-bind-address", profiles, "--metrics-auth=false",
		},
	})
	h := &hostileReporters{t: t, profiles: profiles, asked: watchFetches(f), random: rand.New(rand.NewPCG(seed, 0))}
	for i := range reporters {
		thief := newReporter(t, f, fmt.Sprint("thief-", i))
		h.thieves = append(h.thieves, thief)
		thief.pushReport(func(*bundle.Report) {})
	}
	for _, thief := range h.thieves {
		// The publisher reads a runtime's first report by tag, but the rounds wait for reads by digest.
		thief.untilReporting("Reported=True")
	}
	hostile := func(report *bundle.Report) { makeHostile(report, h.random) }
	unused := h.settledHeap()
	for range 2 {
		h.round(hostile)
	}
	before := h.settledHeap()
	t.Logf("%d KiB in use before and %d KiB after the buffers are filled", unused>>10, before>>10)
	if before > unused+maxBuffers {
		t.Errorf("the buffers use %d bytes, must be at most %d", before-unused, maxBuffers)
	}
	for n := range hostileRounds {
		h.round(hostile)
		if n%20 == 19 {
			t.Logf("%d KiB in use after %d reports", liveHeap(t, profiles)>>10, (n+1)*reporters)
		}
	}
	after := h.settledHeap()
	t.Logf("%d KiB in use before and %d KiB after the hostile reports", before>>10, after>>10)
	if after > before+before/10 {
		t.Errorf("%d bytes are in use after the hostile reports, %d before: must grow by at most 10 %%", after, before)
	}
	publisher, ok := f.Publisher().(*fleet.Process)
	if !ok {
		t.Fatalf("got a publisher of type %T, want a process", f.Publisher())
	}
	peak, err := publisher.PeakMemoryBytes()
	must(t, err)
	t.Logf("%d reports: at most %d KiB resident", reporters*hostileRounds, peak>>10)
	if peak > chartMemory {
		t.Errorf("the publisher needed %d bytes, must be at most %d", peak, chartMemory)
	}
	honest := newReporter(t, f, "honest")
	honest.pushReport(func(*bundle.Report) {})
	honest.untilReporting("Reported=True")
}

// hostileReporters are runtimes whose reports the test chooses.
type hostileReporters struct {
	t        *testing.T
	profiles string // the address with the publisher's profiles
	asked    *fetches
	random   *rand.Rand
	thieves  []*reporter
}

// round sends a report from each runtime and waits until the publisher has read all reports.
func (h *hostileReporters) round(change func(*bundle.Report)) {
	h.t.Helper()
	var digests []digest.Digest
	for _, thief := range h.thieves {
		digests = append(digests, thief.pushReport(change))
	}
	for _, d := range digests {
		h.asked.until(h.t, d)
	}
}

// settledHeap sends normal reports, so that no status contains data from hostile reports, and returns the size of the
// publisher's heap after it has not shrunk for 90 seconds. The publisher frees the data for decisions about removals
// after one to two minutes.
func (h *hostileReporters) settledHeap() (smallest int64) {
	h.t.Helper()
	h.round(func(*bundle.Report) {})
	for _, thief := range h.thieves {
		thief.untilReporting("Reported=True")
	}
	var since time.Time
	until(h.t, 10*time.Minute, "the publisher's heap stops shrinking", func() (bool, string) {
		heap := liveHeap(h.t, h.profiles)
		if smallest == 0 || heap < smallest-smallest/100 {
			smallest, since = heap, time.Now()
		}
		return time.Since(since) > 90*time.Second, fmt.Sprintf("%d KiB", heap>>10)
	})
	return smallest
}

// liveHeap returns the used heap bytes of a program after garbage collections. The first collection frees the targets
// of weak references.
func liveHeap(t *testing.T, address string) (bytes int64) {
	t.Helper()
	for range 2 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+address+"/debug/pprof/heap?gc=1&debug=1", nil)
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		profile, err := io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
		_, after, found := strings.Cut(string(profile), "# HeapAlloc = ")
		figure, _, _ := strings.Cut(after, "\n")
		bytes, err = strconv.ParseInt(figure, 10, 64)
		if err != nil || !found {
			t.Fatalf("read the heap of the publisher: %s: %v", response.Status, err)
		}
	}
	return bytes
}

// makeHostile changes a report so that the publisher needs a lot of memory for it. Only one of ten reports contains
// many requested modules, because the API server needs a lot of CPU time for the resulting statuses.
func makeHostile(report *bundle.Report, random *rand.Rand) {
	letters := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte('a' + random.IntN(26))
		}
		return string(text)
	}
	request := func(count, length int) {
		for i := range count {
			report.Kyma.Spec.Modules = append(report.Kyma.Spec.Modules, v1beta2.Module{
				Name: fmt.Sprint(letters(length), i), Managed: true,
			})
		}
	}
	report.Kyma.Generation = random.Int64()
	switch random.IntN(40) {
	case 0:
		report.Kyma.Spec.Channel = letters(32)
		request(bundle.MaxManifests, 290)
	case 1:
		report.Kyma.Spec.Channel = letters(32)
		request(bundle.MaxManifests, 60)
	case 2:
		request(bundle.MaxManifests, 8)
	case 3:
		for i := range bundle.MaxManifests {
			report.Modules = append(report.Modules, bundle.ReportedModule{
				Name: fmt.Sprint(letters(30), i), Channel: "regular", State: v1beta2.StateError, Message: letters(200),
			})
		}
	default:
		for range bundle.MaxRefusedReported {
			report.Refused = append(report.Refused, bundle.RefusedBundle{
				Digest: digest.FromString(letters(8)), Reason: "Rollback", Detail: letters(512),
			})
		}
		request(1+random.IntN(5), 60)
	}
}
