package train

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// waiting returns a policy whose status contains one version of module keda in channel dev for each of the wait
// reasons.
func waiting(reasons ...v1alpha1.WaitReason) *v1alpha1.PromotionPolicy {
	p := &v1alpha1.PromotionPolicy{
		Status: v1alpha1.PromotionPolicyStatus{Modules: []v1alpha1.ModuleTrain{{Name: "keda"}}},
	}
	for i, reason := range reasons {
		p.Status.Modules[0].Versions = append(p.Status.Modules[0].Versions, v1alpha1.TrainVersion{
			Channel: "dev", Version: string(rune('1'+i)) + ".0.0", Reason: reason, Message: "m",
		})
	}
	return p
}

func versionsOf(positions []Position) (versions string) {
	for _, at := range positions {
		versions += at.Version + " "
	}
	return versions
}

func TestBlockedPromotionsNeedAnOperator(t *testing.T) {
	p := waiting(v1alpha1.WaitTimeNotReached, v1alpha1.WaitTooManyFailures, v1alpha1.WaitPolicyHeld,
		v1alpha1.WaitPromoted, v1alpha1.WaitChannelMissing, v1alpha1.WaitArrived)
	if got := versionsOf(BlockedVersions(p)); got != "2.0.0 5.0.0 " {
		t.Errorf("got blocked versions %q, want 2.0.0 and 5.0.0", got)
	}
}

func TestPromotionsWithANewReasonCountAsNewlyBlocked(t *testing.T) {
	before := waiting(v1alpha1.WaitTooManyFailures, v1alpha1.WaitTooManyFailures, v1alpha1.WaitTimeNotReached)
	after := waiting(v1alpha1.WaitTooManyFailures, v1alpha1.WaitTemplateMissing, v1alpha1.WaitOtherPolicy)
	if got := versionsOf(NewlyBlocked(before, after)); got != "2.0.0 3.0.0 " {
		t.Errorf("got newly blocked versions %q, want 2.0.0 and 3.0.0", got)
	}
	if got := NewlyBlocked(after, before); versionsOf(got) != "2.0.0 " {
		t.Errorf("previous reason again: got newly blocked versions %+v, want 2.0.0", got)
	}
	if got := NewlyBlocked(after, after); len(got) != 0 {
		t.Errorf("unchanged status: got newly blocked versions %+v, want none", got)
	}
}

func TestAlertListsTheReasonsThatNeedAnOperator(t *testing.T) {
	alerts, err := os.ReadFile("../../../../charts/kcp-publisher/files/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(alerts), "- alert: KymaPullTrainBlocked")
	_, reasons, _ := strings.Cut(rule, `reason=~"`)
	reasons, _, _ = strings.Cut(reasons, `"`)
	want := make([]string, len(operatorReasons))
	for i, reason := range operatorReasons {
		want[i] = string(reason)
	}
	if got := strings.Split(reasons, "|"); !slices.Equal(slices.Sorted(slices.Values(got)),
		slices.Sorted(slices.Values(want))) {
		t.Errorf("the alert selects %q, want %q", got, want)
	}
}
