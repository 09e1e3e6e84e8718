// Package plan decides the content of the bundle of each runtime in a fleet. It takes values: Kymas, reports, the
// catalog, rollouts, rules for the whole fleet, and the time. It returns requests, gates, audiences, and the reasons
// for new bundles.
//
// It is pure, and the only place that turns a Kyma into a request. `run`, `publish` and `diff` only differ in their
// sources and in their use of the result. Package resolve turns a request into modules.
package plan

import (
	"cmp"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Rules apply to all runtimes of a fleet.
type Rules struct {
	// Settings configure the agents. A Kyma's annotations override them.
	Settings bundle.Settings
	// AgentRollbackFrom are the agent images that all agents can leave for an older one, by digest.
	AgentRollbackFrom []string
	// KymaLabels are labels of the control plane's Kymas that the runtimes' Kymas get, in addition to the fixed ones.
	KymaLabels []string
	// Watchers are the accepted Watchers, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance selects the windows for upgrades with downtime.
	Maintenance Maintenance
	// Silence is the allowed time without a report. A Kyma's annotation overrides it.
	Silence time.Duration
	// Root is the newest root of trust. A key that it revokes gets no bundle.
	Root trust.Root
	// Source is the control plane's commit, nil for none.
	Source *bundle.Source
	// Changing: the control plane is in the middle of a change, so only last bundles of deleted Kymas are published.
	Changing bool
}

// RuntimeID returns the runtime ID of a Kyma: its label, otherwise its own name. For a deleted Kyma it is the first
// runtime in its status, whatever its label is now, because no other Kyma would remove that runtime's modules.
func RuntimeID(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; !kyma.DeletionTimestamp.IsZero() && s != nil && s.ID != "" {
		return s.ID
	}
	return cmp.Or(kyma.Labels[v1beta2.LabelRuntimeID], kyma.Name)
}

// Skipped reports whether a Kyma is skipped: nothing is published to its runtime, and the last bundle stays. A deleted
// Kyma is not skipped, because it would stay forever. Nor is a Kyma in a takeover, whose label keeps lifecycle-manager
// away.
//
// Source: lifecycle-manager #3097.
func Skipped(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True && kyma.DeletionTimestamp.IsZero() &&
		!v1beta2.TakenOver(kyma)
}
