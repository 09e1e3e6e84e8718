package airgap

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// An importer refuses files with an oversized index, so an export must not write one.
func TestExportWithAnOversizedIndexIsRefused(t *testing.T) {
	layout := sampleLayout(1)
	name := strings.Repeat("r", 1<<10)
	for i := range maxIndexBytes >> 10 {
		layout.References = append(layout.References,
			Reference{Name: name + strconv.Itoa(i), Descriptor: layout.Items[0].Descriptor})
	}
	path := filepath.Join(t.TempDir(), "fleet.tar")
	_, err := Write(t.Context(), path, layout, Packing{}, quiet)
	if err == nil || !strings.Contains(err.Error(), "export fewer runtimes at once") {
		t.Errorf("got error %v, want a hint to export fewer runtimes", err)
	}
}
