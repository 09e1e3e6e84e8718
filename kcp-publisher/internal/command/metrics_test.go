package command

import (
	"path/filepath"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/measure"
)

func TestReferenceListsPublisherMetrics(t *testing.T) {
	if err := measure.CheckReference(filepath.Join("..", "..", "..", "docs", "reference", "metrics.md"),
		"kcp-publisher", *update); err != nil {
		t.Error(err)
	}
}
