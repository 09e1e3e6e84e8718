// Package plan decides the content of the bundle of each runtime in a fleet. It takes values: Kymas, reports, the
// catalog, rollouts, rules for the whole fleet, and the time. It returns requests, gates, audiences, and the reasons
// for new bundles.
//
// The package is pure, and only this package converts a Kyma to a request. Package resolve converts a request to
// modules. The commands `run`, `publish` and `diff` all use this package. They differ only in the source of their
// inputs and in the use of the result.
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
	// AgentRollbackFrom are the digests of the agent images from which all agents may return to an older image.
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
	// Root is the newest root of trust. No bundle is published for an agent whose key the root revokes.
	Root trust.Root
	// Source is the commit that the control plane has applied, or nil if unknown.
	Source *bundle.Source
	// Changing is true while the control plane is partially changed, for example by a partially applied Git commit.
	// Only the last bundles of deleted Kymas are published then.
	Changing bool
}

// RuntimeID returns the runtime ID of a Kyma: the value of its label runtime-id, or its name if it has no label. For a
// deleted Kyma, the runtime ID in the status takes precedence over a changed label, so that the modules are removed
// from the runtime to which they were published.
func RuntimeID(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; !kyma.DeletionTimestamp.IsZero() && s != nil && s.ID != "" {
		return s.ID
	}
	return cmp.Or(kyma.Labels[v1beta2.LabelRuntimeID], kyma.Name)
}

// Skipped reports whether the label skip-reconciliation suspends a Kyma: its runtime gets no new bundles and does not
// change. A deleted Kyma is never skipped, because its deletion would never finish. A Kyma in a takeover is not skipped
// either, because the label then stops only lifecycle-manager.
//
// Source: lifecycle-manager #3097.
func Skipped(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True && kyma.DeletionTimestamp.IsZero() &&
		!v1beta2.TakenOver(kyma)
}
