package resolve

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// OutdatedMessage is the start of every message about features that the agent does not support.
const OutdatedMessage = "the agent is too old for "

func (r Request) unsupportedFeatures(m *bundle.Manifest) []bundle.Feature {
	if m == nil || len(r.Unsupported) == 0 {
		return nil
	}
	return slices.DeleteFunc(m.Features(), func(f bundle.Feature) bool { return !slices.Contains(r.Unsupported, f) })
}

// supportedManifest returns the module's manifest from the last bundle. It returns nil if the manifest uses a feature
// that the agent does not support. The next bundle then omits the module, and the module in the runtime does not
// change.
func (r Request) supportedManifest(last *bundle.Manifest) *bundle.Manifest {
	if len(r.unsupportedFeatures(last)) > 0 {
		return nil
	}
	return last
}

func (r *Result) addUnsupported(missing []bundle.Feature) {
	r.Unsupported = append(r.Unsupported, missing...)
	slices.Sort(r.Unsupported)
	r.Unsupported = slices.Compact(r.Unsupported)
}

func outdatedProblem(module string, missing []bundle.Feature) *bundle.Problem {
	names := make([]string, 0, len(missing))
	for _, f := range missing {
		names = append(names, string(f))
	}
	return newWarning(reason.AgentOutdated, "module %s: %s%s: the module does not change until the agent is upgraded",
		module, OutdatedMessage, strings.Join(names, ", "))
}

// CheckTakeover returns an error if the runtime is in a takeover but its agent does not support takeovers. Such an
// agent would overwrite the modules that lifecycle-manager installed.
func (r Request) CheckTakeover() error {
	if r.Takeover == "" || !slices.Contains(r.Unsupported, bundle.FeatureTakeover) {
		return nil
	}
	return reason.Errorf(reason.AgentOutdated, "%s%s: nothing is published until the agent is upgraded", OutdatedMessage,
		bundle.FeatureTakeover)
}
