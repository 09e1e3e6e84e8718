package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Changes lists the modules that differ between two consecutive bundles.
type Changes struct {
	// Modules are the added, removed and changed modules, sorted.
	Modules []string
}

// ChangesBetween returns the modules that differ between two desired states. It returns nil if the change can affect
// all modules. It ignores settings that do not affect module installation.
func ChangesBetween(before, after bundle.DesiredState) *Changes {
	if before.Takeover != after.Takeover ||
		!equality.Semantic.DeepEqual(installSettings(before.Settings), installSettings(after.Settings)) {
		return nil
	}
	var changed []string
	was := make(map[string]*bundle.Manifest, len(before.Manifests))
	for i := range before.Manifests {
		was[before.Manifests[i].Module] = &before.Manifests[i]
	}
	for i := range after.Manifests {
		m := &after.Manifests[i]
		if old := was[m.Module]; old == nil || !equality.Semantic.DeepEqual(*old, *m) {
			changed = append(changed, m.Module)
		}
		delete(was, m.Module)
	}
	for module := range was {
		changed = append(changed, module)
	}
	slices.Sort(changed)
	return &Changes{Modules: slices.Compact(changed)}
}

func installSettings(s bundle.Settings) bundle.Settings {
	s.PollInterval, s.ReportInterval, s.Agent, s.Autonomy, s.Details = metav1.Duration{}, metav1.Duration{}, "", "", nil
	return s
}
