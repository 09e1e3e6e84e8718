package plan

import (
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

func TestWhatAnAgentLacksIsKnownByItsReportOrByWhatWasNotedOfIt(t *testing.T) {
	some := bundle.Report{Features: []bundle.Feature{bundle.FeatureCritical, bundle.FeatureTakeover, "teleport"}}
	rest := []bundle.Feature{bundle.FeatureImagePullSecret, bundle.FeatureNamespaceLabels, bundle.FeatureRecreate, bundle.FeatureRenamedModules}
	noted := func(features ...string) *v1beta2.RuntimeStatus {
		return &v1beta2.RuntimeStatus{Observed: &v1beta2.ObservedBundle{Features: features}}
	}
	for name, c := range map[string]struct {
		status *v1beta2.RuntimeStatus
		report *bundle.AcceptedReport
		want   []bundle.Feature
	}{
		"a runtime that never reported":                      {nil, nil, nil},
		"one that an earlier publisher noted":                {noted(), nil, nil},
		"one without features":                               {nil, &bundle.AcceptedReport{}, bundle.AllFeatures()},
		"one without features, after a restart":              {noted(RecordFeatures(bundle.Report{})...), nil, bundle.AllFeatures()},
		"one with some":                                      {nil, &bundle.AcceptedReport{Report: some}, rest},
		"one with some, after a restart":                     {noted(RecordFeatures(some)...), nil, rest},
		"one that went back to an agent from before":         {noted(RecordFeatures(some)...), &bundle.AcceptedReport{}, bundle.AllFeatures()},
		"one with all features of this version and one more": {nil, &bundle.AcceptedReport{Report: bundle.Report{Features: append(bundle.AllFeatures(), "zzz")}}, nil},
	} {
		if got := lacks(c.status, c.report); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestAnAgentWithoutFeaturesKeepsWhatItWasGivenUnlessItRefusedIt(t *testing.T) {
	last := &Published{Digest: "sha256:last", State: bundle.DesiredState{Settings: bundle.Settings{ImagePullSecret: "pull"}}}
	request := resolve.Request{Lacks: bundle.AllFeatures(), Takeover: bundle.TakeoverAdopt,
		Settings: bundle.Settings{ImagePullSecret: "pull", NamespaceLabels: map[string]string{"istio-injection": "enabled"}}}
	refusing := func(reason refusal.Reason) Runtime {
		var r Runtime
		r.refusals(&bundle.AcceptedReport{Report: bundle.Report{Refused: []bundle.RefusedBundle{{Digest: last.Digest, Reason: reason}}}})
		return r
	}
	for name, c := range map[string]struct {
		last    *Published
		runtime Runtime
		left    []bundle.Feature
	}{
		"it has the last bundle":                      {last, Runtime{}, []bundle.Feature{bundle.FeatureNamespaceLabels}},
		"it refused the last bundle for its time":     {last, refusing(refusal.Expired), []bundle.Feature{bundle.FeatureNamespaceLabels}},
		"it refused the last bundle as malformed":     {last, refusing(refusal.Malformed), request.Settings.Features()},
		"there is no last bundle":                     {nil, Runtime{}, request.Settings.Features()},
		"it refused another bundle, and has the last": {last, Runtime{Malformed: []digest.Digest{"sha256:other"}}, []bundle.Feature{bundle.FeatureNamespaceLabels}},
	} {
		got, left := Understood(request, c.last, c.runtime)
		if !slices.Equal(left, c.left) || slices.Contains(got.Settings.Features(), bundle.FeatureNamespaceLabels) {
			t.Errorf("%s: left out %v, want %v", name, left, c.left)
		}
		if got.CheckTakeover() == nil {
			t.Errorf("%s: a runtime whose agent does not understand it is taken over", name)
		}
	}
	listed := request
	listed.Lacks = []bundle.Feature{bundle.FeatureImagePullSecret}
	if _, left := Understood(listed, last, Runtime{}); !slices.Equal(left, listed.Lacks) {
		t.Errorf("an agent that lists features: left out %v, want what it does not list", left)
	}
	listed.Lacks = nil
	if got, left := Understood(listed, last, Runtime{}); left != nil || got.CheckTakeover() != nil {
		t.Errorf("an agent that lacks nothing: left out %v", left)
	}
}

func TestCriticalFeaturesAreNamedToAgentsThatHeedThem(t *testing.T) {
	d := documents(t, "keda")
	wanted := Wanted{Documents: d, Asked: []string{"keda"}, Critical: []bundle.Feature{bundle.FeatureTakeover}}
	one := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}}
	if p, _ := Next(Adopted{}, wanted, one, trusted, validity, noon); p.Critical != nil {
		t.Errorf("a runtime that never reported: %v", p.Critical)
	}
	one.Features = bundle.AllFeatures()
	p, _ := Next(Adopted{}, wanted, one, trusted, validity, noon)
	if !slices.Equal(p.Critical, wanted.Critical) {
		t.Fatalf("got %v, want %v", p.Critical, wanted.Critical)
	}
	last := says(publishedAt(t, noon, nil, "keda"), func(p *bundle.Predicate) { p.Critical = wanted.Critical })
	if _, reason := Next(after(last), wanted, one, trusted, validity, noon); reason != "" {
		t.Errorf("the same again: %s", reason)
	}
	one.Features = nil
	if _, reason := Next(after(last), wanted, one, trusted, validity, noon); reason != ReasonFeaturesChanged {
		t.Errorf("an agent that does not read them any more: %q", reason)
	}
}
