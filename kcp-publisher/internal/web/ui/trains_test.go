package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func sampleTrains(context.Context, string) ([]v1alpha1.PromotionPolicy, error) {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }
	policy := v1alpha1.PromotionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "weekly", Namespace: "kcp-system"},
		Spec: v1alpha1.PromotionPolicySpec{
			Channels: v1alpha1.TrainChannels{{Name: "dev"}, {Name: "fast"}, {Name: "regular"}},
		},
		Status: v1alpha1.PromotionPolicyStatus{
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.PolicyModulesMissing,
				Message: "no ModuleReleaseMeta found for modules: <b>kedda</b>",
			}},
			Modules: []v1alpha1.ModuleTrain{
				{Name: "serverless-with-a-rather-long-name", Versions: []v1alpha1.TrainVersion{
					{Channel: "dev", Version: "1.8.0", Since: ago(50 * time.Hour), Reason: v1alpha1.WaitPromoted},
					{
						Channel: "fast", Version: "1.8.0", Since: ago(90 * time.Minute),
						Reason:  v1alpha1.WaitTimeNotReached,
						Message: "its time in the channel is not over",
						Arrival: &metav1.Time{Time: noon.Add(26 * time.Hour)},
					},
					{Channel: "regular", Version: "1.7.0", Since: ago(77 * time.Hour), Reason: v1alpha1.WaitArrived},
				}},
			},
		},
	}
	return []v1alpha1.PromotionPolicy{policy}, nil
}

func TestRolloutsPageShowsTrains(t *testing.T) {
	s := serve(t, sampleFleet(4, true), nil)
	_, page, _ := s.get(t, "/rollouts")
	for _, want := range []string{
		"serverless-with-a-rather-long-name", "1.8.0", "fast → regular",
		"TimeNotReached: Its time in the channel is not over",
		"in the last channel", `<td class="wide">weekly</td>`, "Policy weekly", "&lt;b&gt;kedda&lt;/b&gt;",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if strings.Contains(page, "WaitPromoted") || strings.Contains(page, "<b>kedda") {
		t.Error("the page shows a channel that the version has left, or does not escape a message")
	}
}

func TestRolloutsPageToleratesMissingPromotionPolicies(t *testing.T) {
	var page rolloutsPage
	if page.addTrains(nil, nil); page.Trains != nil || page.TrainsProblem != "" {
		t.Errorf("without policies: got %+v", page)
	}
	if page.addTrains(nil, errors.New("timeout")); page.TrainsProblem != "timeout" {
		t.Errorf("after a failed read: got %+v", page)
	}
}
