package command

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/measure"
)

var update = flag.Bool("update", false, "write the program's part of docs/reference/metrics.md")

func TestTheReferenceListsTheMetricsOfThePublisher(t *testing.T) {
	if err := measure.CheckReference(filepath.Join("..", "..", "..", "docs", "reference", "metrics.md"), "kcp-publisher", *update); err != nil {
		t.Error(err)
	}
}
