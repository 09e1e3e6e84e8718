package cli

import (
	"strings"
	"testing"
)

func TestInvalidSelectorErrorNamesValueAndSyntax(t *testing.T) {
	_, err := ParseSelector("--selector", "region in (eu")
	if !IsUsage(err) || !strings.HasPrefix(err.Error(), `--selector "region in (eu": `) ||
		!strings.Contains(err.Error(), "use KEY=VALUE, 'KEY in (A,B)'") {
		t.Errorf("got error %v, want the flag, its value and the syntax", err)
	}
}
