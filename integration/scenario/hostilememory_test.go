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

// A hundred runtimes with stolen keys send 10,000 of the most expensive reports to the publisher, which has the memory
// limit of its chart. After the runtimes send usual reports again, the publisher needs as much memory as before. Caches
// keep entries up to their limits, so the same reports fill them before the first measurement.
func TestHostileReportsDoNotFillThePublishersMemory(t *testing.T) {
	suite.Long(t) // the short suite runs TestHostileReportsAreFreedFromMemory
	const reporters, hostileRounds = 100, 100
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	profiles := freeAddress(t)
	f := startFleet(t, fleet.Options{
		Measured: true, PublisherEnvironment: []string{"GOMEMLIMIT=" + chartGoMemory}, PublisherFlags: []string{
			"--set=report-poll-interval=100ms", "--set=pprof=true", "--metrics-bind-address", profiles, "--metrics-auth=false",
		},
	})
	h := &hostileReporters{t: t, profiles: profiles, asked: watchFetches(f), random: rand.New(rand.NewPCG(seed, 0))}
	for i := range reporters {
		thief := newReporter(t, f, fmt.Sprint("thief-", i))
		h.thieves = append(h.thieves, thief)
		thief.pushReport(func(*bundle.Report) {})
	}
	for _, thief := range h.thieves {
		// The publisher reads the first report by its tag, not by its digest.
		thief.untilReporting("Reported=True")
	}
	before := h.fillCaches()
	for range hostileRounds {
		h.round(h.makeHostile)
	}
	after := int64(0)
	until(t, 5*time.Minute, "the publisher's heap returns to within 10 % of its size before the hostile reports",
		func() (bool, string) {
			after = h.settle()
			return after <= before+before/10, fmt.Sprintf("%d KiB before, %d KiB after", before>>10, after>>10)
		})
	publisher, ok := f.Publisher().(*fleet.Process)
	if !ok {
		t.Fatalf("got a publisher of type %T, want a process", f.Publisher())
	}
	peak, err := publisher.PeakMemoryBytes()
	must(t, err)
	t.Logf("%d reports: %d KiB in use before, %d KiB after, at most %d KiB resident", reporters*hostileRounds, before>>10,
		after>>10, peak>>10)
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

// fillCaches sends reports until the publisher's heap stops growing, and returns its size. A cache that has no limit
// grows further during the test.
func (h *hostileReporters) fillCaches() int64 {
	h.t.Helper()
	const maxChecks, roundsPerCheck = 20, 3
	last := int64(0)
	for check := range maxChecks {
		for n := range roundsPerCheck {
			h.round(h.makeHostile)
			h.round(func(r *reporter, report *bundle.Report) {
				requestOrdinaryModules(r, report, check*roundsPerCheck+n)
			})
		}
		used := h.settle()
		h.t.Logf("%d KiB in use while the caches fill", used>>10)
		if used <= last+last/50 {
			return max(used, last)
		}
		last = used
	}
	h.t.Fatalf("the publisher's heap still grows after %d rounds: %d KiB", maxChecks*roundsPerCheck, last>>10)
	return 0
}

// round sends a report from each runtime and waits until the publisher has read all reports.
func (h *hostileReporters) round(change func(*reporter, *bundle.Report)) {
	h.t.Helper()
	var digests []digest.Digest
	for _, thief := range h.thieves {
		digests = append(digests, thief.pushReport(func(report *bundle.Report) { change(thief, report) }))
	}
	for _, d := range digests {
		h.asked.until(h.t, d)
	}
}

// settle replaces the hostile data in the statuses with data of usual reports, and returns the size of the publisher's
// heap.
func (h *hostileReporters) settle() int64 {
	h.t.Helper()
	h.round(func(*reporter, *bundle.Report) {})
	for _, thief := range h.thieves {
		thief.untilReporting("Reported=True")
	}
	return liveHeap(h.t, h.profiles)
}

func (h *hostileReporters) makeHostile(_ *reporter, report *bundle.Report) {
	makeHostile(report, h.random)
}

// requestOrdinaryModules requests many modules with usual names, which differ by runtime and round.
func requestOrdinaryModules(r *reporter, report *bundle.Report, round int) {
	for i := range 200 {
		report.Kyma.Spec.Modules = append(report.Kyma.Spec.Modules,
			v1beta2.Module{Name: fmt.Sprintf("module-%s-%d-%d", r.id, round, i), Managed: true})
	}
}

// liveHeap returns the used heap bytes of a program after a garbage collection.
func liveHeap(t *testing.T, address string) int64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+address+"/debug/pprof/heap?gc=1&debug=1", nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	profile, err := io.ReadAll(response.Body)
	must(t, err)
	_, after, found := strings.Cut(string(profile), "# HeapAlloc = ")
	figure, _, _ := strings.Cut(after, "\n")
	bytes, err := strconv.ParseInt(figure, 10, 64)
	if err != nil || !found {
		t.Fatalf("read the heap of the publisher: %s: %v", response.Status, err)
	}
	return bytes
}

// makeHostile changes a report so that it costs the publisher as much memory as possible.
func makeHostile(report *bundle.Report, random *rand.Rand) {
	letters := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte('a' + random.IntN(26))
		}
		return string(text)
	}
	wish := func(count, length int) {
		for i := range count {
			report.Kyma.Spec.Modules = append(report.Kyma.Spec.Modules, v1beta2.Module{
				Name: fmt.Sprint(letters(length), i), Managed: true,
			})
		}
	}
	report.Kyma.Generation = random.Int64()
	switch random.IntN(6) {
	case 0: // error messages quote the channel twice per module
		report.Kyma.Spec.Channel = letters(9000)
		wish(850, 8)
	case 1:
		report.Kyma.Spec.Channel = letters(32)
		wish(500, 60)
	case 2:
		report.Kyma.Spec.Channel = letters(3)
		wish(500, 8)
	case 3:
		for i := range 500 {
			report.Modules = append(report.Modules, bundle.ReportedModule{
				Name: fmt.Sprint(letters(30), i), Channel: "regular", State: v1beta2.StateError, Message: letters(200),
			})
		}
	case 4:
		for range bundle.MaxRefusedReported {
			report.Refused = append(report.Refused, bundle.RefusedBundle{
				Digest: digest.FromString(letters(8)), Reason: "Rollback", Detail: letters(512),
			})
		}
		wish(100, 60)
	case 5:
		report.AgentVersion, report.ClusterUID = letters(100_000), letters(20_000)
	}
}
