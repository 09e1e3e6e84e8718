package controller

import (
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

func TestPublisherCountsKymasThatItDoesNotReconcile(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).Build()
	labeled := shard.LabelValue(shard.ShardOf(plan.ClaimedRuntimeID(kymaOf("labeled")), 3), 3)
	for name, set := range map[string]map[string]string{
		"one": {"publisher": "one"}, "two": {"publisher": "two"}, "none": nil, "three": {"publisher": "three"},
		"labeled": {"publisher": "one", v1beta2.LabelShard: labeled},
		"wrong":   {"publisher": "one", v1beta2.LabelShard: "7-of-3"},
	} {
		kyma := kymaOf(name)
		kyma.ResourceVersion, kyma.Labels, kyma.Status = "", set, v1beta2.KymaStatus{}
		if err := api.Create(t.Context(), kyma); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		selector string
		count    int
		want     int // Kymas in the namespace, without those that the publisher reconciles
	}{
		"publisher of Kymas with label one":     {"publisher=one", 0, 3},
		"publisher of Kymas with label two":     {"publisher=two", 1, 5},
		"publisher of Kymas with both labels":   {"publisher in (one,two)", 0, 2},
		"sharded publisher of all Kymas":        {"", 3, 5},
		"sharded publisher of Kymas with label": {"publisher=one", 3, 5},
	} {
		selector, err := labels.Parse(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		counter := unreconciledCounter{
			api: api, namespace: kymaOf("one").Namespace, share: shard.Share{Selector: selector, Count: c.count},
			now: func() time.Time { return noon },
		}
		got, err := counter.count(t.Context())
		want := map[fleet.Health]int{fleet.NeverReported: c.want, fleet.Silent: 0}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: got counts %v, %v, want %v", name, got, err, want)
		}
	}
}
