package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// The test sets the clock of the publisher or the agent to a wrong time. After the clock is corrected, the runtime must
// receive the next bundle without help from an operator.
func TestRuntimesRecoverAfterTheirClocksAreCorrected(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		publisher, agent time.Duration // how far each clock is ahead
		want             refusal.Reason
	}{
		"publisher's clock is hours ahead":         {5 * time.Hour, 0, ""},
		"publisher's clock is almost a year ahead": {350 * day, 0, refusal.NotYetIssued},
		"publisher's clock is hours behind":        {-5 * time.Hour, 0, ""},
		"publisher's clock is years behind":        {-3 * 365 * day, 0, refusal.Expired},
		"agent's clock is hours ahead":             {0, 5 * time.Hour, ""},
		"agent's clock is almost a year ahead":     {0, 350 * day, refusal.Expired},
		"agent's clock is hours behind":            {0, -5 * time.Hour, ""},
		"agent's clock is years behind":            {0, -3 * 365 * day, refusal.NotYetIssued},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with restart %t", name, restarted), func(t *testing.T) {
				h := newHistory(t, nil)
				h.publish(berlin)
				h.poll()
				first, right := h.model.inForce, h.now.Add(2*day)
				h.now, h.skew, h.fast = right.Add(c.publisher), c.agent-c.publisher, true
				h.publish(berlin)
				h.poll()
				if h.seen[c.want] == 0 || (h.model.inForce == first) != (c.want != "") {
					t.Errorf("polls with a wrong clock end as %v, want %q", h.seen, c.want)
				}
				h.now, h.skew = right.Add(time.Minute), 0
				if restarted {
					h.restartPublisher()
					h.must(h.agent.restart())
				}
				h.publish(berlin)
				h.poll()
				if h.model.inForce != h.model.lying.blob.Descriptor.Digest || h.agent.accepted.Digest == first {
					t.Errorf("the agent has not applied the published bundle: %q", h.model.judge(h.now))
				}
				if newest := h.model.lying.issued; newest.After(h.now) && newest.Sub(h.now) > day {
					t.Errorf("got published bundle issued at %s, want at most a day after %s", newest, h.now)
				}
			})
		}
	}
}

// The clocks of both the publisher and the agent were ahead and have been corrected. Even a new epoch does not reset
// the agent's verified time, so an operator must delete the agent's state.
func TestClocksAheadOnBothSidesNeedAnOperator(t *testing.T) {
	h := newHistory(t, nil)
	right := h.now
	h.now = right.AddDate(0, 0, 300)
	h.publish(berlin)
	h.poll()
	h.now = right.Add(time.Minute)
	h.publish(berlin)
	h.poll()
	h.newEpoch()
	h.takeUpKeys()
	h.publish(berlin)
	h.poll()
	if h.seen[refusal.Expired] != 2 {
		t.Errorf("before the agent's state is deleted, polls end as %v, want two expired bundles", h.seen)
	}
	h.must(h.agent.forget())
	h.model.forget()
	h.poll()
	if h.model.inForce != h.model.lying.blob.Descriptor.Digest {
		t.Errorf("agent with deleted state has not applied the published bundle: %q", h.model.judge(h.now))
	}
}

// The control plane recognizes an agent by the recorded key. It needs the agent's certificate only if the recorded
// key is lost.
func TestAgentWithAnExpiredCertificateIsRecognized(t *testing.T) {
	h := newHistory(t, nil)
	snapshot, err := catalog.New(nil, nil)
	h.must(err)
	agent := trusttest.NewSigner(t)
	thumbprint := trusttest.Thumbprint(t, agent)
	public, err := trust.EncodePublicKey(trusttest.PublicKey(t, agent))
	h.must(err)
	request, err := trust.NewCertificateRequest(agent)
	h.must(err)
	root := h.keys.Publisher.Root()
	rules := plan.Rules{Root: root}
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: berlin}, Status: v1beta2.KymaStatus{
		Runtime: &v1beta2.RuntimeStatus{Key: &v1beta2.RuntimeKey{Thumbprint: thumbprint, PublicKey: public}},
	}}
	tokens, err := h.folder.TokenSecrets()
	h.must(err)
	report := func(change func(*bundle.Report)) bundle.Fetched {
		r := bundle.Report{
			Runtime: berlin, Fleet: root.Fleet, Sequence: h.now.UnixMilli(), Time: h.now, AgentVersion: "v1",
			CertificateRequest: request,
		}
		change(&r)
		manifest, err := bundle.ComposeReport(r, agent)
		h.must(err)
		return bundle.Fetched(manifest)
	}
	read := func(kyma *v1beta2.Kyma, fetched bundle.Fetched) (bundle.AcceptedReport, error) {
		return bundle.VerifyReport(fetched, rules.Reporter(kyma, tokens, h.now))
	}
	certified := func() string {
		accepted, err := read(kyma, report(func(*bundle.Report) {}))
		h.must(err)
		runtime := rules.Runtime(kyma, &accepted)
		outcome, err := h.keys.Publisher.Publish(h.Context(), h.record(berlin),
			publish.Input{Runtime: runtime, Catalog: snapshot})
		h.must(err)
		published := outcome.Published.StatusEntry()
		kyma.Status.Runtime.Published = &published
		text := outcome.Published.Predicate.Certificate
		if _, err := root.CheckCertificate(text, berlin, h.now); err != nil {
			t.Fatalf("check certificate %q of the agent: %v", text, err)
		}
		return text
	}
	first := certified()
	h.now = h.now.AddDate(0, 0, 100)
	if _, err := root.CheckCertificate(first, berlin, h.now); err == nil {
		t.Fatal("the certificate is still valid after 100 days")
	}
	if second := certified(); second == first {
		t.Error("a returning agent gets no new certificate")
	}

	forgotten := &v1beta2.Kyma{ObjectMeta: kyma.ObjectMeta}
	for name, fetched := range map[string]bundle.Fetched{
		"agent without a certificate":       report(func(*bundle.Report) {}),
		"agent with an expired certificate": report(func(r *bundle.Report) { r.Certificate = first }),
	} {
		_, err := read(forgotten, fetched)
		if refused := refusal.Of(err); refused == nil || refused.Reason != refusal.NotEnrolled ||
			!strings.Contains(refused.Detail, "kcp-publisher enroll berlin") &&
				!strings.Contains(refused.Detail, "certificate is only valid from") {
			t.Errorf("a report %s to a control plane without a record: got %v, want a refusal with advice", name, err)
		}
	}
	token, err := tokens.Issue(berlin, h.now.Add(time.Hour))
	h.must(err)
	proof, err := token.Prove(berlin, trusttest.PublicKey(t, agent))
	h.must(err)
	introduced := report(func(r *bundle.Report) {
		r.Enrollment = &trust.Enrollment{PublicKey: public, Proof: proof, TokenExpires: token.Expires.Unix()}
	})
	if accepted, err := read(forgotten, introduced); err != nil || !accepted.Enrolled {
		t.Errorf("the report of a runtime that enrolled again is refused: %v", err)
	}
}
