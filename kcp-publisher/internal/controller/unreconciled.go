package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

var unreconciledRuntimes = measure.Gauges(measure.Definition{
	Name: "kyma_pull_publisher_unreconciled_runtimes",
	Help: "Runtimes in the namespace whose Kymas no publisher reconciles, by health: NeverReported or Silent. Only " +
		"publishers with a label selector or shards export this metric, and each exports the total. " +
		"kyma_pull_publisher_runtime_health does not count these runtimes.",
	Labels: []string{"health"},
	Leader: true,
})

// unreconciledInterval is the maximum interval between two counts of unreconciled runtimes. Each count reads all Kymas
// in the namespace, because the publisher does not cache Kymas that it does not reconcile.
const unreconciledInterval = 5 * time.Minute

// unreconciledCounter counts the runtimes whose Kymas no publisher reconciles. No publisher's FleetMetrics contain
// these runtimes.
type unreconciledCounter struct {
	// api reads from the API server.
	api       client.Reader
	namespace string
	// share contains the Kymas of all of this publisher's shards.
	share    shard.Share
	interval time.Duration
	now      func() time.Time
}

// setUpUnreconciled adds an unreconciledCounter to the manager if the namespace can contain Kymas that the publisher
// does not reconcile.
func setUpUnreconciled(mgr ctrl.Manager, namespace string, all shard.Share, poll time.Duration,
	now func() time.Time) error {
	if !all.HasSelector() && all.Count < 2 {
		return nil
	}
	return mgr.Add(&unreconciledCounter{
		api: mgr.GetAPIReader(), namespace: namespace, share: all, now: now,
		interval: max(time.Second, min(10*poll, unreconciledInterval)),
	})
}

// Start counts regularly until the context ends.
func (c *unreconciledCounter) Start(ctx context.Context) error {
	defer unreconciledRuntimes.Reset()
	wait.UntilWithContext(ctx, c.update, c.interval)
	return nil
}

// update counts once and sets the metric. If it cannot read the Kymas, the metric keeps the previous count.
func (c *unreconciledCounter) update(ctx context.Context) {
	counts, err := c.count(ctx)
	if err != nil {
		if ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "failed to count the runtimes that no publisher reconciles")
		}
		return
	}
	for health, n := range counts {
		unreconciledRuntimes.WithLabelValues(string(health)).Set(float64(n))
	}
}

// count returns the number of unreconciled runtimes for each possible health value.
func (c *unreconciledCounter) count(ctx context.Context) (map[fleet.Health]int, error) {
	counts := map[fleet.Health]int{fleet.NeverReported: 0, fleet.Silent: 0}
	for next := ""; ; {
		page := &v1beta2.KymaList{} // a reused list would keep fields that the next page's Kymas do not have
		if err := c.api.List(ctx, page, client.InNamespace(c.namespace), client.Limit(metadataPageSize),
			client.MatchingLabelsSelector{Selector: c.share.Others()}, client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list Kymas: %w", err)
		}
		others := slices.DeleteFunc(page.Items, func(kyma v1beta2.Kyma) bool {
			return c.share.IsReconciled(kyma.Labels, plan.ClaimedRuntimeID(&kyma))
		})
		fleet.CountUnreconciled(counts, others, c.now())
		if next = page.Continue; next == "" {
			return counts, nil
		}
	}
}
