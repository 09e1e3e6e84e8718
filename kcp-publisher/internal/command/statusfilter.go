package command

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
	module, version         string
}

func (f *runtimeFilter) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.failing, "failing", false,
		"show only runtimes that are Failing; can be combined with --behind and --silent")
	flags.BoolVar(&f.behind, "behind", false, "show only runtimes that are Behind")
	flags.BoolVar(&f.silent, "silent", false, "show only runtimes that are Silent or NeverReported")
	flags.StringVar(&f.module, "module", "", "show only runtimes that have the module")
	flags.StringVar(&f.version, "version", "",
		"show only runtimes that run this version of --module, or of any module if --module is not set")
}

func (f *runtimeFilter) selects(r *fleet.Runtime) bool {
	if f.runtime != "" && r.ID != f.runtime && r.Kyma != f.runtime {
		return false
	}
	if f.failing || f.behind || f.silent {
		switch r.Health {
		case fleet.Failing:
			if !f.failing {
				return false
			}
		case fleet.Silent, fleet.NeverReported:
			if !f.silent {
				return false
			}
		case fleet.Behind:
			if !f.behind {
				return false
			}
		default:
			return false
		}
	}
	if f.module == "" && f.version == "" {
		return true
	}
	return slices.ContainsFunc(r.Modules, func(m fleet.RuntimeModule) bool {
		return (f.module == "" || m.Name == f.module) && (f.version == "" || m.Version == f.version)
	})
}

func (f *runtimeFilter) any() bool { return *f != runtimeFilter{} }

func (f *runtimeFilter) selected(all []fleet.Runtime) []fleet.Runtime {
	selected := []fleet.Runtime{}
	for i := range all {
		if f.selects(&all[i]) {
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
