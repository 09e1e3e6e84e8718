package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// watchedLink counts an agent's registry requests and records those that did not go through the link.
type watchedLink struct {
	mu     sync.Mutex // guards the fields below
	byLink int
	past   []string
}

func watchLink(f *fleet.Fleet, runtime string) *watchedLink {
	w := &watchedLink{}
	f.Registry.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		content := r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v2/modules/") &&
			strings.Contains(r.URL.Path, "/blobs/")
		agents := r.Method == http.MethodGet &&
			strings.HasPrefix(r.URL.Path, "/v2/fleet/runtimes/"+runtime+"/blobs/") ||
			r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/v2/fleet/reports/"+runtime+"/")
		switch linked := r.Host != f.Registry.Host(); {
		case linked && content:
			w.byLink++
		case !linked && agents:
			w.past = append(w.past, r.Method+" "+r.URL.Path)
		}
		return false
	})
	return w
}

func (w *watchedLink) wantOnlyWay(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byLink == 0 {
		t.Error("the agent did not fetch the module's content over its link")
	}
	if len(w.past) > 0 {
		t.Errorf("the agent sent requests that bypass its link: %v", w.past)
	}
}

// checkDriftCorrection changes one of scaler's objects and waits until the agent corrects it.
func checkDriftCorrection(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	drift(t, r)
	until(t, 30*time.Second, "the agent corrects drift", func() (bool, string) {
		config, err := settings(t.Context(), r)
		return err == nil && config.Data["level"] == "info", fmt.Sprint(config.Data, err)
	})
}

func untilDropped(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	until(t, time.Minute, "the link has dropped a request", func() (bool, string) {
		dropped, err := r.Link().Dropped(t.Context())
		return err == nil && dropped > 0, fmt.Sprint(dropped, err)
	})
}

// The test cuts and impairs one runtime's link, and then stops the API servers of control plane and runtime.
func TestRuntimeSurvivesBadLinksAndRestarts(t *testing.T) {
	suite.Long(t) // the short suite runs TestRegistryOutageDelaysPublishingAndIsLoggedOnce
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Links: true})
	must(t, f.Offer(ctx, sample.Scaler("1.9.0"), sample.Scaler("1.10.0"), sample.Scaler("1.11.0")))
	watched := watchLink(f, "one")
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	other, err := f.Simulate(ctx, fleet.NewKyma("other", "regular", "scaler"))
	must(t, err)
	untilSettled(t, other, "1.7.0")

	t.Log("The link is cut: the runtime keeps its version, and other runtimes get the next one.")
	must(t, r.Link().Cut(ctx))
	promote(t, f, "1.8.0")
	untilSettled(t, other, "1.8.0")
	untilDropped(t, r)
	checkDriftCorrection(t, r)
	if config, err := settings(ctx, r); err != nil || config.Data["version"] != "1.7.0" {
		t.Errorf("the runtime received %v although its link is cut: %v", config.Data, err)
	}
	must(t, r.Link().Heal(ctx))
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))

	t.Log("The link is impaired: the runtime still receives a version.")
	how, err := r.Link().Impair(ctx)
	must(t, err)
	t.Log(how)
	promote(t, f, "1.9.0")
	must(t, r.UntilState(ctx, "scaler", "1.9.0", v1beta2.StateReady))
	untilDropped(t, r)
	must(t, r.Link().Heal(ctx))

	t.Log("The control plane stops: the agent corrects drift without it.")
	must(t, f.PauseControlPlane())
	checkDriftCorrection(t, r)
	must(t, f.ResumeControlPlane())
	until(t, time.Minute, "the control plane's API server is ready", func() (bool, string) {
		_, err := r.Record(ctx)
		return err == nil, fmt.Sprint(err)
	})
	promote(t, f, "1.10.0")
	must(t, r.UntilState(ctx, "scaler", "1.10.0", v1beta2.StateReady))

	t.Log("The runtime's API server restarts.")
	before, err := r.Started(ctx)
	must(t, err)
	must(t, r.Restart())
	if after, err := r.Started(ctx); err != nil || !after.After(before) {
		t.Fatalf("the API server did not restart: it started at %s, before at %s: %v", after, before, err)
	}
	checkDriftCorrection(t, r)
	promote(t, f, "1.11.0")
	must(t, r.UntilState(ctx, "scaler", "1.11.0", v1beta2.StateReady))
	watched.wantOnlyWay(t)
}
