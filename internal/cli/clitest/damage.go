package clitest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// damages maps the kind of damage to a function that damages a file.
var damages = map[string]func(content []byte) []byte{
	"is truncated": func(content []byte) []byte { return content[:len(content)/2] },
	"is empty":     func([]byte) []byte { return nil },
	"is all zeros": func(content []byte) []byte { return make([]byte, len(content)) },
	"has one bit flipped": func(content []byte) []byte {
		content = bytes.Clone(content)
		content[len(content)/2] ^= 0x10
		return content
	},
}

// EachDamage calls the function try in a subtest for each file below dir and each kind of damage, such as a missing or
// truncated file. It restores dir before each subtest.
func EachDamage(t *testing.T, dir string, try func(t *testing.T, path string)) {
	t.Helper()
	saved := t.TempDir()
	must(t, os.CopyFS(saved, os.DirFS(dir)))
	var paths []string
	must(t, filepath.WalkDir(saved, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			name, _ := filepath.Rel(saved, path)
			paths = append(paths, name)
		}
		return err
	}))
	ways := []string{"is missing", "is a folder"}
	for way := range damages {
		ways = append(ways, way)
	}
	slices.Sort(ways)
	for _, name := range paths {
		for _, way := range ways {
			path := filepath.Join(dir, name)
			content, err := os.ReadFile(filepath.Join(saved, name))
			must(t, err)
			if len(content) == 0 && way != "is missing" && way != "is a folder" {
				continue
			}
			must(t, os.RemoveAll(dir))
			must(t, os.CopyFS(dir, os.DirFS(saved)))
			must(t, os.Remove(path))
			if way == "is a folder" {
				must(t, os.Mkdir(path, 0o755))
			} else if damaged, keeps := damages[way]; keeps {
				must(t, os.WriteFile(path, damaged(content), 0o600))
			}
			t.Run(name+" "+way, func(t *testing.T) { try(t, path) })
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
