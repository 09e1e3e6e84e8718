package command

import (
	"flag"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

var update = flag.Bool("update", false, "write the reference anew")

func TestTheHelpNamesTheValuesOfFlags(t *testing.T) { clitest.CheckValues(t, newProgram("v0")) }

func TestTheReferenceIsCurrent(t *testing.T) {
	clitest.CheckReference(t, newProgram("v0"), "../../../docs/reference/cli", *update)
}
