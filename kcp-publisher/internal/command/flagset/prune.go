package flagset

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
)

// PruneFlags limit how many objects a Git commit can delete without an operator's approval.
type PruneFlags struct {
	all               bool
	percent, maxCount int
}

// Add adds the flags.
func (f *PruneFlags) Add(flags, settings *pflag.FlagSet) {
	flags.BoolVar(&f.all, "git-prune-all", false,
		"do not require approval for any deletions by a commit, even of all objects or of Kymas with a live runtime")
	settings.IntVar(
		&f.percent,
		"git-prune-percent",
		defaultPrunePercent,
		"percentage of earlier commits' objects that a commit can delete without approval; Kymas with a live "+
			"runtime always require approval",
	)
	settings.IntVar(&f.maxCount, "git-prune-count", defaultPruneCount,
		"number of objects that a commit can delete without approval, regardless of git-prune-percent")
}

const defaultPrunePercent, defaultPruneCount = 10, 5

// IsSet reports whether one of the flags differs from its default.
func (f *PruneFlags) IsSet() bool {
	return *f != PruneFlags{percent: defaultPrunePercent, maxCount: defaultPruneCount}
}

// PruningLimits returns the limits, or a usage error.
func (f *PruneFlags) PruningLimits() (follow.Pruning, error) {
	if f.percent < 0 || f.percent > 100 {
		return follow.Pruning{}, cli.Usage(fmt.Errorf("git-prune-percent %d: must be 0 to 100", f.percent))
	}
	if f.maxCount < 0 {
		return follow.Pruning{}, cli.Usage(fmt.Errorf("git-prune-count %d: must be at least 0", f.maxCount))
	}
	return follow.Pruning{All: f.all, MaxPercent: f.percent, MaxCount: f.maxCount}, nil
}
