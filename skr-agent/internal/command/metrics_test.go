package command

import (
	"path/filepath"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/measure"
)

func TestReferenceOfMetricsIsCurrent(t *testing.T) {
	if err := measure.CheckReference(filepath.Join("..", "..", "..", "docs", "reference", "metrics.md"), "skr-agent",
		*update); err != nil {
		t.Error(err)
	}
}
