package manager

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
)

// discardLogger discards its output. Unlike the zero Logger, it has a sink.
var discardLogger = funcr.New(func(string, string) {}, funcr.Options{})

func TestEventsAreRecordedAndPosted(t *testing.T) {
	posted := make(chan map[string]any, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		event := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		posted <- event
	}))
	defer server.Close()
	p := newPosts(webhook{address: server.URL}, clientgoscheme.Scheme, discardLogger)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	cluster := events.NewFakeRecorder(1)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "keda"}}
	p.recorder("skr-agent", cluster).
		Eventf(object, nil, corev1.EventTypeWarning, "DriftCorrected", "Apply", "reverted drift in %s", "keda")
	object.Name = "changed since"
	select {
	case event := <-posted:
		about, _ := event["involvedObject"].(map[string]any)
		if about["kind"] != "ConfigMap" || about["name"] != "keda" || event["severity"] != "error" ||
			event["reason"] != "DriftCorrected" ||
			event["message"] != "reverted drift in keda" ||
			event["reportingController"] != "skr-agent" {
			t.Errorf("got event %v, want the recorded event", event)
		}
	case <-time.After(time.Minute):
		t.Fatal("no event was posted within a minute")
	}
	if got := <-cluster.Events; !strings.Contains(got, "reverted drift in keda") {
		t.Errorf("got event %q in the cluster, want the formatted message", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestUnresponsiveAddressDoesNotDelayEvents(t *testing.T) {
	// The test does not start the queue, so the queue fills up.
	p := newPosts(webhook{address: "http://127.0.0.1:1"}, clientgoscheme.Scheme, discardLogger)
	recorder := p.recorder("skr-agent", events.NewFakeRecorder(3*maxPosts))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "keda"}}
	for range 2 * maxPosts {
		recorder.Eventf(object, nil, corev1.EventTypeNormal, "Ready", "Apply", "fine")
	}
	if len(p.queue) != maxPosts {
		t.Errorf("got %d queued events, want %d", len(p.queue), maxPosts)
	}
}

func TestManagerWithoutAddressPostsNoEvents(t *testing.T) {
	for address, want := range map[string]bool{"": false, "http://127.0.0.1:1/": true} {
		f := parse(t, "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
			"--set=interval-jitter-percentage=0", "--set=events-addr="+address)
		mgr, err := f.New(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, posts := mgr.GetEventRecorder("one").(recorder); posts != want {
			t.Errorf("address %q: recorders post events: %t, want %t", address, posts, want)
		}
	}
}
