package controller

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func asking(t *testing.T, handler http.HandlerFunc) *reportReader {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	registries, err := store.NewRegistries(store.Access{NoRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	place, err := store.Open(strings.TrimPrefix(server.URL, "http://")+"/fleet", registries)
	if err != nil {
		t.Fatal(err)
	}
	return newReports(place, func() time.Time { return noon }, fleetstate.New(), NewSlimmer())
}

func answers(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func kymaOf(runtime string) *v1beta2.Kyma {
	return &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: runtime, Namespace: "kcp-system", UID: "first"}}
}

// One runtime sends unchanged reports, an attacker replays old ones, and the publisher and the agent restart. The
// publisher may write the Kyma's status only once a day.
func TestUnchangedReportDoesNotWriteTheStatus(t *testing.T) {
	place, signer, now, kyma := store.NewMemory(), trusttest.NewSigner(t), noon, kymaOf("one")
	key, thumbprint := trusttest.PublicKey(t, signer), trusttest.Thumbprint(t, signer)
	public, err := trust.EncodePublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		ID: "one", Key: &v1beta2.RuntimeKey{PublicKey: public, Thumbprint: thumbprint},
	}
	start := func() *reportReader {
		return newReports(place, func() time.Time { return now }, fleetstate.New(), NewSlimmer())
	}
	r := start()
	report := func(sequence int64, at time.Time) bundle.Blob {
		blob, err := bundle.ComposeReport(bundle.Report{Runtime: "one", Sequence: sequence, Time: at,
			AgentVersion: "v1"}, signer)
		if err != nil {
			t.Fatal(err)
		}
		return blob
	}
	poll := func(lies bundle.Blob) (got readResult, wrote bool) {
		t.Helper()
		if err := store.PushReport(t.Context(), place, "one", lies); err != nil {
			t.Fatal(err)
		}
		newest, _, err := r.fetchReport(t.Context(), kyma, plan.Rules{}.Reporter(kyma, nil, now), 0, nil)
		if err != nil || newest.Accepted == nil && newest.Refused == nil {
			t.Fatalf("got report %+v and error %v, want an accepted or refused report", newest, err)
		}
		after := *kyma.DeepCopy()
		if newest.Refused == nil {
			ingest.RecordReport(&after.Status, *newest.Accepted, public, thumbprint, r.withoutMonotonic(newest.ArrivedAt))
		}
		if wrote = ingest.NeedsUpdate(kyma.Status, after.Status); wrote {
			kyma.Status = after.Status
		}
		return readResult{newest.Refused != nil, r.lastReport(kyma).KnownAt}, wrote
	}
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	rewritten := func(b bundle.Blob) bundle.Blob {
		return bundle.NewBlob(b.Descriptor.MediaType, append([]byte(" "), b.Bytes...))
	}
	first, second, third, fourth := report(1, minute(0)), report(2, minute(5)), report(3, minute(10)),
		report(4, minute(35))
	for _, step := range []struct {
		what    string
		at      time.Time
		restart bool
		lies    bundle.Blob
		want    readResult
		writes  bool
	}{
		{"first report", minute(0), false, first, readResult{false, minute(0)}, true},
		{"first report is read again", minute(1), false, first, readResult{false, minute(0)}, false},
		{"heartbeat", minute(6), false, second, readResult{false, minute(6)}, false},
		{"heartbeat with different bytes", minute(7), false, rewritten(second), readResult{false, minute(6)}, false},
		{"replay of the first report", minute(8), false, first, readResult{true, minute(6)}, false},
		{"heartbeat after the replay", minute(11), false, third, readResult{false, minute(11)}, false},
		{"restart, arrival time is taken from the report", minute(30), true, third, readResult{false, minute(10)}, false},
		{"replay of an older heartbeat", minute(31), false, second, readResult{true, minute(10)}, false},
		{"heartbeat after the restart", minute(36), false, fourth, readResult{false, minute(36)}, false},
		{"restart with an older heartbeat in the registry", minute(40), true, second, readResult{false, minute(5)}, false},
		{
			"newer heartbeat that the status does not record", minute(41), false, third, readResult{false, minute(41)},
			false,
		},
		{
			"heartbeat a day later", noon.Add(25 * time.Hour), false, report(5, noon.Add(25*time.Hour)),
			readResult{false, noon.Add(25 * time.Hour)}, true,
		},
	} {
		now = step.at
		if step.restart {
			r = start()
			if got := r.lastReport(kyma); !got.KnownAt.Equal(noon) || !got.PossibleAt.Equal(now) {
				t.Errorf("%s, before the report is read: got last report %+v", step.what, got)
			}
		}
		if got, wrote := poll(step.lies); got.refused != step.want.refused ||
			!got.lastReport.Equal(step.want.lastReport) ||
			wrote != step.writes {
			t.Errorf("%s: got %+v, written %v, want %+v, %v", step.what, got, wrote, step.want, step.writes)
		}
		if got := r.lastReport(kyma); !got.PossibleAt.IsZero() {
			t.Errorf("%s: got a possible unrecorded report until %s, want none", step.what, got.PossibleAt)
		}
	}
}

// After a restart, the publisher must use the time inside the next report, not the time at which it reads the report.
func TestDelayedReportDoesNotProveThatARuntimeIsAlive(t *testing.T) {
	place, signer, kyma := store.NewMemory(), trusttest.NewSigner(t), kymaOf("one")
	public, err := trust.EncodePublicKey(trusttest.PublicKey(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: "one", ReportSequence: 1, Key: &v1beta2.RuntimeKey{
		PublicKey: public, Thumbprint: trusttest.Thumbprint(t, signer),
	},
		Observed: &v1beta2.ObservedBundle{Time: metav1.NewTime(noon), Heard: new(metav1.NewTime(noon))}}
	started, written := noon.Add(10*time.Hour), noon.Add(time.Hour)
	r := newReports(place, func() time.Time { return started }, fleetstate.New(), NewSlimmer())
	fetch := func() fleetstate.Report {
		t.Helper()
		newest, _, err := r.fetchReport(t.Context(), kyma, plan.Rules{}.Reporter(kyma, nil, started), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return newest
	}
	push := func(sequence int64, signer trust.Signer) {
		t.Helper()
		blob, err := bundle.ComposeReport(bundle.Report{Runtime: "one", Sequence: sequence, Time: written}, signer)
		if err == nil {
			err = store.PushReport(t.Context(), place, "one", blob)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	unnoted := func(when string) {
		t.Helper()
		if got := r.lastReport(kyma); !got.KnownAt.Equal(noon) || !got.PossibleAt.Equal(started) {
			t.Errorf("%s: got last report %+v, want the recorded one and a possible newer one", when, got)
		}
	}
	fetch()
	unnoted("without a report")
	push(2, trusttest.NewSigner(t))
	if fetch().Refused == nil {
		t.Error("a report with an unknown key is accepted")
	}
	unnoted("with a report of an unknown key")
	push(3, signer)
	if newest := fetch(); newest.Accepted == nil || !newest.ArrivedAt.Equal(written) {
		t.Errorf("a delayed heartbeat: got %+v, want its own time as arrival", newest)
	}
}

// readResult is the result of reading a report.
type readResult struct {
	refused    bool
	lastReport time.Time
}

// A report has arrived, but its content is not in the Kyma's status yet. If a rollout used only the report's time, it
// would treat the runtime as failed.
func TestRolloutUsesAReportOnlyAfterItsContentIsRecorded(t *testing.T) {
	const later = 2 * time.Hour
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: "one", ReportSequence: 1, Observed: &v1beta2.ObservedBundle{
		Time: metav1.NewTime(noon), Heard: new(metav1.NewTime(noon)), Report: "sha256:before",
	}}
	r := newReports(store.NewMemory(), func() time.Time { return noon.Add(later) }, fleetstate.New(), NewSlimmer())
	newest := bundle.AcceptedReport{
		Content: "sha256:after", Report: bundle.Report{Runtime: "one", Sequence: 2, Time: noon.Add(later)},
	}
	r.storeReport(kyma, fleetstate.Report{Accepted: &newest, ArrivedAt: noon.Add(later)})
	record := func(state v1beta2.State) {
		kyma.Status.Runtime.Published = &v1beta2.PublishedBundle{
			Versions: map[string]string{"keda": "1.1.0"}, Given: map[string]v1beta2.GivenVersion{
				"keda": {Rollout: "keda-regular-1", Time: metav1.NewTime(noon), State: state},
			},
		}
	}
	if got := r.lastReport(kyma); !got.KnownAt.Equal(noon) || !got.PossibleAt.Equal(noon.Add(later)) {
		t.Errorf("before the content is recorded: got last report %+v", got)
	}
	stands := func() fleet.RolloutStatus {
		course := fleet.Course{OfflineAfter: metav1.Duration{Duration: 15 * time.Minute},
			OnFailure: fleet.OnFailureRollback, Waves: []fleet.Wave{{
				Name: "all", Percent: new(int32(100)), Deadline: metav1.Duration{Duration: time.Hour},
				FailsOn: []fleet.Symptom{fleet.SymptomError, fleet.SymptomNotReady},
			}}}
		spec := fleet.RolloutSpec{
			Module: "keda", Channel: "regular", From: "1.0.0", To: "1.1.0", Revision: 1, Course: course,
		}
		status := fleet.RolloutStatus{
			State: fleet.RolloutProgressing, StartedAt: new(metav1.NewTime(noon)), Waves: []fleet.WaveStatus{
				{Name: "all", Place: new(int64(math.MaxInt64)), StartedAt: new(metav1.NewTime(noon))},
			},
		}
		members := []plan.Member{
			{
				Kyma: kyma, Runtime: "one", LastReport: r.lastReport(kyma), FollowedChannels: []resolve.FollowedChannel{
					{Module: "keda", Channel: "regular", Version: "1.1.0"},
				},
			},
		}
		seen := plan.Tracks(members, nil)[rollout.Track{Module: "keda", Channel: "regular"}]
		return rollout.Plan("keda-regular-1", spec, status, seen.Runtimes,
			rollout.PlanInput{ChannelVersion: "1.1.0", Now: noon.Add(later)}).Status
	}
	record("")
	if got := stands().Waves[0]; got.InFlight != 1 || got.Failed != 0 || got.Deferred != 0 {
		t.Errorf("before the content is recorded: got wave %+v, want the runtime in flight", got)
	}
	ingest.RecordReport(&kyma.Status, newest, "key", "thumbprint", noon.Add(later))
	record(v1beta2.StateReady)
	if got := r.lastReport(kyma); !got.KnownAt.Equal(noon.Add(later)) || !got.PossibleAt.IsZero() {
		t.Errorf("after the content is recorded: got last report %+v", got)
	}
	if got := stands().Waves[0]; got.Updated != 1 {
		t.Errorf("after the content is recorded: got wave %+v, want the runtime updated", got)
	}
	kyma.Status.Runtime.Observed.Report, kyma.Status.Runtime.Observed.Heard = "sha256:before", new(metav1.NewTime(noon))
	kyma.Status.Conditions = []metav1.Condition{
		{Type: v1beta2.ConditionReporting, Reason: v1beta2.ReasonReportRefused, Status: metav1.ConditionFalse},
	}
	if got := r.lastReport(kyma); !got.KnownAt.Equal(noon) || !got.PossibleAt.IsZero() {
		t.Errorf("with a refused report: got last report %+v, want the recorded one only", got)
	}
}

func TestOnlyARegistryOutageDelaysAllRuntimes(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		away   bool
	}{
		"report not found":                {answers(http.StatusNotFound), false},
		"repository forbidden":            {answers(http.StatusForbidden), false},
		"repository requires credentials": {answers(http.StatusUnauthorized), false},
		"response with an invalid digest": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Docker-Content-Digest", "garbage") }, false,
		},
		"empty response":                 {answers(http.StatusOK), false},
		"server error from the registry": {answers(http.StatusBadGateway), true},
		"overloaded registry":            {answers(http.StatusTooManyRequests), true},
		"closed connection": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := asking(t, c.answer)
			if _, _, err := r.fetchReport(t.Context(), kymaOf("one"), bundle.Reporter{Runtime: "one"}, time.Minute/2,
				nil); (err != nil) != c.away {
				t.Errorf("fetch returned %v, so all runtimes wait: %v, want %v", err, err != nil, c.away)
			}
		})
	}
}

// A newly started publisher does not have any report yet, so it fetches each report directly instead of comparing
// digests first.
func TestStartedPublisherReadsEachReportOnce(t *testing.T) {
	var asked []string
	manifest := []byte(`{"schemaVersion":2}`)
	r := asking(t, func(w http.ResponseWriter, request *http.Request) {
		asked = append(asked, request.Method)
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(manifest).String())
		w.Header().Set("Content-Length", fmt.Sprint(len(manifest)))
		if request.Method == http.MethodGet {
			w.Write(manifest)
		}
	})
	now := noon
	r.now = func() time.Time { now = now.Add(time.Second); return now }
	for range 3 {
		if newest, _, err := r.fetchReport(t.Context(), kymaOf("one"), bundle.Reporter{Runtime: "one"}, 0, nil); err != nil ||
			newest.Refused == nil || newest.Digest != digest.FromBytes(manifest) {
			t.Fatalf("got report %+v and error %v, want the refused report in the registry", newest, err)
		}
	}
	if got := strings.Join(asked, " "); got != "GET HEAD HEAD" {
		t.Errorf("got requests %q, want GET HEAD HEAD", got)
	}
}

func TestRecreatedKymaDoesNotInheritReports(t *testing.T) {
	r := asking(t, answers(http.StatusNotFound))
	first, second := kymaOf("one"), kymaOf("one")
	second.UID = "second"
	r.storeReport(first, fleetstate.Report{Digest: "sha256:report", AskedAt: noon})
	if got := r.lastKnown(first); got.Digest != "sha256:report" {
		t.Errorf("first Kyma: got report %+v, want the recorded one", got)
	}
	if got := r.lastKnown(second); got.Digest != "" || !got.AskedAt.IsZero() ||
		r.fleet.GetCurrent(second).UID != second.UID {
		t.Errorf("the second Kyma has report %+v, want none", got)
	}
	r.fleet.Delete(client.ObjectKeyFromObject(first))
	r.fleet.ForEach(func(key fleetstate.Key, _ *fleetstate.Runtime) { t.Errorf("the record of %s still exists", key) })
}

func TestRepeatedRegistryErrorHasTheSameText(t *testing.T) {
	request := 0
	r := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		request++
		w.Header().Set("X-Request-Id", fmt.Sprint(request))
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"request %d","detail":"at %d"}]}`, request, request)
	})
	now := noon
	r.now = func() time.Time { return now }
	for range 2 {
		got, _, err := r.fetchReport(t.Context(), kymaOf("one"), bundle.Reporter{Runtime: "one"}, time.Minute/2, nil)
		if err != nil || got.ReadError == nil || got.ReadError.Error() != "the registry returned 403 Forbidden" {
			t.Errorf("got Unread %v and error %v, want status 403 without other details", got.ReadError, err)
		}
		now = now.Add(time.Minute)
	}
	if request != 2 {
		t.Errorf("got %d requests, want 2", request)
	}
}

// Checking the content of a report is expensive, so the publisher must not repeat the check for an accepted report.
func TestReportContentIsCheckedUntilItIsAccepted(t *testing.T) {
	place, signer, now, kyma := store.NewMemory(), trusttest.NewSigner(t), noon, kymaOf("one")
	public, err := trust.EncodePublicKey(trusttest.PublicKey(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	thumbprint := trusttest.Thumbprint(t, signer)
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		ID: "one", Key: &v1beta2.RuntimeKey{PublicKey: public, Thumbprint: thumbprint},
	}
	r := newReports(place, func() time.Time { return now }, fleetstate.New(), NewSlimmer())
	for i, step := range []struct {
		what    string
		restart bool
		version string
		refuse  bool
		checks  int
	}{
		{"first report", false, "v1", false, 1},
		{"heartbeat", false, "v1", false, 0},
		{"restart with the accepted content in the status", true, "v1", false, 0},
		{"new content is refused", false, "v2", true, 1},
		{"refused content is reported again", false, "v2", true, 1},
		{"accepted content is reported again", false, "v1", true, 0},
		{"new content is accepted", false, "v2", false, 1},
		{"restart with different content", true, "v3", false, 1},
	} {
		now = now.Add(time.Minute)
		if step.restart {
			r = newReports(place, func() time.Time { return now }, fleetstate.New(), NewSlimmer())
		}
		blob, err := bundle.ComposeReport(bundle.Report{Runtime: "one", Sequence: int64(i + 1), Time: now,
			AgentVersion: step.version}, signer)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.PushReport(t.Context(), place, "one", blob); err != nil {
			t.Fatal(err)
		}
		checks, from := 0, plan.Rules{}.Reporter(kyma, nil, now)
		from.Content = func(bundle.Report) error {
			if checks++; step.refuse {
				return errors.New("invalid content")
			}
			return nil
		}
		newest, _, err := r.fetchReport(t.Context(), kyma, from, 0, nil)
		if refused := newest.Refused != nil; err != nil || checks != step.checks ||
			refused != (step.refuse && step.checks > 0) {
			t.Errorf("%s: got %d checks, refused %v, error %v, want %d checks", step.what, checks, newest.Refused, err,
				step.checks)
		}
		if newest.Refused == nil {
			ingest.RecordReport(&kyma.Status, *newest.Accepted, public, thumbprint, r.withoutMonotonic(newest.ArrivedAt))
		}
	}
}
