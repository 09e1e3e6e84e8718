package scenario

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// The test causes each problem that the publisher reports to the operators' webhook.
func TestEventsThatNeedActionArePosted(t *testing.T) {
	suite.Long(t) // the short suite runs TestFailedCanaryRollsBackCanariesOnly and TestSilenceAndRecoveryEmitOneEventEach
	ctx := t.Context()
	posted, flags := eventsWebhook(t, "RolloutStopped", "RuntimeSilent", "RuntimeHeard", "BundleRefused", "RootExpires")
	f := newFleet(t, fleet.Options{Silence: 15 * time.Second, PublisherFlags: flags})
	canaries, others := simulate(t, f, 1, 1)
	course := stages(nil)
	course.OnFailure = v1alpha1.OnFailureStop
	must(t, f.CreatePolicy(ctx, "scaler", course))
	victim := runtimeWith(t, f, "victim", map[string]string{"mailer": "1.0.0"})

	canaries[0].BreakWith("1.8.0")
	promote(t, f, "1.8.0")
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout is stopped", rolledOut(v1alpha1.RolloutStopped)))

	posted.wantPosted(t, "error Rollout/"+firstRollout+" RolloutStopped")

	untilQuiet(t, f)
	must(t, f.Publisher().Stop()) // a running publisher would replace the bundle
	must(t, victim.Put(ctx, forged(t, f, victim, publisherKey(t, f), func(p *bundle.Predicate) {
		p.Audience.ClusterUID = "another"
	})))
	must(t, victim.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.WrongCluster)))
	must(t, f.StartPublisher())
	posted.wantPosted(t, "error Kyma/victim BundleRefused")

	others[0].GoAway()
	// The first notification is sent 30 days before the root expires.
	changeKeys(t, f, "rotate", "--validity", (30*24*time.Hour + 15*time.Second).String())
	posted.wantPosted(t, "error Kyma/other-0 RuntimeSilent", "error Lease/kcp-publisher.kyma-pull.dev RootExpires")
	others[0].ComeBack()
	posted.wantPosted(t, "info Kyma/other-0 RuntimeHeard")
}
