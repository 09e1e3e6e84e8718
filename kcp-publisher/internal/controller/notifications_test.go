package controller

import (
	"net/http"
	"testing"
	"time"

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
