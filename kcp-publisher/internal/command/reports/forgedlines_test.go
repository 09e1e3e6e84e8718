package reports

import (
	"io"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

func TestLogsAndTreeEscapeTextFromRuntimes(t *testing.T) {
	const forged = clitest.Forged
	report := Report{Time: time.Now(), kyma: &v1beta2.Kyma{}, Modules: []bundle.ReportedModule{{
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
