package preview

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/forecast"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

func TestKymasThatMoveBetweenPublishersCauseWarnings(t *testing.T) {
	kyma := func(name, publisher string) *v1beta2.Kyma {
		k := &v1beta2.Kyma{Spec: v1beta2.KymaSpec{Channel: "regular"}}
		k.Name, k.Namespace, k.Labels = name, "kcp-system", map[string]string{"shard": publisher}
		return k
	}
	selector, err := labels.Parse("shard=a")
	if err != nil {
		t.Fatal(err)
	}
	before, now := newControlled(), time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	before.Watched = shard.Share{Selector: selector}
	for _, k := range []*v1beta2.Kyma{kyma("stays", "a"), kyma("leaves", "a"), kyma("joins", "b"), kyma("other", "b")} {
		before.Kymas[k.Name] = k
	}
	commit := source.Objects{Kymas: []v1beta2.Kyma{*kyma("leaves", "b"), *kyma("joins", "a")}}
	was, err := before.Forecast(plan.Rules{}, now)
	if err != nil {
		t.Fatal(err)
	}
	is, err := before.AfterCommit(commit, nil, "kcp-system", now).Forecast(plan.Rules{}, now)
	if err != nil {
		t.Fatal(err)
	}
	f, err := forecast.New(was, is, plan.RuntimeID, now)
	if err != nil || f.Runtimes != 1 || f.Changed+len(f.CreatedRuntimes)+len(f.Leaving) > 0 {
		t.Fatalf("got forecast %+v and error %v, want only the runtime that stays, without a change", f, err)
	}
	const want = "Kyma leaves would move to another publisher, so its changes are not shown; " +
		"Kyma joins would move from another publisher, so its changes are not shown"
	if got := strings.Join(f.Warnings, "; "); got != want {
		t.Errorf("got warnings %q, want %q", got, want)
	}
}
