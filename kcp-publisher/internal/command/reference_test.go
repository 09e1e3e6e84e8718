package command

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

func TestTheHelpNamesTheValuesOfFlags(t *testing.T) { clitest.CheckValues(t, newProgram("v0")) }

func TestTheReferenceIsCurrent(t *testing.T) {
	clitest.CheckReference(t, newProgram("v0"), "../../../docs/reference/cli", *update)
}
