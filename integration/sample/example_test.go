package sample

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write docs/example")

func TestExampleIsCurrent(t *testing.T) {
	want := t.TempDir()
	if err := WriteArchive(t.Context(), filepath.Join(want, "components"), Scaler("1.7.0"),
		Scaler("1.8.0")); err != nil {
		t.Fatal(err)
	}
	for name, object := range map[string]any{
		"moduletemplate-scaler-1.7.0.yaml": Scaler("1.7.0").Template(),
		"moduletemplate-scaler-1.8.0.yaml": Scaler("1.8.0").Template(),
		"modulereleasemeta-scaler.yaml": Release("scaler", Scaler("").Component(), Channel("regular", "1.7.0"),
			Channel("fast", "1.8.0")),
	} {
		data, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(want, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const have = "../../docs/example"
	if *update {
		if err := os.CopyFS(have, os.DirFS(want)); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(want, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(want, path)
		if err != nil {
			return err
		}
		wanted, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if found, err := os.ReadFile(filepath.Join(have, relative)); err != nil || !bytes.Equal(found, wanted) {
			t.Errorf("docs/example/%s is not current (%v): run go test ./integration/sample -update", relative, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
