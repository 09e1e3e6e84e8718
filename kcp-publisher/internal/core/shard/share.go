package shard

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Share is the set of Kymas that a process or shard publishes: the Kymas that match a selector and have a runtime in
// one shard. The zero value contains all Kymas.
type Share struct {
	// Selector selects Kymas by their labels. Nil selects all Kymas.
	Selector labels.Selector
	// Number is the shard, from 0 to Count-1. If Count is 0 or 1, the selected Kymas are not divided into shards.
	Number, Count int
}

// Contains reports whether a Kyma with these labels and this runtime ID belongs to the share. It ignores the shard
// label, which users can edit.
func (s Share) Contains(kyma map[string]string, runtime string) bool {
	if s.Selector != nil && !s.Selector.Matches(labels.Set(kyma)) {
		return false
	}
	return s.Count < 2 || ShardOf(runtime, s.Count) == s.Number
}

// CacheSelector returns the selector for the Kymas that the process caches. It includes the shard label, so that the
// API server does not send other shards' Kymas.
func (s Share) CacheSelector() labels.Selector {
	selector := s.Selector
	if selector == nil {
		selector = labels.Everything()
	}
	if s.Count < 2 {
		return selector
	}
	own, err := labels.NewRequirement(v1beta2.LabelShard, selection.Equals, []string{LabelValue(s.Number, s.Count)})
	if err != nil {
		panic("a shard's label is always valid: " + err.Error())
	}
	return selector.Add(*own)
}

// IsReconciled reports whether one of the s.Count shards reconciles a Kyma with these labels and this runtime ID.
// Without its shard label, a Kyma is not in the cache of any shard.
func (s Share) IsReconciled(kyma map[string]string, runtime string) bool {
	if s.Count > 1 {
		s.Number = ShardOf(runtime, s.Count)
	}
	return s.CacheSelector().Matches(labels.Set(kyma))
}

// Others returns a selector that matches all Kymas that no shard reconciles, and possibly more Kymas. It does not match
// Kymas with a wrong shard label, because the planner corrects this label.
func (s Share) Others() labels.Selector {
	if s.HasSelector() || s.Count < 2 {
		return labels.Everything()
	}
	values := make([]string, s.Count)
	for number := range values {
		values[number] = LabelValue(number, s.Count)
	}
	unlabeled, err := labels.NewRequirement(v1beta2.LabelShard, selection.NotIn, values)
	if err != nil {
		panic("a shard's label is always valid: " + err.Error())
	}
	return labels.NewSelector().Add(*unlabeled)
}

// IsFirst reports whether this is the first shard, which emits the Events about objects that concern all shards, such
// as the catalog.
func (s Share) IsFirst() bool { return s.Number == 0 }

// HasSelector reports whether a selector excludes some Kymas of the control plane.
func (s Share) HasSelector() bool { return s.Selector != nil && !s.Selector.Empty() }
