// Package plan decides the content of each runtime's bundle. Its inputs are Kymas, reports, the catalog, rollouts,
// rules for the fleet, and the time.
//
// The package is pure. It converts a Kyma to a request, and package resolve converts the request to modules. The
// commands `run`, `publish` and `diff` use it.
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
	// AgentRollbackFrom are the digests of the agent images from which all agents may roll back.
	AgentRollbackFrom []string
	// KymaLabels are additional labels to copy from the control plane's Kymas to the runtimes' Kymas.
	KymaLabels []string
	// Watchers are the valid Watchers, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance selects the windows for upgrades with downtime.
	Maintenance Maintenance
	// Silence is the allowed time without a report. A Kyma's annotation overrides it.
	Silence time.Duration
	// Root is the newest root of trust.
	Root trust.Root
	// Source is the applied Git commit, or nil.
	Source *bundle.Source
	// Changing is true while the control plane is partially changed, for example by a Git commit. Only the last bundles
	// of deleted Kymas are published then.
	Changing bool
}

// RuntimeID returns the runtime ID of a Kyma: its label runtime-id, or its name without a label. For a deleted Kyma,
// the ID in the status takes precedence over a changed label.
func RuntimeID(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; !kyma.DeletionTimestamp.IsZero() && s != nil && s.ID != "" {
		return s.ID
	}
	return cmp.Or(kyma.Labels[v1beta2.LabelRuntimeID], kyma.Name)
}

// Skipped reports whether the label skip-reconciliation suspends a Kyma. Deleted Kymas and Kymas in a takeover are
// never skipped.
//
// Source: lifecycle-manager #3097.
func Skipped(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True && kyma.DeletionTimestamp.IsZero() &&
		!v1beta2.TakenOver(kyma)
}
