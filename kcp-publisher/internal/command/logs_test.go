package command

import (
	"strings"
	"testing"
)

func TestLogsAndTreeRefuseInvalidArguments(t *testing.T) {
	for args, want := range map[string]string{
		"logs": "expected a runtime ID", "tree a b c": "expected a runtime ID",
		"logs berlin":                       "exactly one of --location and --file is required",
		"tree berlin --file x --location y": "exactly one of --location and --file is required",
	} {
		if o := run(strings.Fields(args)...); o.code != 2 || !strings.Contains(o.err, want) {
			t.Errorf("%s: got %+v, want %q", args, o, want)
		}
	}
}
