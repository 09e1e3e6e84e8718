package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// checkDurations returns an error for negative durations in flags and settings. Programs would accept a negative
// interval or validity period and then behave unexpectedly, for example publish bundles that have already expired.
func checkDurations(flags *pflag.FlagSet) error {
	err := refuseNegative(flags, "--")
	if all := SettingsOf(flags); all != nil {
		err = errors.Join(err, refuseNegative(all, ""))
	}
	return err
}

func refuseNegative(flags *pflag.FlagSet, prefix string) error {
	var problems []error
	flags.VisitAll(func(flag *pflag.Flag) {
		value, err := time.ParseDuration(flag.Value.String())
		if flag.Value.Type() == "duration" && err == nil && value < 0 {
			problems = append(problems, Usage(fmt.Errorf("%s%s %s: must be at least 0", prefix, flag.Name, value)))
		}
	})
	return errors.Join(problems...)
}
