package command

import (
	"path/filepath"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

func TestMetricsReferenceIsCurrent(t *testing.T) {
	clitest.CheckMetrics(t, filepath.Join("..", "..", "..", "docs", "reference", "metrics.md"), "skr-agent", *update)
}
