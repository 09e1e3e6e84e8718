package control

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// listening gives Kymas that ask a registry which answers as handler says.
func listening(t *testing.T, handler http.HandlerFunc) *Kymas {
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
	return &Kymas{
		Place: place, Events: events.NewFakeRecorder(10), PollInterval: time.Minute, Now: func() time.Time { return noon },
		reports: map[types.NamespacedName]heard{},
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func kymaOf(runtime string) *v1beta2.Kyma {
	return &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: runtime, Namespace: "kcp-system", UID: "first"}}
}

func TestOnlyARegistryThatIsAwayHoldsAllRuntimesBack(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		away   bool
	}{
		"a report that is not there yet":              {status(http.StatusNotFound), false},
		"a repository that may not be read":           {status(http.StatusForbidden), false},
		"a repository that nobody is let into":        {status(http.StatusUnauthorized), false},
		"an answer that is no digest":                 {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Docker-Content-Digest", "garbage") }, false},
		"an answer without anything in it":            {status(http.StatusOK), false},
		"a registry that is broken":                   {status(http.StatusBadGateway), true},
		"a registry that has too much to do":          {status(http.StatusTooManyRequests), true},
		"a registry that hangs up before it answered": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := listening(t, c.answer)
			if _, err := k.listen(t.Context(), kymaOf("one"), "one"); (err != nil) != c.away {
				t.Errorf("listening gave %v, the whole queue waits for it: %v, want %v", err, err != nil, c.away)
			}
		})
	}
}

func TestARemovalIsConfirmedOnlyByAReportThatIsAtHand(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Observed: &v1beta2.ObservedBundle{Digest: "sha256:last", ClusterUID: "c"}}
	k := listening(t, status(http.StatusNotFound))
	// A control plane that was restarted remembers what the runtime lives by, but not what it has.
	if r := k.runtime(kyma, "one", heard{}); r.Observed != "" || r.Audience.ClusterUID != "c" {
		t.Errorf("without a report: %+v", r)
	}
	report := &bundle.AcceptedReport{Report: bundle.Report{
		Observed: &bundle.Observed{Digest: "sha256:last"}, Modules: []bundle.ReportedModule{{Name: "keda"}},
	}}
	if r := k.runtime(kyma, "one", heard{accepted: report}); r.Observed != "sha256:last" || !slices.Equal(r.Installed, []string{"keda"}) {
		t.Errorf("with a report: %+v", r)
	}
}

func TestAKymaMadeAnewDoesNotInheritWhatWasHeard(t *testing.T) {
	k := listening(t, status(http.StatusNotFound))
	first, second := kymaOf("one"), kymaOf("one")
	second.UID = "second"
	k.keep(first, heard{kyma: first.UID, digest: "sha256:report", asked: noon})
	if got := k.known(first); got.digest != "sha256:report" {
		t.Errorf("the first Kyma knows %+v", got)
	}
	if got := k.known(second); got.digest != "" || !got.asked.IsZero() || got.kyma != second.UID {
		t.Errorf("the second Kyma knows %+v", got)
	}
	k.forget(client.ObjectKeyFromObject(first))
	if len(k.reports) != 0 {
		t.Errorf("still there: %+v", k.reports)
	}
}

func TestTheSameAnswerIsToldInTheSameWords(t *testing.T) {
	request := 0
	k := listening(t, func(w http.ResponseWriter, r *http.Request) {
		request++
		w.Header().Set("X-Request-Id", fmt.Sprint(request))
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"request %d","detail":"at %d"}]}`, request, request)
	})
	now := noon
	k.Now = func() time.Time { return now }
	for range 2 {
		report, err := k.listen(t.Context(), kymaOf("one"), "one")
		if err != nil || report.unread == nil || report.unread.Error() != "the registry answers 403 Forbidden" {
			t.Errorf("got %v, %v", report.unread, err)
		}
		now = now.Add(k.PollInterval)
	}
	if request != 2 {
		t.Errorf("asked %d times, want 2", request)
	}
}
