package command

import (
	"strings"
	"testing"
)

func TestRolloutCheckRefusesInvalidArguments(t *testing.T) {
	for args, want := range map[string]string{
		"berlin":                         "expected two arguments: a runtime ID and a module",
		"berlin keda":                    "exactly one of --location and --file is required",
		"berlin keda --file report.json": "--file requires --last",
		"berlin keda --location x/y --timeout -1s":        "--timeout -1s: must be at least 0",
		"berlin keda --location x/y --last --wave canary": "--last cannot be combined with --wave",
		"berlin keda --location x/y --last --check a":     "--last cannot be combined with --wave",
		"berlin keda --location x/y --last --timeout 0s":  "--last cannot be combined with --wave",
	} {
		if o := run(append([]string{"rollout", "check"}, strings.Fields(args)...)...); o.code != 2 ||
			!strings.Contains(o.err, want) {
			t.Errorf("%s: got %+v, want %q", args, o, want)
		}
	}
}
