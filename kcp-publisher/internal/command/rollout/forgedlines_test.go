package rollout

import (
	"io"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

func TestRolloutCommandsEscapeTextFromRuntimes(t *testing.T) {
	const forged = clitest.Forged
	r := underWay()
	r.Status.Message = forged
	r.Status.Failures = []v1alpha1.RuntimeFailure{{Runtime: forged, Wave: forged, Reason: forged}}
	clitest.CheckForged(t, func(out io.Writer) { drawRollout(out, r, noon, cli.NewPalette(out)) })
}
