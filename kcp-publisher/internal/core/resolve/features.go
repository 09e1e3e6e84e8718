package resolve

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Outdated is the prefix of every message about features that a runtime's agent lacks.
const Outdated = "the agent is too old for "

// lacking returns the features that a manifest requires and the runtime's agent does not have, none for a nil manifest.
func (r Request) lacking(m *bundle.Manifest) []bundle.Feature {
	if m == nil || len(r.Lacks) == 0 {
		return nil
	}
	return slices.DeleteFunc(m.Features(), func(f bundle.Feature) bool { return !slices.Contains(r.Lacks, f) })
}

// readable returns the last manifest of a module, nil if the runtime's agent lacks a feature of it: then the module
// stays in the runtime as it is.
func (r Request) readable(last *bundle.Manifest) *bundle.Manifest {
	if len(r.lacking(last)) > 0 {
		return nil
	}
	return last
}

// leaveOut records the features that hold a module back.
func (r *Result) leaveOut(missing []bundle.Feature) {
	r.LeftOut = append(r.LeftOut, missing...)
	slices.Sort(r.LeftOut)
	r.LeftOut = slices.Compact(r.LeftOut)
}

// outdated returns the problem of a module that is held back.
func outdated(module string, missing []bundle.Feature) *bundle.Problem {
	names := make([]string, 0, len(missing))
	for _, f := range missing {
		names = append(names, string(f))
	}
	return warning(reason.AgentOutdated, "module %s: %s%s: it stays as it is until the agent is upgraded", module,
		Outdated, strings.Join(names, ", "))
}

// CheckTakeover returns an error for a takeover of a runtime whose agent lacks the feature: the agent would install
// modules over the existing ones.
func (r Request) CheckTakeover() error {
	if r.Takeover == "" || !slices.Contains(r.Lacks, bundle.FeatureTakeover) {
		return nil
	}
	return reason.Errorf(reason.AgentOutdated, "%s%s: nothing is published until it is upgraded", Outdated,
		bundle.FeatureTakeover)
}
