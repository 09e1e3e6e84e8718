package status

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

func TestWhyCommandEscapesTextFromRuntimes(t *testing.T) {
	const forged = clitest.Forged
	why := explanation{
		Runtime: "berlin", State: v1beta2.StateError, Health: fleet.Failing, Cause: forged, Advice: forged,
		Warnings: []fleet.Cause{{Message: forged, Advice: forged}},
		Modules:  []v1beta2.ModuleStatus{{Name: forged, Version: forged, State: forged, Message: forged}},
		Trains:   []comingVersion{{Policy: forged, Position: train.Position{Version: forged}}},
	}
	clitest.CheckForged(t, why.draw)
}
