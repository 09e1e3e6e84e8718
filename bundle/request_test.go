package bundle

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestEquivalentRequestsHaveTheSameDigest(t *testing.T) {
	keda, nats := v1beta2.Module{Name: "keda", Managed: true}, v1beta2.Module{
		Name: "nats", Channel: "fast", Managed: true,
	}
	withDefault, pinned := keda, keda
	withDefault.CustomResourcePolicy, pinned.Version = v1beta2.PolicyCreateAndDelete, "1.0.0"
	wish := func(channel string, modules ...v1beta2.Module) v1beta2.KymaSpec {
		return v1beta2.KymaSpec{Channel: channel, Modules: modules}
	}
	asked := wish("regular", keda, nats)
	for name, c := range map[string]struct {
		spec v1beta2.KymaSpec
		same bool
	}{
		"modules in a different order":  {wish("regular", nats, keda), true},
		"module with explicit defaults": {wish("regular", withDefault, nats), true},
		"another channel": {
			wish("fast", keda, nats), false}, "fewer modules": {wish("regular", keda), false},
		"module with a pinned version": {wish("regular", pinned, nats), false},
	} {
		if got := (Predicate{KymaSpec: RequestDigest(asked), KymaGeneration: 1}).IsBuiltFor(c.spec, 2); got != c.same {
			t.Errorf("%s: got equal digests: %t, want %t", name, got, c.same)
		}
	}
	if asked.Modules[0].CustomResourcePolicy != "" ||
		RequestDigest(wish("regular")) != RequestDigest(v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{}}) {
		t.Error("got a changed argument or no digest for an empty request, want neither")
	}
	if p := (Predicate{KymaGeneration: 3}); !p.IsBuiltFor(asked, 3) || p.IsBuiltFor(asked, 4) {
		t.Error("statement without a digest: want a comparison by generation")
	}
}
