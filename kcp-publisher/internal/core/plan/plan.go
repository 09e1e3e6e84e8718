// Package plan decides the content of each runtime's bundle. Its inputs are Kymas, reports, the catalog, rollouts, the
// rules of the fleet, and the time.
//
// The package does not perform I/O. It converts a Kyma to a request, and package resolve converts the request to
// modules. The commands `run`, `publish` and `diff` use this package.
package plan

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Rules contains the settings that apply to all runtimes in a fleet.
type Rules struct {
	// Settings contains the default settings of the agents. A Kyma's annotations override them.
	Settings bundle.Settings
	// AgentRollbackFrom lists agent image digests. An agent with one of these images can roll back to an older image.
	AgentRollbackFrom []string
	// KymaLabels lists additional labels that the publisher copies from a Kyma in the control plane to the Kyma in the
	// runtime.
	KymaLabels []string
	// Watchers contains the valid Watcher objects, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance configures the maintenance windows for module upgrades that cause downtime.
	Maintenance Maintenance
	// SilenceTimeout is the time without a report after which a runtime counts as silent. A Kyma's annotation overrides
	// it.
	SilenceTimeout time.Duration
	// Root is the newest root of trust.
	Root trust.Root
	// Source is the Git commit that the control plane's objects were applied from, or nil.
	Source *bundle.Source
	// IsChanging is true while a change to the control plane's objects is in progress, for example while a Git commit
	// is applied. During this time, the publisher publishes only the last bundles of deleted Kymas.
	IsChanging bool
	// IsOffline is true if no control plane exists. Runtimes then do not report, so each of them may have modules.
	IsOffline bool
}
