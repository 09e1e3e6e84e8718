package command

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
	publishcommand "github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

func stopped(t *testing.T, path string, args ...string) (failed bool) {
	t.Helper()
	o := run(args...)
	if o.code == cli.ExitDone {
		return false
	}
	output := o.out + o.err
	if !strings.Contains(output, path) && !strings.Contains(output, filepath.Base(path)) {
		t.Errorf("the error does not name %s: %s", path, output)
	}
	if !strings.Contains(output, "backup") && !strings.Contains(output, "restore the file") &&
		!strings.Contains(output, "move it away") && !strings.Contains(output, "is a directory") &&
		!strings.Contains(output, "not empty") {
		t.Errorf("the error does not name a fix: %s", output)
	}
	return true
}

func TestDamagedLayoutFileIsRewrittenOrReported(t *testing.T) {
	from, keyDir, layout := fleetFolder(t), keyFolder(t), filepath.Join(t.TempDir(), "layout")
	want := publishTo(t, from, layout, keyDir)
	args := []string{"publish", "--from", from, "--to", "oci-layout:" + layout, "--keys", keyDir, "--allow-unresolved"}
	memory := filepath.Join(keyDir, "published.json")
	remembered := read(t, memory)
	clitest.EachDamage(t, layout, func(t *testing.T, path string) {
		write(t, memory, remembered)
		if stopped(t, path, args...) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			mustRun(t, args...)
		}
		for i, row := range publishTo(t, from, layout, keyDir) {
			if row.Action != "unchanged" || row.Sequence < want[i].Sequence ||
				strings.Join(row.Modules, " ") != strings.Join(want[i].Modules, " ") {
				t.Errorf("got %+v, want %+v", row, want[i])
			}
		}
		intact(t, layout)
	})
}

func TestDamagedKeyFileIsReported(t *testing.T) {
	keyDir := keyFolder(t)
	mustRun(t, "keys", "rotate", "publisher", "--keys", keyDir)
	from, layout := fleetFolder(t), filepath.Join(t.TempDir(), "layout")
	publishTo(t, from, layout, keyDir)
	args := []string{"publish", "--from", from, "--to", "oci-layout:" + layout, "--keys", keyDir, "--allow-unresolved"}
	clitest.EachDamage(t, keyDir, func(t *testing.T, path string) {
		before := read(t, filepath.Join(layout, "index.json"))
		o := run(args...)
		_, err := os.Stat(path)
		switch name := filepath.Base(path); {
		case o.code == cli.ExitDone: // publish does not require this file
			// Only the private half of a key signs, so a flipped bit in the public half has no effect.
			if name == keys.FileRoot || name == keys.FilePublisherKey && !strings.Contains(t.Name(), "bit") {
				t.Errorf("publish succeeded although %s is damaged", name)
			}
		case !strings.Contains(o.err, name):
			t.Errorf("the error does not name %s: %s", name, o.err)
		case !errors.Is(err, fs.ErrNotExist) && read(t, filepath.Join(layout, "index.json")) != before:
			t.Error("a failed publish changed the layout")
		}
	})
}

func TestDamagedCacheFileIsFetchedAgainOrReported(t *testing.T) {
	from, keyDir, cache, layout := fleetFolder(t), keyFolder(t), filepath.Join(t.TempDir(), "cache"),
		filepath.Join(t.TempDir(), "layout")
	args := []string{
		"publish", "--from", from, "--to", "oci-layout:" + layout, "--keys", keyDir, "--allow-unresolved",
		"--component-cache", cache, "-o", "json",
	}
	mustRun(t, args...)
	clitest.EachDamage(t, cache, func(t *testing.T, path string) {
		if stopped(t, path, args...) {
			if filepath.Base(filepath.Dir(path)) != "pins" {
				t.Errorf("publish failed because of %s, although it can fetch the component again", path)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
		var rows []publishcommand.Result
		if err := json.Unmarshal([]byte(mustRun(t, args...)), &rows); err != nil || len(rows) != 2 ||
			rows[0].Action != "unchanged" {
			t.Errorf("got bundles %+v, %v, want two unchanged ones", rows, err)
		}
	})
}
