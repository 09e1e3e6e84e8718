package command

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

func TestRuntimesCannotForgeLinesOfLogsAndTree(t *testing.T) {
	const forged = clitest.Forged
	report := signedReport{Time: time.Now(), kyma: &v1beta2.Kyma{}, Modules: []bundle.ReportedModule{{
		Name: forged, Version: forged, State: v1beta2.StateError, Message: forged,
		Details: &bundle.ModuleDetails{Problem: forged, Failing: []bundle.FailingObject{{
			DetailedObject: bundle.DetailedObject{Kind: forged, Name: forged, State: forged, Message: forged},
			Conditions:     []string{forged}, Events: []string{forged},
			Logs: []bundle.ContainerLog{{Container: forged, Text: forged}},
		}}},
	}}}
	clitest.CheckForged(t, func(out io.Writer) { report.drawLogs(out, time.Now()) })
	clitest.CheckForged(t, func(out io.Writer) { report.drawTree(out, time.Now()) })
}

func TestRuntimesCannotForgeLinesOfWhy(t *testing.T) {
	const forged = clitest.Forged
	why := explanation{
		Runtime: "berlin", State: v1beta2.StateError, Health: fleet.Failing, Cause: forged, Advice: forged,
		Warnings: []fleet.Cause{{Message: forged, Advice: forged}},
		Modules:  []v1beta2.ModuleStatus{{Name: forged, Version: forged, State: forged, Message: forged}},
		Trains:   []comingVersion{{Policy: forged, Position: train.Position{Version: forged}}},
	}
	clitest.CheckForged(t, why.draw)
}

func TestRuntimesCannotForgeLinesOfRollouts(t *testing.T) {
	const forged = clitest.Forged
	r := underWay()
	r.Status.Message = forged
	r.Status.Failures = []v1alpha1.RuntimeFailure{{Runtime: forged, Wave: forged, Reason: forged}}
	clitest.CheckForged(t, func(out io.Writer) { drawRollout(out, r, Noon, cli.NewPalette(out)) })
}

func TestCommandsPrintExternalTextWithPrintf(t *testing.T) {
	for _, pattern := range []string{"*.go", "*/*.go", "../takeover/command/*.go", "../../../skr-agent/internal/command/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: got %d files, error %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") && regexp.MustCompile(`(?m)^\s*fmt\.Fprintf\(`).Match(text) {
				t.Errorf("%s: use cli.Printf instead of fmt.Fprintf, so that arguments cannot add lines", file)
			}
		}
	}
}
