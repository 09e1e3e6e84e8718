package resolve

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// withChecks returns a copy of a module's manifest with the checks that the module's rollout requires. If no rollout is
// active and the version has not changed, the copy has the checks of the last manifest. If the agent does not support
// checks, the copy has no checks.
func (r Request) withChecks(m *bundle.Manifest, gate rollout.Decision) *bundle.Manifest {
	if m == nil {
		return nil
	}
	next := *m
	next.Checks, next.CheckFor = nil, rollout.WaveChecks{}.Duration
	own, found := r.Checks[rollout.Track{Module: m.Module, Channel: m.Channel}]
	switch last := lastManifest(r.LastState, m.Module); {
	case slices.Contains(r.Unsupported, bundle.FeatureChecks):
	case found && m.Version == gate.Version:
		next.Checks, next.CheckFor = own.Checks, own.Duration
	case last != nil && last.Version == m.Version:
		next.Checks, next.CheckFor = last.Checks, last.CheckFor
	}
	return &next
}
