package bundle

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

var update = flag.Bool("update", false, "write the golden files")

// Existing agents must be able to read bundles from later publishers. If these bytes change, the wire format needs a
// new version.
func TestWireFormatIsUnchanged(t *testing.T) {
	documents := sampleDocuments(t)
	manifest, err := Compose(documents, samplePredicate(), trusttest.NewSigner(t))
	if err != nil {
		t.Fatal(err)
	}
	reported, err := ComposeReport(sampleReport(), trusttest.NewSigner(t))
	if err != nil {
		t.Fatal(err)
	}
	takenOver, err := EncodeDesiredState(takenOverState())
	if err != nil {
		t.Fatal(err)
	}
	reportedTakeover, err := ComposeReport(takenOverReport(), trusttest.NewSigner(t))
	if err != nil {
		t.Fatal(err)
	}
	statement := func(manifest Blob, artifactType, annotation string) []byte {
		read, refused := ReadManifest(Fetched(manifest), artifactType)
		if refused != nil {
			t.Fatal(refused)
		}
		signed, refused := readAttestation([]byte(read.Annotations[annotation]))
		if refused != nil {
			t.Fatal(refused)
		}
		return signed.Envelope.Payload
	}
	for name, got := range map[string][]byte{
		"desired-state.json": documents.State.Bytes, "catalog.json": documents.Catalog.Bytes,
		"statement.json":              statement(manifest, ArtifactTypeBundle, AnnotationAttestation),
		"report.json":                 statement(reported, ArtifactTypeReport, AnnotationReport),
		"desired-state-takeover.json": takenOver,
		"report-takeover.json":        statement(reportedTakeover, ArtifactTypeReport, AnnotationReport),
	} {
		path := filepath.Join("testdata", "golden", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
	}
}
