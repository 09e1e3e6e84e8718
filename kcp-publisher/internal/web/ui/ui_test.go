package ui

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

type served struct {
	*httptest.Server
	source          *Source
	changedRollouts chan v1alpha1.Rollout
	acted           chan v1beta2.Kyma
}

// act applies an action to a Kyma that exists only in memory and has only a namespace and a name. A Kyma whose name
// ends with 00003 is being deleted.
func (s *served) act(key client.ObjectKey, action actions.Runtime) (actions.Result, error) {
	kyma := v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if strings.HasSuffix(key.Name, "00003") {
		kyma.DeletionTimestamp = new(metav1.NewTime(noon))
	}
	effect, err := action.Change(&kyma)
	if err == nil {
		s.acted <- kyma
	}
	return actions.Result{Effect: effect}, err
}

// serve serves the pages of a fleet to a viewer. If viewer is nil, the pages are served to a viewer with all
// permissions.
func serve(t testing.TB, f fleet.Fleet, viewer *Viewer) *served {
	t.Helper()
	s := &served{
		source:          NewSource(nil, "kcp-system", nil, nil),
		changedRollouts: make(chan v1alpha1.Rollout, 10),
		acted:           make(chan v1beta2.Kyma, 1000),
	}
	s.source.kyma, s.source.kymas = sampleKyma, s.kymas
	s.source.setFleet(f)
	if viewer == nil {
		yes := func(context.Context, string) (bool, error) { return true, nil }
		viewer = &Viewer{
			Name: "ada@example.org", MaySee: yes,
			MissingForReport: func(context.Context, client.ObjectKey) (string, error) { return "", nil },
			MayChangeRollout: func(context.Context, client.ObjectKey) (bool, error) { return true, nil },
			ActOnRollout: func(
				_ context.Context, key client.ObjectKey, action actions.Rollout,
			) (actions.Result, error) {
				return s.actOnRollout(key, action)
			},
			MayAct: func(context.Context, client.ObjectKey) (bool, error) { return true, nil },
			Act: func(_ context.Context, key client.ObjectKey, action actions.Runtime) (actions.Result, error) {
				return s.act(key, action)
			},
		}
	}
	pages := Handler(
		Options{
			Source:   s.source,
			Log:      logr.Discard(),
			Now:      func() time.Time { return noon },
			Events:   sampleEvents,
			Chain:    sampleChain,
			Contents: sampleContents,
			Report:   sampleReport,
			Trains:   sampleTrains,
		},
	)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(WithViewer(r.Context(), viewer)))
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func sampleEvents(_ context.Context, kyma *v1beta2.Kyma) ([]corev1.Event, error) {
	return []corev1.Event{
		{
			Reason:        "Published",
			Type:          "Normal",
			Message:       "published bundle 1763812000000 of " + kyma.Name,
			LastTimestamp: metav1.NewTime(noon.Add(-4 * time.Minute)),
			Count:         1,
		},
		{
			Reason:        "ModuleFailed",
			Type:          "Warning",
			Message:       hostile,
			LastTimestamp: metav1.NewTime(noon.Add(-2 * time.Minute)),
			Count:         3,
		},
	}, nil
}

// actOnRollout changes the rollout in the fleet as the publisher does.
func (s *served) actOnRollout(key client.ObjectKey, action actions.Rollout) (actions.Result, error) {
	current, _, _ := s.source.snapshot()
	f := current.Fleet
	f.Rollouts = append([]fleet.Rollout(nil), f.Rollouts...)
	for i := range f.Rollouts {
		r := &f.Rollouts[i]
		if r.Name != key.Name {
			continue
		}
		one := v1alpha1.Rollout{Spec: r.Spec, Status: r.Status}
		effect, err := action.Change(&one)
		if err != nil {
			return actions.Result{}, err
		}
		r.Spec = one.Spec
		s.changedRollouts <- one
		s.source.setFleet(f)
		return actions.Result{Effect: effect}, nil
	}
	return actions.Result{}, nil
}

func (s *served) get(t testing.TB, path string, header ...string) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return send(t, request)
}

func send(t testing.TB, request *http.Request) (int, string, http.Header) {
	t.Helper()
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body), response.Header
}

func TestEveryPageRendersForEveryFleet(t *testing.T) {
	for name, f := range map[string]fleet.Fleet{"empty": {}, "single-runtime": sampleFleet(1, true),
		"healthy": sampleFleet(200, true), "unhealthy": sampleFleet(200, false)} {
		s := serve(t, f, nil)
		for _, path := range []string{"/", "/?q=r-0001", "/?group=channel", "/?group=label:" + regionLabel,
			"/?module=keda&group=version", "/?page=99", "/?sort=report", "/rollouts", "/modules"} {
			if status, body, _ := s.get(t, path); status != http.StatusOK || !strings.Contains(body, "</html>") {
				t.Errorf("%s fleet, %s: got status %d\n%s", name, path, status, body)
			}
		}
		if len(f.Runtimes) == 0 {
			continue
		}
		for i := range f.Runtimes[:min(20, len(f.Runtimes))] {
			if status, body, _ := s.get(t, "/runtimes/"+f.Runtimes[i].ID); status != http.StatusOK ||
				!strings.Contains(body, f.Runtimes[i].ID) {
				t.Errorf("%s fleet, runtime %s: got status %d", name, f.Runtimes[i].ID, status)
			}
		}
	}
}

func TestFirstScreenShowsTheMostUrgentProblems(t *testing.T) {
	s := serve(t, sampleFleet(1000, false), nil)
	_, body, _ := s.get(t, "/")
	for _, want := range []string{"60 of 1,000 runtimes need attention",
		"Deployment kyma-system/keda-operator: container keda-operator crashes", "root of trust expires at 2026-12-10",
		"keda-regular-4", "1–50 of 1,000"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	first := strings.Index(body, ">30<")
	if second := strings.Index(body, "signed with a key"); first > second {
		t.Error("a cause of 10 runtimes is listed before a cause of 30")
	}
	_, body, _ = serve(t, sampleFleet(12, true), nil).get(t, "/")
	if !strings.Contains(body, "All 12 runtimes are healthy") || strings.Contains(body, "Most urgent problems") {
		t.Errorf("the page of a healthy fleet shows problems:\n%s", body)
	}
}

func TestFiltersSelectRuntimesOnThePage(t *testing.T) {
	f := sampleFleet(1000, false)
	s := newSnapshot(f, 1)
	count := func(address string) int {
		values, err := url.ParseQuery(address)
		if err != nil {
			t.Fatal(err)
		}
		o := overview{Query: parseQuery(values)}
		o.list(s)
		return o.Found.Total
	}
	for address, want := range map[string]int{
		"": 1000, "health=Failing": 40, "health=Failing&module=keda&state=Error": 30, "q=R-0001": 10,
		"channel=fast": 333, "module=keda&version=-": 10,
		"module=keda&version=1.8.0": 300, "label=" + regionLabel + "%3Deu-central-1": 334, "label=nobody": 0,
		"agent=-": 10, "health=nonsense": 0, "q=CrashLoop": 30,
		"cause=" + s.causes[0].Key: 30,
	} {
		if got := count(address); got != want {
			t.Errorf("%q finds %d runtimes, want %d", address, got, want)
		}
	}
}

func TestPagesEscapeTextFromRuntimes(t *testing.T) {
	f := sampleFleet(3, true)
	r := &f.Runtimes[0]
	r.ID, r.Channel, r.Agent = hostile, hostile, hostile
	r.Labels = map[string]string{hostile: hostile}
	r.Health, r.Cause = fleet.Failing, &fleet.Cause{Message: hostile, Advice: hostile}
	r.Modules[0] = fleet.RuntimeModule{
		Name:    hostile,
		Version: hostile,
		Asked:   "x",
		Message: hostile,
		Held:    hostile,
		State:   hostile,
	}
	f.Rollouts[0].Status.Message, f.Rollouts[0].Status.Failures = hostile, []v1alpha1.RuntimeFailure{
		{Runtime: hostile, Wave: hostile, Reason: strings.Repeat(hostile, 1000)},
	}
	f.Modules[0].Name = hostile
	s := serve(t, f, nil)
	for _, path := range []string{"/", "/?q=" + url.QueryEscape(hostile), "/?group=module",
		"/?group=channel&label=" + url.QueryEscape(hostile), "/runtimes/" + url.PathEscape(hostile), "/rollouts",
		"/rollouts/keda-regular-4", "/modules", "/images", "/runtimes/nobody" + url.PathEscape(hostile)} {
		_, body, _ := s.get(t, path)
		for _, never := range []string{"<script>document", "<img", "\u202e", "\x1b"} {
			if strings.Contains(body, never) {
				t.Errorf("%s contains %q", path, never)
			}
		}
		if len(body) > 1<<20 {
			t.Errorf("%s is %d bytes, want at most 1 MiB", path, len(body))
		}
	}
}

func TestPagesRefuseViewersWithoutPermission(t *testing.T) {
	no := func(context.Context, string) (bool, error) { return false, nil }
	broken := func(context.Context, string) (bool, error) { return true, io.ErrUnexpectedEOF }
	for name, c := range map[string]struct {
		viewer *Viewer
		status int
	}{
		"request without a viewer":                   {&Viewer{}, http.StatusUnauthorized},
		"viewer without permission":                  {&Viewer{MaySee: no}, http.StatusForbidden},
		"viewer whose permissions cannot be checked": {&Viewer{MaySee: broken}, http.StatusServiceUnavailable},
	} {
		s := serve(t, sampleFleet(5, true), c.viewer)
		for _, path := range []string{"/", "/live", "/rollouts", "/runtimes/r-00001", "/modules", "/images",
			"/nowhere"} {
			if status, body, _ := s.get(t, path); status != c.status || strings.Contains(body, "r-00001") {
				t.Errorf("%s at %s: got status %d\n%s", name, path, status, body)
			}
		}
	}
}

func TestRolloutActionsRequirePermission(t *testing.T) {
	post := func(s *served, form string, header ...string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/rollouts/keda-regular-4",
			strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i+1 < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		status, body, _ := send(t, request)
		return status, body
	}
	s := serve(t, sampleFleet(100, false), nil)
	if status, _ := post(s, "confirmed=yes&action=approve&wave=rest", "Sec-Fetch-Site",
		"cross-site"); status != http.StatusForbidden {
		t.Errorf("request from another site: got status %d", status)
	}
	if status, _ := post(s, "confirmed=yes&action=approve&wave=rest", "Origin",
		"https://evil.example"); status != http.StatusForbidden {
		t.Errorf("request from another origin: got status %d", status)
	}
	if status, body := post(s, "confirmed=yes&action=approve&wave=canaries"); status != http.StatusConflict ||
		!strings.Contains(body, "not possible in the rollout") {
		t.Errorf("wave that does not need approval: got status %d\n%s", status, body)
	}
	if status, _ := post(s, "confirmed=yes&action=delete"); status != http.StatusConflict {
		t.Errorf("unknown action: got status %d", status)
	}
	for _, form := range []string{"action=approve&wave=rest", "action=pause", "action=abort", "action=undo"} {
		if status, body := post(s, form); status != http.StatusOK ||
			!strings.Contains(body, `name="confirmed" value="yes"`) ||
			!strings.Contains(body, "Rollout keda-regular-4 ") {
			t.Errorf("%s without confirmation: got status %d\n%s", form, status, body)
		}
	}
	if status, _ := post(s, strings.Repeat("a", maxBodyBytes+1)); status != http.StatusBadRequest {
		t.Errorf("too long form: got status %d", status)
	}
	if len(s.changedRollouts) != 0 {
		t.Fatal("the rollout was changed")
	}
	if status, body := post(s,
		"confirmed=yes&action=approve&wave=rest&selection=another"); status != http.StatusConflict ||
		!strings.Contains(body, "action now has another effect") || len(s.changedRollouts) != 0 {
		t.Errorf("approval of another effect: got status %d, %d changes\n%s", status, len(s.changedRollouts), body)
	}
	confirmed := "confirmed=yes&action=approve&wave=rest&selection=" +
		selectionIn(t, s, "/rollouts/keda-regular-4", "approve&wave=rest")
	if status, _ := post(s, confirmed, "Sec-Fetch-Site", "same-origin"); status != http.StatusSeeOther {
		t.Errorf("approval: got status %d", status)
	}
	if got := <-s.changedRollouts; len(got.Spec.ApprovedWaves) != 1 || got.Spec.ApprovedWaves[0] != "rest" {
		t.Errorf("got approved waves %v, want rest", got.Spec.ApprovedWaves)
	}
	reader := serve(t, sampleFleet(100, false), &Viewer{
		MaySee:           func(context.Context, string) (bool, error) { return true, nil },
		MayChangeRollout: func(context.Context, client.ObjectKey) (bool, error) { return false, nil },
		ActOnRollout: func(context.Context, client.ObjectKey, actions.Rollout) (actions.Result, error) {
			t.Error("a viewer without permission changes a rollout")
			return actions.Result{}, nil
		},
	})
	if status, _ := post(reader, "confirmed=yes&action=pause"); status != http.StatusForbidden {
		t.Errorf("viewer without permission: got status %d", status)
	}
	if _, body, _ := reader.get(t, "/rollouts/keda-regular-4"); strings.Contains(body, `name="action"`) {
		t.Error("a viewer without permission is offered actions")
	}
}

func TestPageReceivesChangesOverEventStream(t *testing.T) {
	s := serve(t, sampleFleet(3, true), nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *http.Response {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	stream := open()
	lines := bufio.NewScanner(stream.Body)
	read := func(want string) {
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", want, lines.Err())
	}
	read("data: 1")
	s.source.setFleet(sampleFleet(3, true)) // an unchanged fleet
	s.source.setFleet(sampleFleet(4, true))
	read("data: 2")
	for range maxStreams - 1 {
		open()
	}
	if last := open(); last.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("stream over the limit: got status %d", last.StatusCode)
	}
}

func TestLabelKeysWrapAfterDotsAndSlashes(t *testing.T) {
	s := serve(t, sampleFleet(100, false), nil)
	if _, body, _ := s.get(t, "/?group=label:"+regionLabel); !strings.Contains(body,
		"Label topology.<wbr>kubernetes.<wbr>io/<wbr>region<wbr>") {
		t.Errorf("the header cannot be broken between its parts:\n%s", body)
	}
}

// In this test, the number of deferred runtimes changes after the viewer has confirmed the action.
func TestActionIsRefusedIfItsConfirmedEffectChanged(t *testing.T) {
	waiting := func(deferred int32) *v1alpha1.Rollout {
		r := &v1alpha1.Rollout{}
		r.Name = "keda-regular-1"
		r.Spec.Waves = []v1alpha1.Wave{{Name: "canaries"}}
		r.Status.State = v1alpha1.RolloutWaiting
		r.Status.Waves = []v1alpha1.WaveStatus{{
			Name: "canaries", State: v1alpha1.WaveWaiting, WaitsForDeferred: true, Deferred: deferred,
		}}
		return r
	}
	action := actions.Approve("canaries")
	effect, err := action.Change(waiting(1))
	if err != nil {
		t.Fatal(err)
	}
	confirmed := pageAction{effect: effect, action: action}.confirmedAction()
	for deferred, want := range map[int32]bool{1: true, 200: false} {
		effect, err := confirmed.Change(waiting(deferred))
		if (err == nil) != want || want != (effect != "") {
			t.Errorf("%d deferred runtimes: got effect %q and error %v, want it allowed: %t", deferred, effect, err, want)
		}
	}
}
