package controller

import (
	"net/http"
	"path"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestNotificationReadsTheReportAgain(t *testing.T) {
	requests, kyma := 0, kymaOf("one")
	var r *reportReader
	r = asking(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		if requests == 2 { // while the response is in transit
			r.recordNotification(client.ObjectKeyFromObject(kyma))
		}
		w.WriteHeader(http.StatusNotFound)
	})
	fetch := func(want int, when string) {
		t.Helper()
		if _, _, err := r.fetchReport(t.Context(), kyma, bundle.Reporter{Runtime: "one"}, time.Minute/2, nil); err != nil {
			t.Fatal(err)
		}
		if requests != want {
			t.Errorf("%s: got %d requests, want %d", when, requests, want)
		}
	}
	fetch(1, "first read")
	fetch(1, "second read soon after the first")
	r.recordNotification(client.ObjectKeyFromObject(kymaOf("two")))
	fetch(1, "after a notification for another runtime")
	r.recordNotification(client.ObjectKeyFromObject(kyma))
	fetch(2, "after a notification")
	fetch(3, "after a notification during the request")
	fetch(3, "soon after the last request")
	r.fleet.Delete(client.ObjectKeyFromObject(kyma))
	if n := r.fleet.Get(client.ObjectKeyFromObject(kyma)).NotifiedCount; n != 0 {
		t.Errorf("%d notifications are kept for a deleted Kyma", n)
	}
}

// A notification announces a new report, so the publisher fetches it without reading its digest first.
func TestAnnouncedReportIsFetchedInOneRequest(t *testing.T) {
	var requests []string
	content := "first"
	r := asking(t, func(w http.ResponseWriter, request *http.Request) {
		requests = append(requests, request.Method+" "+path.Base(request.URL.Path))
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Docker-Content-Digest", digest.FromString(content).String())
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if request.Method == http.MethodGet {
			_, _ = w.Write([]byte(content))
		}
	})
	kyma := kymaOf("one")
	fetch := func(when string, want ...string) {
		t.Helper()
		requests = nil
		newest, _, err := r.fetchReport(t.Context(), kyma, bundle.Reporter{Runtime: "one"}, 0, nil)
		if err != nil || newest.Digest != digest.FromString(content) {
			t.Errorf("%s: got report %s and error %v, want report %q", when, newest.Digest, err, content)
		}
		if !slices.Equal(requests, want) {
			t.Errorf("%s: got requests %v, want %v", when, requests, want)
		}
	}
	fetch("first read", "GET "+bundle.TagLatest)
	fetch("poll without a new report", "HEAD "+bundle.TagLatest)
	content = "second"
	fetch("poll with a new report", "HEAD "+bundle.TagLatest, "GET "+digest.FromString(content).String())
	content = "third"
	r.recordNotification(client.ObjectKeyFromObject(kyma))
	fetch("after a notification", "GET "+bundle.TagLatest)
	fetch("poll after the notified report", "HEAD "+bundle.TagLatest)
	r.recordNotification(client.ObjectKeyFromObject(kyma))
	fetch("after a notification without a new report", "GET "+bundle.TagLatest)
}
