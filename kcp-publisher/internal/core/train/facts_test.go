package train

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

func TestReportsCountOnlyForThePublishedVersion(t *testing.T) {
	const ready, failed = v1beta2.StateReady, v1beta2.StateError
	for name, c := range map[string]struct {
		published, reported string
		state               v1beta2.State
		reporting           metav1.ConditionStatus
		want                Counts
	}{
		"error in an older version":                   {"2.0.0", "1.0.0", failed, metav1.ConditionTrue, Counts{Failed: 1}},
		"ready in the published version":              {"2.0.0", "2.0.0", ready, metav1.ConditionTrue, Counts{Ready: 1}},
		"silent runtime":                              {"2.0.0", "2.0.0", ready, metav1.ConditionFalse, Counts{}},
		"error in the published version":              {"2.0.0", "2.0.0", failed, metav1.ConditionTrue, Counts{Failed: 1}},
		"ready in an older version":                   {"2.0.0", "1.0.0", ready, metav1.ConditionTrue, Counts{}},
		"ready in a version that was not published":   {"1.0.0", "2.0.0", ready, metav1.ConditionTrue, Counts{Behind: 1}},
		"error in a version that was not published":   {"1.0.0", "2.0.0", failed, metav1.ConditionTrue, Counts{Behind: 1}},
		"report about a module that is not published": {"", "2.0.0", ready, metav1.ConditionTrue, Counts{Behind: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := &v1beta2.Kyma{}
			kyma.Status.Modules = []v1beta2.ModuleStatus{{Name: "keda", Version: c.reported, State: c.state}}
			kyma.Status.Conditions = []metav1.Condition{{Type: v1beta2.ConditionReporting, Status: c.reporting}}
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{}}
			if c.published != "" {
				kyma.Status.Runtime.Published.Versions = map[string]string{"keda": c.published}
			}
			kyma.Status.Runtime.Published.Digest = "sha256:new"
			kyma.Status.Runtime.Observed = &v1beta2.ObservedBundle{Digest: "sha256:new"}
			c.want.Version = "2.0.0"
			follows := []resolve.FollowedChannel{{Module: "keda", Channel: "regular", Version: "2.0.0"}}
			got := Count([]plan.Member{{Kyma: kyma, FollowedChannels: follows}},
				func(kyma *v1beta2.Kyma) bool { return plan.ShowsReporting(kyma, monday) })
			if counts := got[rollout.Track{Module: "keda", Channel: "regular"}]; counts != c.want {
				t.Errorf("got %+v, want %+v", counts, c.want)
			}
		})
	}
}

func TestErrorInOlderVersionCountsOnlyForLatestBundle(t *testing.T) {
	for name, c := range map[string]struct {
		observed string
		waits    bool
		want     int32
	}{
		"report about the latest bundle":               {"sha256:new", false, 1},
		"report about an earlier bundle":               {"sha256:old", false, 0},
		"module that waits for its maintenance window": {"sha256:new", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := &v1beta2.Kyma{}
			kyma.Status.Modules = []v1beta2.ModuleStatus{
				{Name: "keda", Version: "1.0.0", State: v1beta2.StateError, Maintenance: c.waits},
			}
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{
				Published: &v1beta2.PublishedBundle{Digest: "sha256:new", Versions: map[string]string{"keda": "2.0.0"}},
				Observed:  &v1beta2.ObservedBundle{Digest: c.observed},
			}
			counts := Counts{Version: "2.0.0"}
			counts.countKyma(kyma, "keda", true)
			if counts.Failed != c.want {
				t.Errorf("got %d failed runtimes, want %d", counts.Failed, c.want)
			}
		})
	}
}

func TestFailedChecksCountOnlyForThePublishedVersion(t *testing.T) {
	for name, c := range map[string]struct {
		published string
		result    v1beta2.CheckResult
		want      int32
	}{
		"failed check":                    {"2.0.0", v1beta2.CheckFailed, 1},
		"passed check":                    {"2.0.0", v1beta2.CheckPassed, 0},
		"inconclusive check":              {"2.0.0", v1beta2.CheckInconclusive, 0},
		"failed check of another version": {"1.0.0", v1beta2.CheckFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := &v1beta2.Kyma{}
			outcome := v1beta2.CheckOutcome{Name: "latency", Result: c.result}
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{
				Versions: map[string]string{"keda": c.published},
				Given: map[string]v1beta2.GivenVersion{
					"keda": {Checks: []v1beta2.CheckOutcome{{Name: "api", Result: v1beta2.CheckPassed}, outcome}},
				},
			}}
			counts := Counts{Version: "2.0.0"}
			counts.countKyma(kyma, "keda", true)
			if counts.FailedChecks != c.want {
				t.Errorf("got %d runtimes with failed checks, want %d", counts.FailedChecks, c.want)
			}
		})
	}
}
