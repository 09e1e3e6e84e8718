package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
	publishcommand "github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

func repeated(t *testing.T, disk clitest.Disk, args ...string) (enough bool) {
	t.Helper()
	args = append([]string{}, args...)
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "DISK", disk.Dir)
	}
	o := run(args...)
	if o.code == cli.ExitDone {
		return true
	}
	output := o.out + o.err
	for _, want := range []string{"no space left on device", disk.Dir} {
		if !strings.Contains(output, want) {
			t.Errorf("the error does not contain %q: %s", want, output)
		}
	}
	if strings.Contains(o.err, "no space left") && !strings.Contains(o.err, "hint: free space") {
		t.Errorf("the error does not contain the hint to free space: %s", o.err)
	}
	disk.Grow()
	mustRun(t, args...)
	return false
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			found[name] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func same(t *testing.T, got, want string) {
	t.Helper()
	a, b := files(t, got), files(t, want)
	for name := range b {
		if a[name] != b[name] {
			t.Errorf("%s differs or is missing: got %d bytes, want %d", name, len(a[name]), len(b[name]))
		}
		delete(a, name)
	}
	for name := range a {
		t.Errorf("unexpected file %s", name)
	}
}

func TestComponentCreateCanBeRepeatedAfterDiskFull(t *testing.T) {
	module, signing := t.TempDir(), ""
	write(t, filepath.Join(module, "mailer.yaml"), mailerYAML)
	signing, _ = rsaKey(t)
	for _, file := range []string{"folder", "file.tar", "file.tgz"} {
		create := func(dir string) []string {
			return []string{
				"component", "create", "example.org/module/mailer:1.2.3", "--from", module, "--to",
				"ctf:" + filepath.Join(dir, file), "--sign", signing,
				"--module-template", filepath.Join(dir, "template.yaml"),
			}
		}
		undisturbed := t.TempDir()
		mustRun(t, create(undisturbed)...)
		t.Run(file, func(t *testing.T) {
			clitest.EachShortage(t, nil, func(t *testing.T, disk clitest.Disk) bool {
				enough := repeated(t, disk, create("DISK")...)
				same(t, disk.Dir, undisturbed)
				return enough
			})
		})
	}
}

func TestKeysCommandsCanBeRepeatedAfterDiskFull(t *testing.T) {
	for command, c := range map[string]struct {
		before  bool
		version int64
	}{"init": {false, 1}, "rotate publisher": {true, 2}, "rotate token": {true, 1}} {
		args := append(append([]string{"keys"}, strings.Fields(command)...), "--keys", "DISK/keys")
		t.Run(command, func(t *testing.T) {
			clitest.EachShortage(t, func(dir string) {
				if c.before {
					mustRun(t, "keys", "init", "--keys", filepath.Join(dir, "keys"))
				}
			}, func(t *testing.T, disk clitest.Disk) bool {
				enough := repeated(t, disk, args...)
				folder := keys.Folder{Dir: filepath.Join(disk.Dir, "keys")}
				loaded, err := folder.Load(t.Context())
				if err != nil || loaded.Root.Version != c.version {
					t.Errorf("root version %d, want %d: %v", loaded.Root.Version, c.version, err)
				}
				for name := range files(t, folder.Dir) {
					if strings.HasPrefix(name, ".staged") {
						t.Errorf("unexpected file %s", name)
					}
				}
				return enough
			})
		})
	}
}

func TestPublishCanBeRepeatedAfterDiskFull(t *testing.T) {
	from := fleetFolder(t)
	var want []publishcommand.Result
	undisturbed := filepath.Join(t.TempDir(), "layout")
	want = publishTo(t, from, undisturbed, keyFolder(t))
	publish := []string{
		"publish", "--from", from, "--to", "oci-layout:DISK/layout", "--keys", "DISK/keys", "--component-cache",
		"DISK/cache", "--allow-unresolved",
	}
	clitest.EachShortage(t, func(dir string) { mustRun(t, "keys", "init", "--keys", filepath.Join(dir, "keys")) },
		func(t *testing.T, disk clitest.Disk) bool {
			enough := repeated(t, disk, publish...)
			layout, keys := filepath.Join(disk.Dir, "layout"), filepath.Join(disk.Dir, "keys")
			rows := publishTo(t, from, layout, keys)
			for i, row := range rows {
				if row.Action != "unchanged" || strings.Join(row.Modules, " ") != strings.Join(want[i].Modules, " ") {
					t.Errorf("got %+v, want the modules %v", row, want[i].Modules)
				}
			}
			intact(t, layout)
			return enough
		})
}

func intact(t *testing.T, layout string) {
	t.Helper()
	all := files(t, layout)
	var index struct {
		Manifests []struct{ Digest string } `json:"manifests"`
	}
	if err := json.Unmarshal([]byte(all["index.json"]), &index); err != nil {
		t.Error(err)
	}
	for _, m := range index.Manifests {
		if _, there := all["blobs/"+strings.Replace(m.Digest, ":", "/", 1)]; !there {
			t.Errorf("manifest %s is listed but missing", m.Digest)
		}
	}
	for name, content := range all {
		if hash, is := strings.CutPrefix(name, "blobs/sha256/"); is && sha256Of(content) != hash {
			t.Errorf("%s does not match its digest: %d bytes", name, len(content))
		}
	}
}

func sha256Of(text string) string { return digest.FromString(text).Encoded() }

func TestExportCanBeRepeatedAfterDiskFull(t *testing.T) {
	keyDir, layout := keyFolder(t), filepath.Join(t.TempDir(), "layout")
	publishTo(t, fleetFolder(t), layout, keyDir)
	for name, flags := range map[string][]string{"one file": nil, "volumes": {"--volume-size", "8K"},
		"compressed file": {"--zstd"}} {
		t.Run(name, func(t *testing.T) {
			export := func(dir string) []string {
				return append([]string{"export", "r-1", "r-2", "--from", "oci-layout:" + layout, "--keys", keyDir, "-o",
					filepath.Join(dir, "fleet.tar")}, flags...)
			}
			undisturbed := t.TempDir()
			mustRun(t, export(undisturbed)...)
			clitest.EachShortage(t, nil, func(t *testing.T, disk clitest.Disk) bool {
				enough := repeated(t, disk, export("DISK")...)
				same(t, disk.Dir, undisturbed)
				return enough
			})
		})
	}
}
