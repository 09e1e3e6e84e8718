package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

const checkout = "../.."

func TestPublishingAFolderTwicePushesOnce(t *testing.T) {
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	r, err := registry.Start(t.Context(), registry.Options{TLS: true, Users: map[string]string{"kcp": "secret"}})
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	access := []string{
		"--registry-ca", write("ca.pem", r.CA()), "--registry-config",
		write("config.json", []byte(`{"auths":{"`+r.Host()+`":{"auth":"a2NwOnNlY3JldA=="}}}`)),
	}
	keys := filepath.Join(dir, "keys")
	run := func(want int, binary string, args ...string) string {
		t.Helper()
		output, code := fleet.Run(t.Context(), binary, args...)
		if code != want {
			t.Fatalf("%s %v: exit code %d, want %d\n%s", filepath.Base(binary), args, code, want, output)
		}
		return output
	}
	run(0, binaries.Publisher, "keys", "init", "--keys", keys)
	run(1, binaries.Publisher, "keys", "init", "--keys", keys)
	publish := append([]string{"publish", "--from", filepath.Join(checkout, "docs/example"), "--to",
		r.Host() + "/fleet", "--keys", keys, "-o", "json"}, access...)
	type row struct{ Runtime, Action, Digest, Registry string }
	// published runs the publish command and returns its outputs.
	published := func(more ...string) (rows []row, output string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), binaries.Publisher, append(publish, more...)...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("publish: %v\n%s", err, stderr.String())
		}
		must(t, json.Unmarshal(stdout.Bytes(), &rows))
		return rows, stderr.String()
	}
	rows, output := published()
	if !strings.Contains(output, "published.json is new: the bundles of earlier runs are unknown") {
		t.Errorf("first run: output does not name the state file:\n%s", output)
	}
	if len(rows) != 2 || rows[0].Action != "pushed" || rows[1].Action != "pushed" {
		t.Errorf("first run: unexpected rows %+v", rows)
	}
	writes := r.Traffic().Writes()
	if rows, output = published(); strings.Contains(output, "state file") {
		t.Errorf("second run: unexpected output: %s", output)
	}
	if rows[0].Action != "unchanged" || rows[1].Action != "unchanged" || r.Traffic().Writes() != writes {
		t.Errorf("second run: got rows %+v and %d registry writes, want no writes", rows, r.Traffic().Writes()-writes)
	}
	verify := func(want int, ref, runtime string) string {
		t.Helper()
		return run(want, binaries.Agent,
			append([]string{"verify", ref, "--trust", filepath.Join(keys, "root.json"), "--runtime", runtime},
				access...)...)
	}
	for _, ref := range []string{r.Host() + "/fleet", r.Host() + "/fleet/runtimes/berlin:desired",
		r.Host() + "/fleet/runtimes/berlin@" + rows[0].Digest} {
		if output := verify(0, ref, "berlin"); !strings.Contains(output, "scaler 1.7.0") {
			t.Errorf("unexpected output about %s:\n%s", ref, output)
		}
	}
	if output := verify(3, r.Host()+"/fleet/runtimes/berlin:desired", "tokyo"); !strings.Contains(output,
		"WrongRuntime") {
		t.Errorf("output does not name the wrong runtime:\n%s", output)
	}
	verify(1, r.Host()+"/fleet", "nobody")
	run(2, binaries.Agent, "verify")
	run(2, binaries.Publisher, "publish", "--no-such-flag")
}

// The test runs those commands in the README that do not need Kubernetes.
func TestReadmeCommandsWork(t *testing.T) {
	runInQueue(t)
	readme, err := os.ReadFile(filepath.Join(checkout, "README.md"))
	must(t, err)
	block := regexp.MustCompile("(?s)```sh\nmake build\n(.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("README.md has no commands for use without Kubernetes")
	}
	binaries, err := fleet.Build()
	must(t, err)
	dir := t.TempDir()
	for _, folder := range []string{"docs/example", "docs/example-chart"} {
		must(t, os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join(checkout, folder))))
	}
	must(t, os.Symlink(filepath.Dir(binaries.Agent), filepath.Join(dir, "bin")))
	script := strings.ReplaceAll(string(block[1]), "/tmp/fleet", filepath.Join(dir, "fleet"))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-e", "-c", script)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "accepted") ||
		!strings.Contains(string(output), "scaler 1.7.0") {
		t.Errorf("%v\n%s", err, output)
	}
}

// The test runs each tutorial that does not need Kubernetes in an empty folder.
func TestTutorialCommandsWork(t *testing.T) {
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	for tutorial, wants := range map[string][]string{
		"first-fleet.md":   {"accepted", "would-push", "scaler@1.8.0", "unchanged"},
		"first-module.md":  {"complies with the policy", "greeter@1.0.0, scaler@1.7.0", "module     greeter 1.0.0"},
		"first-air-gap.md": {"berlin.tar: ", "accepted", "refused with exit code 3"},
	} {
		page, err := os.ReadFile(filepath.Join(checkout, "docs/tutorials", tutorial))
		must(t, err)
		var script strings.Builder
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1) {
			// The programs are already built, and the demo has its own test.
			if !strings.HasPrefix(string(block[1]), "make ") {
				script.Write(block[1])
			}
		}
		dir := t.TempDir()
		must(t, os.CopyFS(filepath.Join(dir, "docs/example"), os.DirFS(filepath.Join(checkout, "docs/example"))))
		must(t, os.Symlink(filepath.Dir(binaries.Agent), filepath.Join(dir, "bin")))
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script.String())
		cmd.Dir = dir
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", tutorial, err, output)
		}
		for _, want := range wants {
			if !strings.Contains(string(output), want) {
				t.Errorf("%s: output does not contain %q:\n%s", tutorial, want, output)
			}
		}
	}
}
