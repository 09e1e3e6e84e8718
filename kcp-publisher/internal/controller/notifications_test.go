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
	var r *reports
	r = asking(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		if requests == 2 { // while the response is in transit
			r.notify(client.ObjectKeyFromObject(kyma))
		}
		w.WriteHeader(http.StatusNotFound)
	})
	fetch := func(want int, when string) {
		t.Helper()
		if _, _, err := r.fetch(t.Context(), kyma, bundle.Reporter{Runtime: "one"}, time.Minute/2, nil); err != nil {
			t.Fatal(err)
		}
		if requests != want {
			t.Errorf("%s: asked %d times, want %d", when, requests, want)
		}
	}
	fetch(1, "the first look")
	fetch(1, "another one soon after")
	r.notify(client.ObjectKeyFromObject(kymaOf("two")))
	fetch(1, "after a notification of another runtime")
	r.notify(client.ObjectKeyFromObject(kyma))
	fetch(2, "after a notification")
	fetch(3, "after one that came while the registry was asked")
	fetch(3, "soon after")
	r.fleet.Drop(client.ObjectKeyFromObject(kyma))
	if n := r.fleet.Get(client.ObjectKeyFromObject(kyma)).Notified; n != 0 {
		t.Errorf("%d notifications are kept of a Kyma that is gone", n)
	}
}
