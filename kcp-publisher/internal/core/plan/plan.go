// Package plan decides what each runtime of a fleet gets. What is known goes in as values: Kymas, what their runtimes
// reported, the catalog, rollouts, what holds for the whole fleet, and the time. Out come requests, gates, audiences,
// and why a bundle is due.
//
// It is pure, and the only place where a Kyma becomes a request: `run`, `publish` and `diff` differ in where they read
// and in what they do with the answer, never in the answer. What a bundle says about each module is package resolve's,
// which takes these requests.
package plan

import (
	"cmp"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Rules are what holds for all runtimes of a fleet.
type Rules struct {
	// Settings tune the agents where a Kyma's annotations do not.
	Settings bundle.Settings
	// AgentRollbackFrom are the agent images that all agents can leave for an older one, by digest.
	AgentRollbackFrom []string
	// KymaLabels are labels that Kymas of runtimes get as the Kymas in the control plane have them, besides those that
	// they always get.
	KymaLabels []string
	// Watchers are those that were accepted, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance says when runtimes may be upgraded where that means downtime.
	Maintenance Maintenance
	// Silence is how long a runtime may go without a report where its Kyma does not say otherwise.
	Silence time.Duration
	// Root is the newest root of trust: no bundle is for a key that it revokes.
	Root trust.Root
	// Source is the commit that the control plane has, nil for none.
	Source *bundle.Source
	// Changing: the control plane is in the middle of a change, so that only last bundles of deleted Kymas are published.
	Changing bool
}

// RuntimeID names the runtime of a Kyma: its label, else its own name. That of a deleted one is the runtime that it
// began with, whatever its label says since: nobody else tells that one to remove its modules.
func RuntimeID(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; !kyma.DeletionTimestamp.IsZero() && s != nil && s.ID != "" {
		return s.ID
	}
	return cmp.Or(kyma.Labels[v1beta2.LabelRuntimeID], kyma.Name)
}

// Skipped reports whether a Kyma is left alone: nothing is published to its runtime, and what was published stays. A
// deleted one is not: it would stay for ever. Nor is one that is taken over: its label keeps lifecycle-manager from it.
//
// Source: lifecycle-manager #3097.
func Skipped(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True && kyma.DeletionTimestamp.IsZero() && !v1beta2.TakenOver(kyma)
}
