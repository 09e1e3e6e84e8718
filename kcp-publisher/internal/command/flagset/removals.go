package flagset

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

// RemovalFlags limit how many modules can be removed from runtimes without an operator's approval.
type RemovalFlags struct{ values removal.Limits }

// Add adds the flags.
func (f *RemovalFlags) Add(settings *pflag.FlagSet) {
	d := removal.DefaultLimits
	settings.IntVar(&f.values.Percent, "removal-percent", d.Percent,
		"percentage of runtimes that can lose modules within removal-window without approval")
	settings.IntVar(&f.values.Count, "removal-count", d.Count,
		"number of runtimes that can lose modules within removal-window regardless of removal-percent")
	settings.IntVar(&f.values.PerModule, "removal-per-module", d.PerModule,
		"number of runtimes that can lose the same module within removal-window without approval")
	settings.DurationVar(&f.values.Window, "removal-window", d.Window,
		"period in which removals count toward the limits; at most 24h")
}

// Limits returns the limits, or a usage error.
func (f *RemovalFlags) Limits() (removal.Limits, error) {
	switch l := f.values; {
	case l.Percent < 0 || l.Percent > 100:
		return l, cli.Usage(fmt.Errorf("removal-percent %d: must be 0 to 100", l.Percent))
	case l.Count < 0 || l.PerModule < 0:
		return l, cli.Usage(errors.New("removal-count and removal-per-module must be at least 0"))
	case l.Window < 0 || l.Window > removal.MaxWindow:
		return l, cli.Usage(fmt.Errorf("removal-window %s: must be 0 to %s", l.Window, removal.MaxWindow))
	default:
		return l, nil
	}
}
