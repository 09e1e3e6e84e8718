package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestUnknownLogFormatIsAUsageError(t *testing.T) {
	dir := keyFolder(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "log-level: loud\n")
	for name, c := range map[string]struct {
		args string
		code int
		want string
	}{
		"A valid level": {"--log-level trace", cli.ExitDone, "PUBLISHER KEYS"},
		"An unknown level": {
			"--log-level loud", cli.ExitUsage, `--log-level "loud": must be trace, debug, info or error`,
		},
		"An unknown level in a file": {"--config " + config, cli.ExitUsage, `--log-level "loud"`},
		"A valid format":             {"--log-format console", cli.ExitDone, "PUBLISHER KEYS"},
		"An unknown format": {
			"--log-format xml", cli.ExitUsage, `--log-format "xml": must be json or console`,
		},
		"A flag overrides the file": {"--log-level info --config " + config, cli.ExitDone, "PUBLISHER KEYS"},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(append([]string{"keys", "show", "--keys", dir}, strings.Fields(c.args)...)...)
			if o.code != c.code || !strings.Contains(o.out+o.err, c.want) {
				t.Errorf("got %+v\nwant exit code %d with %q", o, c.code, c.want)
			}
		})
	}
}
