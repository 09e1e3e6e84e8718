package cli

import "testing"

func TestOnlyFlagsThatAreMissingAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		given [3]bool
		want  string
	}{
		"all":  {[3]bool{true, true, true}, ""},
		"one":  {[3]bool{true, false, true}, "--to is required"},
		"two":  {[3]bool{false, true, false}, "--from and -o are required"},
		"none": {[3]bool{}, "--from, --to and -o are required"},
	} {
		t.Run(name, func(t *testing.T) {
			err := RequireFlags(Required{"--from", c.given[0]}, Required{"--to", c.given[1]}, Required{"-o", c.given[2]})
			if err == nil && c.want != "" || err != nil && (err.Error() != c.want || !IsUsage(err)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
