package controller

import (
	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

var (
	trainVersions = measure.Gauges(measure.Definition{
		Name:   "kyma_pull_publisher_train_versions",
		Help:   "Versions in PromotionPolicies' channels, by policy and reason why they are not in the next channel.",
		Labels: []string{"policy", "reason"},
		Leader: true,
	})
	trainPromoted = measure.Gauges(measure.Definition{
		Name:   "kyma_pull_publisher_train_last_promotion_timestamp_seconds",
		Help:   "Unix time of the publisher's latest promotion, by PromotionPolicy.",
		Labels: []string{"policy"},
		Leader: true,
	})
)

// setTrainMetrics updates the metrics about PromotionPolicies. The number of time series depends on the number of
// policies, not on the number of modules or runtimes.
func setTrainMetrics(outcomes []train.Outcome) {
	trainVersions.Reset()
	trainPromoted.Reset()
	for _, one := range outcomes {
		for _, m := range one.Status.Modules {
			for _, v := range m.Versions {
				trainVersions.WithLabelValues(one.Policy.Name, string(v.Reason)).Inc()
			}
		}
		if at := one.Status.LastPromotion; at != nil {
			trainPromoted.WithLabelValues(one.Policy.Name).Set(float64(at.Unix()))
		}
	}
}
