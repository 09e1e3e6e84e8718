package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Changes is how what a bundle asks for differs from what the one before it asked for.
type Changes struct {
	// Modules are those that were added, left out, or are asked for in any other way: another version, content,
	// configuration or label. They are sorted.
	Modules []string
}

// ChangesBetween returns how two states differ for modules, nil where all modules may be concerned. What agents only
// look for, watch or show is no part of it: the intervals, the catalog, Watchers, windows, offers, and the agent's own
// image.
func ChangesBetween(before, after bundle.DesiredState) *Changes {
	if before.Takeover != after.Takeover || !equality.Semantic.DeepEqual(installing(before.Settings), installing(after.Settings)) {
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

// installing returns the settings without those by which no module is installed otherwise.
func installing(s bundle.Settings) bundle.Settings {
	s.PollInterval, s.ReportInterval, s.Agent, s.Autonomy = metav1.Duration{}, metav1.Duration{}, "", ""
	return s
}
