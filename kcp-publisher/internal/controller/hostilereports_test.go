package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// chartMemoryLimit is GOMEMLIMIT in the publisher's chart: 90 % of the default memory limit of 1Gi.
const chartMemoryLimit = 921 << 20

func TestHostileReportsAreFreedFromMemory(t *testing.T) {
	receiveHostileReports(t, 10, 6, 0)
}

func TestTenThousandHostileReportsAreFreedFromMemory(t *testing.T) {
	suite.Long(t) // the short suite runs TestHostileReportsAreFreedFromMemory
	receiveHostileReports(t, 100, 100, 12)
}

// receiveHostileReports runs a publisher's controllers with large reports that differ in each round. After the runtimes
// send their usual reports again, memory usage must return to its initial value. Caches keep entries up to their
// limits, so requests for ordinary modules fill them before the first measurement, in warmRounds rounds.
func receiveHostileReports(t *testing.T, runtimes, rounds, warmRounds int) {
	t.Helper()
	limit := debug.SetMemoryLimit(chartMemoryLimit)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	f := newHostileFleet(t, runtimes)
	usual := func(*bundle.Report) {}
	f.round(f.makeHostile) // use every code path before the measurement
	for n := range warmRounds {
		f.round(func(report *bundle.Report) { requestOrdinaryModules(report, n) })
	}
	for range 2 {
		f.round(usual)
	}
	start, peak := heapInUse(), 0
	for n := range rounds {
		f.round(f.makeHostile)
		if n%10 == 9 || n == rounds-1 {
			used := heapInUse()
			t.Logf("after %d reports: %.1f MiB, %.1f MiB at the start", (n+1)*runtimes, float64(used)/(1<<20),
				float64(start)/(1<<20))
			peak = max(peak, used)
		}
	}
	requested := 0
	for _, kyma := range f.stored {
		requested = max(requested, len(kyma.Status.Runtime.Requested.Spec.Modules))
	}
	if requested < 100 {
		t.Errorf("the statuses contain requests of at most %d modules, so the hostile reports had no effect", requested)
	}
	for range 3 {
		f.round(usual)
	}
	runtime.GC()
	f.kymas.Slimmer.dropFreed()
	end := heapInUse()
	t.Logf("%d reports, %d MiB: %.1f MiB in use at the start, at most %.1f MiB, %.1f MiB at the end", runtimes*rounds,
		f.sentBytes>>20, float64(start)/(1<<20), float64(peak)/(1<<20), float64(end)/(1<<20))
	if peak > chartMemoryLimit {
		t.Errorf("%d bytes were in use, must be at most %d", peak, chartMemoryLimit)
	}
	if end > start+start/10 {
		t.Errorf("%d bytes are in use after %d hostile reports, %d before: must grow by at most 10 %%", end,
			runtimes*rounds, start)
	}
	runtime.KeepAlive(f)
}

// requestOrdinaryModules requests many modules with usual names. The request differs by runtime and round.
func requestOrdinaryModules(report *bundle.Report, round int) {
	for i := range 200 {
		report.Kyma.Spec.Modules = append(report.Kyma.Spec.Modules,
			v1beta2.Module{Name: fmt.Sprintf("module-%s-%d-%d", report.Runtime, round, i), Managed: true})
	}
}

// hostileFleet is a fleet whose runtimes can send any report. It stores Kymas as the publisher's cache does, because a
// fake client encodes the whole Kyma for every request.
type hostileFleet struct {
	*waves
	random    *rand.Rand
	stored    map[client.ObjectKey]*v1beta2.Kyma
	version   int
	sentBytes int
}

func newHostileFleet(t *testing.T, runtimes int) *hostileFleet {
	t.Helper()
	seed := suite.Seed(t, 1)
	f := &hostileFleet{
		waves: newWaves(t, newSurroundings(t), runtimes), random: rand.New(rand.NewPCG(seed, 0)),
		stored: map[client.ObjectKey]*v1beta2.Kyma{}, version: 1000,
	}
	f.place = &replaceable{store.NewMemory()}
	f.restart()
	var all v1beta2.KymaList
	f.must(f.api.List(t.Context(), &all))
	for i := range all.Items {
		f.store(&all.Items[i])
	}
	api := interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption,
		) error {
			kyma, is := object.(*v1beta2.Kyma)
			if !is {
				return c.Get(ctx, key, object, opts...)
			}
			f.stored[key].DeepCopyInto(kyma)
			return nil
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			kymas, is := list.(*v1beta2.KymaList)
			if !is {
				return c.List(ctx, list, opts...)
			}
			f.list(kymas, opts)
			return nil
		},
		SubResourcePatch: func(
			_ context.Context, _ client.Client, _ string, object client.Object, patch client.Patch,
			_ ...client.SubResourcePatchOption,
		) error {
			kyma := f.stored[client.ObjectKeyFromObject(object)].DeepCopy()
			kyma.Status = patchedStatus(t, object, patch)
			f.store(kyma)
			object.SetResourceVersion(kyma.ResourceVersion)
			return nil
		},
	})
	f.kymas.Client, f.kymas.uncached, f.kymas.Rollouts.Client = api, api, api
	return f
}

// patchedStatus returns the status in a patch from the function statusPatch.
func patchedStatus(t *testing.T, object client.Object, patch client.Patch) (status v1beta2.KymaStatus) {
	t.Helper()
	var operations []struct {
		Path  string
		Value json.RawMessage
	}
	data, err := patch.Data(object)
	if err == nil {
		err = json.Unmarshal(data, &operations)
	}
	for _, o := range operations {
		if o.Path == "/status" && err == nil {
			err = json.Unmarshal(o.Value, &status)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func (f *hostileFleet) store(kyma *v1beta2.Kyma) {
	f.version++
	kyma.ResourceVersion = strconv.Itoa(f.version)
	slim, err := f.kymas.Slimmer.Transform(kyma.DeepCopy())
	f.must(err)
	f.stored[client.ObjectKeyFromObject(kyma)] = slim.(*v1beta2.Kyma)
}

func (f *hostileFleet) list(kymas *v1beta2.KymaList, opts []client.ListOption) {
	var options client.ListOptions
	options.ApplyOptions(opts)
	runtimeID := ""
	if options.FieldSelector != nil {
		runtimeID, _ = options.FieldSelector.RequiresExactMatch(indexRuntime)
	}
	for _, name := range f.names {
		if runtimeID == "" || runtimeID == name {
			kymas.Items = append(kymas.Items, *f.stored[client.ObjectKey{Namespace: "kcp-system", Name: name}])
		}
	}
}

// round sends a changed report from each runtime, and waits until the publisher has processed all reports.
func (f *hostileFleet) round(change func(*bundle.Report)) {
	f.Helper()
	f.now = f.now.Add(2 * time.Minute)
	f.sequence = bundle.NextSequence(f.sequence, f.now)
	for _, name := range f.names {
		report := bundle.Report{
			Runtime: name, Fleet: f.newest.Fleet, Sequence: f.sequence, Time: f.now.UTC().Truncate(time.Second),
			AgentVersion: "v1", Kyma: &bundle.ReportedKyma{Generation: 1, Spec: v1beta2.KymaSpec{Channel: promotedChannel}},
		}
		change(&report)
		blob, err := bundle.ComposeReport(report, f.victimKey.signer)
		f.must(err)
		f.sentBytes += len(blob.Bytes)
		f.must(store.PushReport(f.Context(), f.place, name, blob))
	}
	f.poll()
	for _, name := range f.names {
		known := f.kymas.fleet.Get(client.ObjectKey{Namespace: "kcp-system", Name: name}).Report
		if known.Refused != nil || known.Accepted == nil || known.Accepted.Sequence != f.sequence {
			f.Fatalf("the report of %s was not accepted: %v", name, known.Refused)
		}
	}
	f.dropOldContent()
}

// dropOldContent replaces the registry with one that has only the newest bundle and report of each runtime.
func (f *hostileFleet) dropOldContent() {
	f.Helper()
	next := store.NewMemory()
	for _, name := range f.names {
		for repository, tag := range map[string]string{
			bundle.DesiredRepository(name): bundle.TagDesired, bundle.ReportRepository(name): bundle.TagLatest,
		} {
			from, err := f.place.Reading(f.Context(), repository)
			f.must(err)
			to, err := next.Repository(f.Context(), repository)
			f.must(err)
			_, err = oras.Copy(f.Context(), from, tag, to, tag, oras.DefaultCopyOptions)
			f.must(err)
		}
	}
	f.place.(*replaceable).Store = next
}

// replaceable is a registry whose content the test can replace.
type replaceable struct{ store.Store }

// makeHostile makes a report as large as the limits allow, with texts that are unique to this report.
func (f *hostileFleet) makeHostile(report *bundle.Report) {
	letters := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte('a' + f.random.IntN(26))
		}
		return string(text)
	}
	request := func(count, length int) {
		for i := range count {
			report.Kyma.Spec.Modules = append(report.Kyma.Spec.Modules,
				v1beta2.Module{Name: fmt.Sprint(letters(length), i), Managed: true})
		}
	}
	install := func(count, name, message int) {
		for i := range count {
			report.Modules = append(report.Modules, bundle.ReportedModule{
				Name: fmt.Sprint(letters(name), i), State: v1beta2.StateError, Message: letters(message),
			})
		}
	}
	report.Kyma.Generation = f.random.Int64()
	switch f.random.IntN(6) {
	case 0: // error messages contain the names of modules and the channel
		report.Kyma.Spec.Channel = letters(32)
		request(bundle.MaxManifests, 290)
	case 1:
		request(bundle.MaxManifests, 6)
	case 2:
		install(bundle.MaxManifests, 30, 200)
	case 3: // the JSON of these modules is small
		install(bundle.MaxManifests, 4, 0)
		request(bundle.MaxManifests, 4)
	case 4:
		for range bundle.MaxRefusedReported {
			report.Refused = append(report.Refused, bundle.RefusedBundle{
				Digest: digest.FromString(letters(8)), Reason: "Rollback", Detail: letters(512),
			})
		}
		for range 2 * bundle.MaxManifests {
			report.Decided = append(report.Decided, letters(100))
		}
		slices.Sort(report.Decided)
	case 5:
		request(300, 100)
		install(300, 100, 50)
	}
}
