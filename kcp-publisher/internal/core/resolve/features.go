package resolve

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Outdated is the prefix of all messages about unsupported features.
const Outdated = "the agent is too old for "

func (r Request) unsupportedFeatures(m *bundle.Manifest) []bundle.Feature {
	if m == nil || len(r.Unsupported) == 0 {
		return nil
	}
	return slices.DeleteFunc(m.Features(), func(f bundle.Feature) bool { return !slices.Contains(r.Unsupported, f) })
}

// supportedManifest returns the last manifest of a module, or nil if it uses an unsupported feature. If it returns nil,
// the runtime does not change the module.
func (r Request) supportedManifest(last *bundle.Manifest) *bundle.Manifest {
	if len(r.unsupportedFeatures(last)) > 0 {
		return nil
	}
	return last
}

func (r *Result) recordOmitted(missing []bundle.Feature) {
	r.Unsupported = append(r.Unsupported, missing...)
	slices.Sort(r.Unsupported)
	r.Unsupported = slices.Compact(r.Unsupported)
}

func outdated(module string, missing []bundle.Feature) *bundle.Problem {
	names := make([]string, 0, len(missing))
	for _, f := range missing {
		names = append(names, string(f))
	}
	return warning(reason.AgentOutdated, "module %s: %s%s: the module does not change until the agent is upgraded",
		module, Outdated, strings.Join(names, ", "))
}

// CheckTakeover returns an error if the agent does not support takeovers, because it would overwrite the existing
// modules.
func (r Request) CheckTakeover() error {
	if r.Takeover == "" || !slices.Contains(r.Unsupported, bundle.FeatureTakeover) {
		return nil
	}
	return reason.Errorf(reason.AgentOutdated, "%s%s: nothing is published until the agent is upgraded", Outdated,
		bundle.FeatureTakeover)
}
