package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

func TestValuesComeOnlyFromTheControlPlaneKyma(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Labels = map[string]string{"kyma-project.io/region": "eu"}
	kyma.Annotations = map[string]string{v1beta2.AnnotationValues: `{"tier":"gold"}`}
	request, err := Rules{}.Request(kyma, nil)
	if want := (bundle.Values{"tier": "gold",
		"labels.kyma-project.io/region": "eu"}); err != nil || !maps.Equal(request.AllValues(), want) {
		t.Errorf("got values %v, %v, want %v", request.AllValues(), err, want)
	}
	for name, c := range map[string]struct{ annotation, want string }{
		"invalid JSON":             {`{"tier":`, "annotation kyma-pull.dev/values"},
		"invalid name":             {`{"Tier":"x"}`, "value name"},
		"private key as value":     {`{"key":"-----BEGIN PRIVATE KEY-----\nMII"}`, "key looks like a private key"},
		"name with prefix labels.": {`{"labels.kyma-project.io/region":"us"}`, "set the label"},
	} {
		kyma.Annotations[v1beta2.AnnotationValues] = c.annotation
		_, err := Rules{}.Request(kyma, nil)
		if reason.Of(err) != reason.AnnotationInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

func TestChangedValueTriggersPublishing(t *testing.T) {
	r := Runtime{ID: "one", Audience: bundle.Audience{Runtime: "one"}, RecordedBundle: &RecordedBundle{}}
	wanted := ResolvedBundle{Documents: documents(t, "keda"), RequestedNames: []string{"keda"},
		Versions: map[string]string{"keda": "1.0.0"}, Values: bundle.Values{"region": "eu"}}
	last := publishedAt(t, noon, nil, "keda")
	next, why := NextBundle(after(last), wanted, r, trusted, validity, noon)
	if why != ReasonValuesChanged || next.Values["region"] != "eu" {
		t.Fatalf("got reason %q and values %v, want %s and region eu", why, next.Values, ReasonValuesChanged)
	}
	last.Predicate.Values = next.Values
	if _, why := NextBundle(after(last), wanted, r, trusted, validity, noon); why != "" {
		t.Errorf("unchanged values: got reason %q, want none", why)
	}
}

func TestModulesWithChangedValuesCountAsChanged(t *testing.T) {
	state := bundle.DesiredState{Manifests: []bundle.Manifest{
		{Module: "keda", Annotations: map[string]string{v1beta2.AnnotationUsesValues: "region"}}, {Module: "nats"},
	}}
	before := PublishedBundle{State: state, Predicate: bundle.Predicate{Values: bundle.Values{"region": "eu"}}}
	after := PublishedBundle{State: state, Predicate: bundle.Predicate{Values: bundle.Values{"region": "us"}}}
	states := ChangesBetween(state, state)
	if got := after.ChangesSince(before, states).Modules; !slices.Equal(got, []string{"keda"}) {
		t.Errorf("got changed modules %v, want keda", got)
	}
	if got := before.ChangesSince(before, states).Modules; len(got) != 0 || after.ChangesSince(before, nil) != nil {
		t.Errorf("unused values or unknown changes: got changed modules %v, want none", got)
	}
}
