package plan

import (
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

func TestLacksComparesReportOrStatus(t *testing.T) {
	some := bundle.Report{Features: []bundle.Feature{bundle.FeatureTakeover, "teleport"}}
	rest := slices.DeleteFunc(bundle.AllFeatures(), func(f bundle.Feature) bool { return f == bundle.FeatureTakeover })
	observed := func(report bundle.Report) *v1beta2.RuntimeStatus {
		return &v1beta2.RuntimeStatus{Observed: &v1beta2.ObservedBundle{Features: RecordFeatures(report)}}
	}
	for name, c := range map[string]struct {
		status *v1beta2.RuntimeStatus
		report *bundle.AcceptedReport
		want   []bundle.Feature
	}{
		"a runtime that never reported":                {nil, nil, nil},
		"one that was published to and never reported": {&v1beta2.RuntimeStatus{}, nil, nil},
		"one without features":                         {nil, &bundle.AcceptedReport{}, bundle.AllFeatures()},
		"one without features, after a restart":        {observed(bundle.Report{}), nil, bundle.AllFeatures()},
		"one with some":                                {nil, &bundle.AcceptedReport{Report: some}, rest},
		"one with some, after a restart":               {observed(some), nil, rest},
		"one whose agent was downgraded": {
			observed(some), &bundle.AcceptedReport{}, bundle.AllFeatures(),
		},
		"one with all features of this version and one more": {
			nil, &bundle.AcceptedReport{Report: bundle.Report{Features: append(bundle.AllFeatures(), "zzz")}}, nil,
		},
	} {
		if got := lacks(c.status, c.report); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestSettingsThatTheAgentLacksAreLeftOut(t *testing.T) {
	request := resolve.Request{Lacks: bundle.AllFeatures(), Takeover: bundle.TakeoverAdopt,
		Settings: bundle.Settings{
			ImagePullSecret: "pull", NamespaceLabels: map[string]string{"istio-injection": "enabled"},
		}}
	got, left := Understood(request)
	if !slices.Equal(left, request.Settings.Features()) || len(got.Settings.Features()) > 0 {
		t.Errorf("an agent without features: left out %v, want %v", left, request.Settings.Features())
	}
	if got.CheckTakeover() == nil {
		t.Error("a runtime whose agent does not understand a takeover is taken over")
	}
	request.Lacks = []bundle.Feature{bundle.FeatureImagePullSecret}
	if got, left = Understood(request); !slices.Equal(left, request.Lacks) || got.Settings.NamespaceLabels == nil {
		t.Errorf("an agent that lacks one feature: left out %v, want %v", left, request.Lacks)
	}
	request.Lacks = nil
	if got, left = Understood(request); left != nil || got.CheckTakeover() != nil {
		t.Errorf("an agent that lacks nothing: left out %v", left)
	}
}

func TestNextNamesCriticalFeatures(t *testing.T) {
	d := documents(t, "keda")
	wanted := Wanted{Documents: d, Asked: []string{"keda"}, Critical: []bundle.Feature{bundle.FeatureTakeover}}
	one := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}
	p, _ := Next(Adopted{}, wanted, one, trusted, validity, noon)
	if !slices.Equal(p.Critical, wanted.Critical) {
		t.Fatalf("got %v, want %v", p.Critical, wanted.Critical)
	}
	last := changedPredicate(publishedAt(t, noon, nil, "keda"),
		func(p *bundle.Predicate) { p.Critical = wanted.Critical })
	if _, reason := Next(after(last), wanted, one, trusted, validity, noon); reason != "" {
		t.Errorf("the same again: %s", reason)
	}
}
