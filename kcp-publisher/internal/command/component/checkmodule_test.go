package component

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestCheckModuleShowsEachMeasurement(t *testing.T) {
	cel := &fleet.CELCheck{Expression: "true"}
	definitions := checks.Define([]fleet.Check{{Name: "ready", CEL: cel},
		{Name: "slow", CEL: cel, FailureThreshold: 2}}, nil, "")
	for name, c := range map[string]struct {
		slow  []checks.Verdict
		lines []string
		want  string
	}{
		"all checks pass": {
			[]checks.Verdict{checks.Success, checks.Success, checks.Success},
			[]string{"ready  success  Inconclusive", "ready  success  Passed", "slow  success  Passed",
				"all 2 checks passed"}, "",
		},
		"one check fails": {
			[]checks.Verdict{checks.Failure, checks.Failure},
			[]string{"slow  failure  Inconclusive  0.5  too slow", "slow  failure  Failed        0.5  too slow"},
			"slow is Failed",
		},
		"one check has no data": {
			[]checks.Verdict{checks.Unknown, checks.Unknown, checks.Unknown, checks.Unknown},
			[]string{"slow  unknown  Inconclusive  0.5  too slow"}, "slow is Inconclusive",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			f := checkModuleFlags{
				interval: time.Millisecond, measurements: 4, before: map[string]string{"slow": "0.25"},
			}
			err := f.measureAll(
				t.Context(),
				&out,
				definitions,
				func(_ context.Context, d checks.Definition, before string) checks.Measurement {
					if d.Name == "ready" {
						return checks.Measurement{Verdict: checks.Success}
					}
					require.Equal(t, "0.25", before)
					next := c.slow[0]
					c.slow = c.slow[1:]
					return checks.Measurement{Verdict: next, Value: "0.5", Message: "too slow"}
				},
			)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			for _, line := range c.lines {
				require.Contains(t, out.String(), line)
			}
			require.Empty(t, c.slow)
		})
	}
}

func TestCheckModuleRefusesUnknownNames(t *testing.T) {
	shipped := func() []fleet.Check { return []fleet.Check{{Name: "ready"}, {Name: "slow"}} }
	for name, f := range map[string]checkModuleFlags{
		"--check":  {names: []string{"ready", "typo"}},
		"--before": {before: map[string]string{"typo": "1"}},
	} {
		_, err := f.selectChecks("keda", shipped())
		require.ErrorContains(t, err, "keda has no check typo", name)
		require.True(t, cli.IsUsage(err), name)
	}
	f := checkModuleFlags{names: []string{"slow"}, before: map[string]string{"slow": "1"}}
	selected, err := f.selectChecks("keda", shipped())
	require.NoError(t, err)
	require.Equal(t, []fleet.Check{{Name: "slow"}}, selected)
}

func TestCheckModuleReadsAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "checks.yaml")
	require.NoError(t, os.WriteFile(name, []byte("checks:\n- name: ready\n  cel: {expression: 'true'}\n"), 0o600))
	f := &checkModuleFlags{}
	shipped, err := f.readChecks(&cobra.Command{}, name)
	require.NoError(t, err)
	require.Equal(t, "ready", shipped[0].Name)
	_, err = f.readChecks(&cobra.Command{}, filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorContains(t, err, "no such file")
}
