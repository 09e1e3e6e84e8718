package status

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

type runtimeFilter struct {
	runtime                 string
	failing, behind, silent bool
	// health is the value of --health: health values, separated by commas.
	health          string
	module, version string
}

func (f *runtimeFilter) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.failing, "failing", false,
		"show only runtimes that are Failing; can be combined with --behind and --silent")
	flags.BoolVar(&f.behind, "behind", false, "show only runtimes that are Behind")
	flags.BoolVar(&f.silent, "silent", false, "show only runtimes that are Silent or NeverReported")
	flags.StringVar(&f.health, "health", "",
		"show only runtimes with one of these health values, such as Failing,Silent; can be combined with --failing")
	flags.StringVar(&f.module, "module", "", "show only runtimes that have the module")
	flags.StringVar(&f.version, "version", "",
		"show only runtimes that run this version of --module, or of any module if --module is not set")
}

func (f *runtimeFilter) matches(r *fleet.Runtime) bool {
	if f.runtime != "" && r.ID != f.runtime && r.Kyma != f.runtime {
		return false
	}
	if (f.failing || f.behind || f.silent || f.health != "") &&
		!slices.Contains(f.selectedHealth(), string(r.Health)) {
		return false
	}
	if f.module == "" && f.version == "" {
		return true
	}
	return slices.ContainsFunc(r.Modules, func(m fleet.RuntimeModule) bool {
		return (f.module == "" || m.Name == f.module) && (f.version == "" || m.Version == f.version)
	})
}

// selectedHealth returns the health values that --health, --failing, --behind and --silent select.
func (f *runtimeFilter) selectedHealth() []string {
	selected := strings.FieldsFunc(f.health, func(r rune) bool { return r == ',' })
	if f.failing {
		selected = append(selected, string(fleet.Failing))
	}
	if f.behind {
		selected = append(selected, string(fleet.Behind))
	}
	if f.silent {
		selected = append(selected, string(fleet.Silent), string(fleet.NeverReported))
	}
	return selected
}

func (f *runtimeFilter) isSet() bool { return *f != runtimeFilter{} }

func (f *runtimeFilter) filterRuntimes(all []fleet.Runtime) []fleet.Runtime {
	selected := []fleet.Runtime{}
	for i := range all {
		if f.matches(&all[i]) {
			selected = append(selected, all[i])
		}
	}
	if f.runtime != "" && len(selected) > 1 {
		// A runtime ID takes precedence over the name of another runtime's Kyma.
		if byID := slices.DeleteFunc(slices.Clone(selected),
			func(r fleet.Runtime) bool { return r.ID != f.runtime }); len(byID) > 0 {
			selected = byID
		}
	}
	slices.SortStableFunc(selected, func(a, b fleet.Runtime) int {
		return cmp.Or(slices.Index(worstFirst, a.Health)-slices.Index(worstFirst, b.Health),
			strings.Compare(a.ID, b.ID))
	})
	return selected
}

var worstFirst = []fleet.Health{
	fleet.Failing, fleet.Silent, fleet.NeverReported, fleet.Behind, fleet.Deleting, fleet.Suspended, fleet.Healthy,
}
