package command

import (
	"flag"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

var update = flag.Bool("update", false, "update the reference pages")

func TestHelpListsFlagValues(t *testing.T) { clitest.CheckValues(t, newProgram("v0")) }

func TestHelpHasNoLongLines(t *testing.T) { clitest.CheckHelpLines(t, newProgram("v0")) }

func TestCommandReferenceIsCurrent(t *testing.T) {
	clitest.CheckReference(t, newProgram("v0"), "../../../docs/reference/cli", *update)
}

func TestCommandsInDocsAreValid(t *testing.T) {
	clitest.CheckPages(t, func() *cobra.Command { return newProgram("v0") }, "../../..")
}

func TestConfigurationReferenceIsCurrent(t *testing.T) {
	clitest.CheckConfiguration(t, func() *cobra.Command { return newProgram("v0") }, "../../../docs", *update)
}
