package controller

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// An air-gapped runtime does not send another report after an operator has corrected the control plane's clock.
func TestRefusedReportIsVerifiedAgain(t *testing.T) {
	signer := trusttest.NewSigner(t)
	public, err := trust.EncodePublicKey(trusttest.PublicKey(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	report, err := bundle.ComposeReport(bundle.Report{
		Runtime: "one", Sequence: noon.Add(48 * time.Hour).UnixMilli(), Time: noon.Add(48 * time.Hour),
	}, signer)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		after                 time.Duration // time of the second read
		clock                 time.Duration // correction of the control plane's clock before the second read
		isRequested           bool
		isAccepted, isChecked bool
	}{
		"corrected clock, before the interval":      {time.Minute, 40 * time.Hour, false, false, false},
		"corrected clock, after the interval":       {verifyInterval, 40 * time.Hour, false, true, true},
		"corrected clock and an operator's request": {time.Minute, 40 * time.Hour, true, true, true},
		"wrong clock, after the interval":           {verifyInterval, 0, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			place, now, kyma := store.NewMemory(), noon, kymaOf("one")
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{
				ID: "one", Key: &v1beta2.RuntimeKey{PublicKey: public, Thumbprint: trusttest.Thumbprint(t, signer)},
			}
			r := newReports(place, func() time.Time { return now }, fleetstate.New(), NewSlimmer())
			fetch := func(clock time.Duration) fleetstate.Report {
				t.Helper()
				from := plan.Rules{}.Reporter(kyma, nil, now.Add(clock))
				newest, _, err := r.fetchReport(t.Context(), kyma, from, 0, nil)
				if err != nil {
					t.Fatal(err)
				}
				return newest
			}
			if err := store.PushReport(t.Context(), place, "one", report); err != nil {
				t.Fatal(err)
			}
			first := fetch(0)
			if first.Refused == nil || first.Refused.Reason != refusal.NotYetIssued {
				t.Fatalf("got %+v, want a refusal because of the clock", first)
			}
			if now = now.Add(c.after); c.isRequested {
				kyma.Annotations = map[string]string{v1beta2.AnnotationReconcileRequested: "now"}
			}
			second := fetch(c.clock)
			if accepted := second.Refused == nil && second.Accepted != nil; accepted != c.isAccepted {
				t.Errorf("got %+v, want accepted %t", second, c.isAccepted)
			}
			if checked := second.VerifiedAt.Equal(now); checked != c.isChecked {
				t.Errorf("the report was verified at %s, want a second verification: %t", second.VerifiedAt, c.isChecked)
			}
			if !c.isAccepted && second.Refused.Detail != first.Refused.Detail {
				t.Errorf("the detail of the refusal changed to %s, so the status would be written", second.Refused.Detail)
			}
		})
	}
}
