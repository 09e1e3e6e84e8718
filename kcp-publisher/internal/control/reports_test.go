package control

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// asking returns reports that ask a registry which answers as handler says.
func asking(t *testing.T, handler http.HandlerFunc) *reports {
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
	return newReports(place, func() time.Time { return noon })
}

func answers(code int) http.HandlerFunc {
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
		"a report that is not there yet":              {answers(http.StatusNotFound), false},
		"a repository that may not be read":           {answers(http.StatusForbidden), false},
		"a repository that nobody is let into":        {answers(http.StatusUnauthorized), false},
		"an answer that is no digest":                 {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Docker-Content-Digest", "garbage") }, false},
		"an answer without anything in it":            {answers(http.StatusOK), false},
		"a registry that is broken":                   {answers(http.StatusBadGateway), true},
		"a registry that has too much to do":          {answers(http.StatusTooManyRequests), true},
		"a registry that hangs up before it answered": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := asking(t, c.answer)
			if _, _, err := r.fetch(t.Context(), kymaOf("one"), bundle.Reporter{Runtime: "one"}, time.Minute/2); (err != nil) != c.away {
				t.Errorf("fetching gave %v, the whole queue waits for it: %v, want %v", err, err != nil, c.away)
			}
		})
	}
}

func TestANewKymaOfTheSameNameDoesNotInheritReports(t *testing.T) {
	r := asking(t, answers(http.StatusNotFound))
	first, second := kymaOf("one"), kymaOf("one")
	second.UID = "second"
	r.remember(first, report{kyma: first.UID, runtime: "one", digest: "sha256:report", asked: noon})
	if got := r.remembered(first); got.digest != "sha256:report" {
		t.Errorf("the first Kyma knows %+v", got)
	}
	if got := r.remembered(second); got.digest != "" || !got.asked.IsZero() || got.kyma != second.UID {
		t.Errorf("the second Kyma knows %+v", got)
	}
	r.forget(client.ObjectKeyFromObject(first))
	if len(r.known) != 0 {
		t.Errorf("still there: %+v", r.known)
	}
}

func TestTheSameAnswerIsToldInTheSameWords(t *testing.T) {
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
		got, _, err := r.fetch(t.Context(), kymaOf("one"), bundle.Reporter{Runtime: "one"}, time.Minute/2)
		if err != nil || got.unread == nil || got.unread.Error() != "the registry answers 403 Forbidden" {
			t.Errorf("got %v, %v", got.unread, err)
		}
		now = now.Add(time.Minute)
	}
	if request != 2 {
		t.Errorf("asked %d times, want 2", request)
	}
}
