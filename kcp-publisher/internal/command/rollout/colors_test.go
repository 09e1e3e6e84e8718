package rollout

import (
	"io"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

func TestRolloutCommandsColorStates(t *testing.T) {
	stopped := underWay()
	stopped.Status.State = v1alpha1.RolloutStopped
	clitest.CheckColors(t, func(out io.Writer) { drawRollouts(out, []v1alpha1.Rollout{*stopped}) },
		"\x1b[31mStopped\x1b[0m")
	clitest.CheckColors(t, func(out io.Writer) { drawRollout(out, stopped, noon, cli.NewPalette(out)) },
		"  \x1b[31mStopped     \x1b[0m wave others", "\x1b[31mfailed\x1b[0m: r-7")
}

func TestTerminalRowsIncludeWrappedLines(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a\n": 1, "a\n\nb\n": 3, strings.Repeat("a", 80) + "\n": 1,
		strings.Repeat("ä", 81) + "\n": 2, "\x1b[31m" + strings.Repeat("a", 80) + "\x1b[0m\n": 1} {
		if got := countRows(text, 80); got != want {
			t.Errorf("%q takes %d rows, want %d", text, got, want)
		}
	}
}
