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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

func TestRuntimesCannotForgeLinesOfCommands(t *testing.T) {
	const forged = "fails\n\x1b[32mforged\x1b[0m line\r\nforged\rforged"
	report := signedReport{Time: time.Now(), kyma: &v1beta2.Kyma{}, Modules: []bundle.ReportedModule{{
		Name: forged, Version: forged, State: v1beta2.StateError, Message: forged,
		Details: &bundle.ModuleDetails{Problem: forged, Failing: []bundle.FailingObject{{
			DetailedObject: bundle.DetailedObject{Kind: forged, Name: forged, State: forged, Message: forged},
			Conditions:     []string{forged}, Events: []string{forged},
			Logs: []bundle.ContainerLog{{Container: forged, Text: forged}},
		}}},
	}}}
	why := explanation{
		Runtime: "berlin", State: v1beta2.StateError, Health: fleet.Failing, Cause: forged, Advice: forged,
		Warnings: []fleet.Cause{{Message: forged, Advice: forged}},
		Modules:  []v1beta2.ModuleStatus{{Name: forged, Version: forged, State: forged, Message: forged}},
		Trains:   []comingVersion{{Policy: forged, Position: train.Position{Version: forged}}},
	}
	rollout := underWay()
	rollout.Status.Message = forged
	rollout.Status.Failures = []v1alpha1.RuntimeFailure{{Runtime: forged, Wave: forged, Reason: forged}}
	for name, show := range map[string]func(io.Writer){
		"logs": func(out io.Writer) { report.drawLogs(out, time.Now()) },
		"tree": func(out io.Writer) { report.drawTree(out, time.Now()) },
		"why":  why.draw,
		"rollout show": func(out io.Writer) {
			drawRollout(out, rollout, noon, cli.NewPalette(out))
		},
	} {
		got := painting(t, "always", show)
		for line := range strings.Lines(got) {
			if regexp.MustCompile(`^(\x1b\[\d+m|\\x1b\[32m|\s)*forged`).MatchString(line) {
				t.Errorf("%s: a runtime added the line %q", name, line)
			}
		}
		if strings.Contains(got, "\x1b[32mforged") {
			t.Errorf("%s: a runtime colored its text: %q", name, got)
		}
	}
}

func TestCommandsPrintExternalTextWithPrintf(t *testing.T) {
	for _, pattern := range []string{"*.go", "../takeover/command/*.go", "../../../skr-agent/internal/command/*.go"} {
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
