// Package plan decides the content of the bundle of each runtime in a fleet. It takes values: Kymas, reports, the
// catalog, rollouts, rules for the whole fleet, and the time. It returns requests, gates, audiences, and the reasons
// for new bundles.
//
// The package is pure, and only this package turns a Kyma into a request. The commands `run`, `publish` and `diff`
// differ only in where their inputs come from and how they use the result. Package resolve turns a request into
// modules.
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
	// AgentRollbackFrom are the digests of the agent images from which all agents can roll back.
	AgentRollbackFrom []string
	// KymaLabels are the labels that are copied from the control plane's Kymas to the runtimes' Kymas, in addition to
	// the fixed labels.
	KymaLabels []string
	// Watchers are the accepted Watchers, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance selects the windows for upgrades with downtime.
	Maintenance Maintenance
	// Silence is the allowed time without a report. A Kyma's annotation overrides it.
	Silence time.Duration
	// Root is the newest root of trust. No bundle is published for a key that the root revokes.
	Root trust.Root
	// Source is the commit that the control plane has applied, or nil if unknown.
	Source *bundle.Source
	// Changing: the control plane is in the middle of a change, so only last bundles of deleted Kymas are published.
	Changing bool
}

// RuntimeID returns the runtime ID of a Kyma: its label, or its own name without a label. A deleted Kyma keeps the
// runtime ID in its status even if the label changed, because no other Kyma would remove that runtime's modules.
func RuntimeID(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; !kyma.DeletionTimestamp.IsZero() && s != nil && s.ID != "" {
		return s.ID
	}
	return cmp.Or(kyma.Labels[v1beta2.LabelRuntimeID], kyma.Name)
}

// Skipped reports whether a Kyma is skipped: the publisher publishes no bundles to its runtime, and the last bundle
// stays. A deleted Kyma is never skipped, because its deletion would never finish. A Kyma in a takeover is not skipped
// either, because its label stops only lifecycle-manager.
//
// Source: lifecycle-manager #3097.
func Skipped(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True && kyma.DeletionTimestamp.IsZero() &&
		!v1beta2.TakenOver(kyma)
}
