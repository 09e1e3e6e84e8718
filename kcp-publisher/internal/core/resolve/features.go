package resolve

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Outdated is the prefix of all messages about features that a runtime's agent does not support.
const Outdated = "the agent is too old for "

// lacking returns the features that a manifest requires but the runtime's agent does not support. It returns nil for a
// nil manifest.
func (r Request) lacking(m *bundle.Manifest) []bundle.Feature {
	if m == nil || len(r.Unsupported) == 0 {
		return nil
	}
	return slices.DeleteFunc(m.Features(), func(f bundle.Feature) bool { return !slices.Contains(r.Unsupported, f) })
}

// readable returns the last manifest of a module, or nil if the runtime's agent does not support a feature in it. With
// nil, the module stays unchanged in the runtime.
func (r Request) readable(last *bundle.Manifest) *bundle.Manifest {
	if len(r.lacking(last)) > 0 {
		return nil
	}
	return last
}

// leaveOut records the unsupported features that hold a module back.
func (r *Result) leaveOut(missing []bundle.Feature) {
	r.Unsupported = append(r.Unsupported, missing...)
	slices.Sort(r.Unsupported)
	r.Unsupported = slices.Compact(r.Unsupported)
}

// outdated returns the problem of a module that unsupported features hold back.
func outdated(module string, missing []bundle.Feature) *bundle.Problem {
	names := make([]string, 0, len(missing))
	for _, f := range missing {
		names = append(names, string(f))
	}
	return warning(reason.AgentOutdated, "module %s: %s%s: the module does not change until the agent is upgraded",
		module, Outdated, strings.Join(names, ", "))
}

// CheckTakeover returns an error for a takeover of a runtime whose agent does not support takeovers, because the agent
// would overwrite the existing modules.
func (r Request) CheckTakeover() error {
	if r.Takeover == "" || !slices.Contains(r.Unsupported, bundle.FeatureTakeover) {
		return nil
	}
	return reason.Errorf(reason.AgentOutdated, "%s%s: nothing is published until the agent is upgraded", Outdated,
		bundle.FeatureTakeover)
}
