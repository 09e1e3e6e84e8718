package flagset

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// MaintenanceFlags selects the maintenance windows for upgrades that require downtime.
type MaintenanceFlags struct {
	policy  string
	minimum time.Duration
}

// defaultMinimumWindow is also the default in lifecycle-manager.
const defaultMinimumWindow = 20 * time.Minute

// Add adds the flags.
func (f *MaintenanceFlags) Add(flags, settings *pflag.FlagSet) {
	flags.StringVar(&f.policy, "maintenance-policy", "",
		"file with a maintenance-window policy in lifecycle-manager's format; times have a fixed UTC offset, without "+
			"daylight saving time; default: only Kymas with their own windows delay upgrades that require downtime")
	settings.DurationVar(&f.minimum, "min-maintenance-window-size", defaultMinimumWindow,
		"minimum remaining time of a maintenance window for an upgrade to begin")
}

// Maintenance reads the policy. It calls remark for each rule that has no effect.
func (f *MaintenanceFlags) Maintenance(remark func(string)) (plan.Maintenance, error) {
	if f.minimum < 0 || f.minimum > window.MaxMinimum {
		return plan.Maintenance{},
			cli.Usage(fmt.Errorf("min-maintenance-window-size %s: must be 0 to %s", f.minimum, window.MaxMinimum))
	}
	maintenance := plan.Maintenance{Minimum: f.minimum}
	if f.policy == "" {
		return maintenance, nil
	}
	policy, err := readPolicy(f.policy)
	if err != nil {
		return maintenance, cli.Usage(fmt.Errorf("--maintenance-policy: %w", err))
	}
	for _, text := range slices.Concat(policy.Remarks, policy.ShortWindows(f.minimum)) {
		remark(text)
	}
	maintenance.Policy = &policy
	return maintenance, nil
}

func readPolicy(path string) (window.Policy, error) {
	file, err := os.Open(path)
	if err != nil {
		return window.Policy{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, window.MaxPolicyBytes+1))
	if err != nil {
		return window.Policy{}, err
	}
	policy, err := window.Parse(data)
	if err != nil {
		return policy, fmt.Errorf("%s: %w", path, err)
	}
	return policy, nil
}
