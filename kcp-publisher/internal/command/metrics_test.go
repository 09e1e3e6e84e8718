package command

import (
	"path/filepath"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
)

func TestReferenceListsPublisherMetrics(t *testing.T) {
	clitest.CheckMetrics(t, filepath.Join("..", "..", "..", "docs", "reference", "metrics.md"), "kcp-publisher", *update,
		controller.NewFleetMetrics())
}
