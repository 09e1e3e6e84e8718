package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
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
	if f.runtime != "" && !controlplane.RuntimeArgument(f.runtime).Matches(r.Kyma, r.ID) {
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

const maxVersions = 5

// otherVersions returns text that lists the versions in the runtimes, or "" if a runtime runs the version in --version.
func (f *runtimeFilter) otherVersions(all []fleet.Runtime) string {
	var versions []string
	for i := range all {
		for _, m := range all[i].Modules {
			if m.Version != "" && (f.module == "" || m.Name == f.module) {
				versions = append(versions, m.Version)
			}
		}
	}
	slices.Sort(versions)
	versions = slices.Compact(versions)
	if f.version == "" || len(versions) == 0 || slices.Contains(versions, f.version) {
		return ""
	}
	more := ""
	if len(versions) > maxVersions {
		more = fmt.Sprintf(" and %d more", len(versions)-maxVersions)
	}
	return fmt.Sprintf(": no runtime runs version %s; the versions are %s%s", f.version,
		strings.Join(versions[:min(len(versions), maxVersions)], ", "), more)
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

// selectRuntime returns the runtimes that the argument of the command names, or all runtimes without an argument.
func (f *runtimeFilter) selectRuntime(all []fleet.Runtime) ([]fleet.Runtime, error) {
	if f.runtime == "" {
		return all, nil
	}
	names := make([]controlplane.RuntimeKyma, len(all))
	for i := range all {
		names[i] = controlplane.RuntimeKyma{Name: all[i].Kyma, IDs: []string{all[i].ID}}
	}
	indexes, err := controlplane.RuntimeArgument(f.runtime).Select(names)
	selected := make([]fleet.Runtime, len(indexes))
	for i, at := range indexes {
		selected[i] = all[at]
	}
	return selected, err
}

func (f *runtimeFilter) filterRuntimes(all []fleet.Runtime) []fleet.Runtime {
	selected := []fleet.Runtime{}
	named, _ := f.selectRuntime(all) // print returns the error for an ambiguous argument
	for i := range named {
		if f.matches(&named[i]) {
			selected = append(selected, named[i])
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
