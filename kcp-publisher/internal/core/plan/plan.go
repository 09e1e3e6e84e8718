// Package plan decides the content of each runtime's bundle. Its inputs are Kymas, reports, the catalog, rollouts, the
// rules of the fleet, and the time.
//
// The package performs no I/O. It converts a Kyma to a request, and package resolve converts the request to modules.
// The commands `run`, `publish` and `diff` use it.
package plan

import (
	"cmp"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Rules contains the settings that apply to all runtimes of a fleet.
type Rules struct {
	// Settings contains the default settings of the agents. A Kyma's annotations override them.
	Settings bundle.Settings
	// AgentRollbackFrom lists the digests of agent images. An agent with one of these images can roll back to an older
	// image.
	AgentRollbackFrom []string
	// KymaLabels lists additional labels that the publisher copies from a Kyma in the control plane to the Kyma in the
	// runtime.
	KymaLabels []string
	// Watchers contains the valid Watcher objects, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance configures the maintenance windows for module upgrades that cause downtime.
	Maintenance Maintenance
	// SilenceTimeout is the time that a runtime may be without a report before it counts as silent. A Kyma's annotation
	// overrides it.
	SilenceTimeout time.Duration
	// Root is the newest root of trust.
	Root trust.Root
	// Source is the Git commit from which the control plane's objects were applied, or nil.
	Source *bundle.Source
	// IsChanging is true while a change of the control plane's objects is in progress, for example while a Git commit is
	// applied. During this time, the publisher publishes only the last bundles of deleted Kymas.
	IsChanging bool
}

// RuntimeID returns the value of a Kyma's label operator.kyma-project.io/runtime-id or, without the label, the Kyma's
// name. For a deleted Kyma, it returns the ID in the status even if the label has changed.
func RuntimeID(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; !kyma.DeletionTimestamp.IsZero() && s != nil && s.ID != "" {
		return s.ID
	}
	return cmp.Or(kyma.Labels[v1beta2.LabelRuntimeID], kyma.Name)
}

// IsSkipped reports whether a Kyma is suspended by the label skip-reconciliation. A deleted Kyma or a Kyma in a
// takeover from lifecycle-manager is never skipped.
//
// Source: lifecycle-manager #3097.
func IsSkipped(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True && kyma.DeletionTimestamp.IsZero() &&
		!v1beta2.TakenOver(kyma)
}
