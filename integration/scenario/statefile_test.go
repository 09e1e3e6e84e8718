package scenario

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// The registry's owner restores an old bundle between two `publish` runs.
func TestPublishRecordsItsBundleInTheStateFile(t *testing.T) {
	runInQueue(t)
	ctx := t.Context()
	binaries, err := fleet.Build()
	must(t, err)
	r, err := registry.Start(ctx, registry.Options{})
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	dir := t.TempDir()
	keys, from := filepath.Join(dir, "keys"), filepath.Join(dir, "from")
	must(t, os.CopyFS(from, os.DirFS(filepath.Join(checkout, "docs/example"))))
	if output, code := fleet.Run(ctx, binaries.Publisher, "keys", "init", "--keys", keys); code != 0 {
		t.Fatal(output)
	}
	type row struct {
		Runtime, Action, Reason, Registry string
		Modules                           []string
	}
	// publish runs `publish` and returns the result for berlin and the error output.
	publish := func(as *syscall.Credential, more ...string) (berlin row, output string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, binaries.Publisher,
			append([]string{"publish", "--from", from, "--to", r.Host() + "/fleet", "--keys", keys, "-o", "json"},
				more...)...)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &stdout, &stderr, &syscall.SysProcAttr{Credential: as}
		if err := cmd.Run(); err != nil {
			t.Fatalf("publish: %v\n%s", err, stderr.String())
		}
		var rows []row
		must(t, json.Unmarshal(stdout.Bytes(), &rows))
		if rows[0].Runtime != "berlin" {
			t.Fatalf("got %s in the first row, want berlin", rows[0].Runtime)
		}
		return rows[0], stderr.String()
	}
	registries, err := store.NewRegistries(store.Access{NoRetry: true})
	must(t, err)
	repository, err := registries.Repository(r.Host() + "/fleet/" + bundle.DesiredRepository("berlin"))
	must(t, err)
	release := func(from, to string) {
		t.Helper()
		path := filepath.Join(dir, "from", "modulereleasemeta-scaler.yaml")
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path,
			[]byte(strings.Replace(string(data), "channel: regular\n    version: "+from,
				"channel: regular\n    version: "+to, 1)), 0o600))
	}

	state := filepath.Join(dir, "state.json")
	if _, output := publish(nil, "--state", state); !strings.Contains(output,
		"state file "+state+" is new: the bundles of earlier runs are unknown") {
		t.Errorf("first run: output does not report the missing state:\n%s", output)
	}
	old, err := store.Fetch(ctx, repository, bundle.TagDesired)
	must(t, err)
	release("1.7.0", "1.8.0")
	if berlin, output := publish(nil, "--state", state); berlin.Action != "pushed" ||
		berlin.Reason != "ContentChanged" ||
		berlin.Registry != "" || strings.Contains(output, "remembered") {
		t.Errorf("second run: unexpected outcome %+v\n%s", berlin, output)
	}
	must(t, store.PushManifest(ctx, repository, bundle.NewBlob(ocispec.MediaTypeImageManifest, old.Bytes),
		bundle.TagDesired))
	berlin, _ := publish(nil, "--state", state)
	if berlin.Action != "pushed" || berlin.Reason != "RegistryDiffers" ||
		!strings.HasPrefix(berlin.Registry, "BundleReplayed: the registry has the older bundle") {
		t.Errorf("run after the replay: unexpected outcome %+v", berlin)
	}
	if len(berlin.Modules) != 1 || berlin.Modules[0] != "scaler@1.8.0" {
		t.Errorf("unexpected published modules %v", berlin.Modules)
	}
	if berlin, _ := publish(nil, "--state", state); berlin.Action != "unchanged" || berlin.Registry != "" {
		t.Errorf("next run: unexpected outcome %+v", berlin)
	}
	t.Run("lower version in the files does not downgrade", func(t *testing.T) {
		release("1.8.0", "1.7.0")
		if berlin, _ := publish(nil, "--state", state, "--allow-unresolved"); len(berlin.Modules) != 1 ||
			berlin.Modules[0] != "scaler@1.8.0" {
			t.Errorf("unexpected published modules %v", berlin.Modules)
		}
	})
	t.Run("read-only folder is reported", func(t *testing.T) {
		as := readOnly(t, keys)
		if _, output := publish(as, "--allow-unresolved"); !strings.Contains(output,
			"published bundles are not recorded") ||
			!strings.Contains(output, "set --state to a writable file") {
			t.Errorf("unexpected output with a read-only folder:\n%s", output)
		}
	})
}

// readOnly makes a folder read-only. If the test runs as root, it returns an unprivileged user, who must run the
// program.
func readOnly(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	must(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	if os.Geteuid() != 0 {
		return nil
	}
	const nobody = 65534
	// The unprivileged user must be able to enter the test folders' parent.
	must(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o711))
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, file := range files {
		must(t, os.Chown(filepath.Join(dir, file.Name()), nobody, nobody))
	}
	must(t, filepath.WalkDir(filepath.Join(filepath.Dir(dir), "from"),
		func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Chown(path, nobody, nobody)
		}))
	return &syscall.Credential{Uid: nobody, Gid: nobody}
}
