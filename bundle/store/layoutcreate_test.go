package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLayoutIsNotCreatedBesideOtherFiles(t *testing.T) {
	for name, c := range map[string]struct {
		files   []string
		refused string
	}{
		"a new folder":                            {nil, ""},
		"a key folder":                            {[]string{"publisher.key", "root.json"}, "publisher.key"},
		"a mounted volume":                        {[]string{"lost+found+", ".snapshot+"}, ""},
		"a layout that lost its marker":           {[]string{"index.json", "README"}, ""},
		"a layout whose creation was interrupted": {[]string{"blobs+", "ingest+", ".index.json-1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range c.files {
				path, isFolder := strings.CutSuffix(filepath.Join(dir, file), "+")
				var err error
				if isFolder {
					err = os.Mkdir(path, 0o700)
				} else {
					err = os.WriteFile(path, []byte(`{"schemaVersion":2,"manifests":[]}`), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			_, err := NewLayout(dir).Repository(t.Context(), "runtimes/berlin")
			if c.refused == "" {
				if err != nil {
					t.Errorf("got error %v, want a layout", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "contains "+filepath.Join(dir, c.refused)) {
				t.Errorf("got error %v, want an error that names %s", err, c.refused)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != len(c.files) {
				t.Errorf("the folder has %d entries, want no new ones", len(entries))
			}
		})
	}
}
