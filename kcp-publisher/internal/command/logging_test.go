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
		"A level that there is": {"--log-level trace", cli.ExitDone, "PUBLISHER KEYS"},
		"A level that there is not": {
			"--log-level loud", cli.ExitUsage, `--log-level "loud": want trace, debug, info or error`,
		},
		"A level that there is not, in a file": {"--config " + config, cli.ExitUsage, `--log-level "loud"`},
		"A format that there is":               {"--log-format console", cli.ExitDone, "PUBLISHER KEYS"},
		"A format that there is not": {
			"--log-format xml", cli.ExitUsage, `--log-format "xml": want json or console`,
		},
		"A flag given wins over one in a file": {"--log-level info --config " + config, cli.ExitDone, "PUBLISHER KEYS"},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(append([]string{"keys", "show", "--keys", dir}, strings.Fields(c.args)...)...)
			if o.code != c.code || !strings.Contains(o.out+o.err, c.want) {
				t.Errorf("got %+v\nwant %d with %q", o, c.code, c.want)
			}
		})
	}
}
