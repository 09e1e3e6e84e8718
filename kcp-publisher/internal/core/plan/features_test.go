package plan

import (
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

func TestUnsupportedFeaturesComeFromReportOrStatus(t *testing.T) {
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
		"runtime never reported":    {nil, nil, nil},
		"status without a report":   {&v1beta2.RuntimeStatus{}, nil, nil},
		"report without features":   {nil, &bundle.AcceptedReport{}, bundle.AllFeatures()},
		"status without features":   {observed(bundle.Report{}), nil, bundle.AllFeatures()},
		"report with some features": {nil, &bundle.AcceptedReport{Report: some}, rest},
		"status with some features": {observed(some), nil, rest},
		"report from an agent that was downgraded": {
			observed(some), &bundle.AcceptedReport{}, bundle.AllFeatures(),
		},
		"report with all features and an unknown one": {
			nil, &bundle.AcceptedReport{Report: bundle.Report{Features: append(bundle.AllFeatures(), "zzz")}}, nil,
		},
	} {
		if got := unsupportedFeatures(c.status, c.report); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestUnsupportedSettingsAreOmitted(t *testing.T) {
	request := resolve.Request{Unsupported: bundle.AllFeatures(), Takeover: bundle.TakeoverAdopt,
		Settings: bundle.Settings{
			ImagePullSecret: "pull", NamespaceLabels: map[string]string{"istio-injection": "enabled"},
		}}
	got, left := SupportedRequest(request)
	if !slices.Equal(left, request.Settings.Features()) || len(got.Settings.Features()) > 0 {
		t.Errorf("agent without features: omitted %v, want %v", left, request.Settings.Features())
	}
	if got.CheckTakeover() == nil {
		t.Error("an agent without takeover support is taken over")
	}
	request.Unsupported = []bundle.Feature{bundle.FeatureImagePullSecret}
	got, left = SupportedRequest(request)
	if !slices.Equal(left, request.Unsupported) || got.Settings.NamespaceLabels == nil {
		t.Errorf("agent without one feature: omitted %v, want %v", left, request.Unsupported)
	}
	request.Unsupported = nil
	if got, left = SupportedRequest(request); left != nil || got.CheckTakeover() != nil {
		t.Errorf("agent with all features: omitted %v, want none", left)
	}
}

func TestNextBundleContainsCriticalFeatures(t *testing.T) {
	d := documents(t, "keda")
	wanted := ResolvedBundle{Documents: d, RequestedNames: []string{"keda"},
		CriticalFeatures: []bundle.Feature{bundle.FeatureTakeover}}
	one := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}
	p, _ := NextBundle(Adoption{}, wanted, one, trusted, validity, noon)
	if !slices.Equal(p.Critical, wanted.CriticalFeatures) {
		t.Fatalf("got critical features %v, want %v", p.Critical, wanted.CriticalFeatures)
	}
	last := changedPredicate(publishedAt(t, noon, nil, "keda"),
		func(p *bundle.Predicate) { p.Critical = wanted.CriticalFeatures })
	if _, reason := NextBundle(after(last), wanted, one, trusted, validity, noon); reason != "" {
		t.Errorf("unchanged bundle: got reason %s, want none", reason)
	}
}
