package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// imageRegistry is a registry that contains one bundle with a large image.
type imageRegistry struct {
	t        *testing.T
	binaries fleet.Binaries
	location string
	keys     string
	dir      string
}

func newDepot(t *testing.T, layers int, layerBytes int64) imageRegistry {
	t.Helper()
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	r, err := registry.Start(t.Context(), registry.Options{})
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	d := imageRegistry{t: t, binaries: binaries, location: r.Host() + "/fleet", dir: t.TempDir()}
	d.keys = d.file("keys")
	d.run(0, binaries.Publisher, "keys", "init", "--keys", d.keys)
	registries, err := store.NewRegistries(store.Access{})
	must(t, err)
	must(t, sample.Cargo{Registries: registries, Prefix: d.location, Keys: d.keys, Runtime: "ship", Layers: layers,
		LayerBytes: layerBytes}.Publish(t.Context()))
	return d
}

func (d imageRegistry) file(name string) string { return filepath.Join(d.dir, name) }

func (d imageRegistry) run(want int, binary string, args ...string) string {
	d.t.Helper()
	return runProgram(d.t, want, binary, args...)
}

func (d imageRegistry) exportArgs(name string, args ...string) []string {
	return append([]string{"export", "ship", "--from", d.location, "--keys", d.keys, "--images", "-o", d.file(name)},
		args...)
}

func (d imageRegistry) importArgs(to string, paths ...string) []string {
	return append([]string{"import", "--to", to, "--trust", filepath.Join(d.keys, "root.json")}, paths...)
}

// runAndKill runs a program and kills it after the given time. It returns true if the program exited earlier.
func (d imageRegistry) runAndKill(after time.Duration, binary string, args ...string) bool {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), after)
	defer cancel()
	output, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if err != nil && ctx.Err() == nil {
		d.t.Fatalf("%v\n%s", err, output)
	}
	return err == nil
}

func TestKilledExportAndImportResume(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := newDepot(t, 6, 4<<20)
	started := time.Now()
	d.run(0, d.binaries.Publisher, d.exportArgs("whole.tar")...)
	exporting := time.Since(started)
	if info, err := os.Stat(d.file("whole.tar")); err != nil || info.Size() < 6*4<<20 {
		t.Fatalf("the export lacks the image that only the rendered chart names: %v, %v", info, err)
	}
	started = time.Now()
	d.run(0, d.binaries.Agent, d.importArgs(store.LayoutScheme+d.file("whole"), d.file("whole.tar"))...)
	importing := time.Since(started)

	t.Run("killed export continues", func(t *testing.T) {
		cuts := 0
		whole, err := os.ReadFile(d.file("whole.tar"))
		must(t, err)
		for range 8 {
			if !d.runAndKill(time.Duration(random.Int64N(int64(exporting)))+time.Millisecond, d.binaries.Publisher,
				d.exportArgs("cut.tar")...) {
				cuts++
			}
			// The export can complete before the signal.
			if cut, err := os.ReadFile(d.file("cut.tar")); err == nil {
				if !bytes.Equal(cut, whole) {
					t.Fatal("an incomplete file has its final name")
				}
				must(t, os.Remove(d.file("cut.tar")))
			}
		}
		d.run(0, d.binaries.Publisher, d.exportArgs("cut.tar")...)
		if cut, err := os.ReadFile(d.file("cut.tar")); err != nil || !bytes.Equal(cut, whole) {
			t.Errorf("the continued export differs from an uninterrupted export: %v", err)
		}
		t.Logf("killed %d times", cuts)
	})
	t.Run("killed import continues", func(t *testing.T) {
		target, cuts := store.LayoutScheme+d.file("cut"), 0
		verify := []string{"verify", target, "--trust", filepath.Join(d.keys, "root.json"), "--runtime", "ship"}
		for range 15 {
			through := d.runAndKill(time.Duration(random.Int64N(int64(importing)))+time.Millisecond, d.binaries.Agent,
				d.importArgs(target, d.file("whole.tar"))...)
			_, code := fleet.Run(t.Context(), d.binaries.Agent, verify...)
			if through && code != 0 {
				t.Fatalf("the import has finished, but the bundle does not verify: exit code %d", code)
			}
			if code == 0 { // the import has written the bundle's tag, so all its blobs must exist
				d.checkAllBlobs("cut")
			}
			if through {
				must(t, os.RemoveAll(d.file("cut")))
			} else {
				cuts++
			}
		}
		d.run(0, d.binaries.Agent, d.importArgs(target, d.file("whole.tar"))...)
		d.run(0, d.binaries.Agent, verify...)
		d.checkAllBlobs("cut")
		if output := d.run(0, d.binaries.Agent, d.importArgs(target, d.file("whole.tar"))...); !strings.Contains(output,
			": 0 blobs and manifests written") {
			t.Errorf("unexpected output of a repeated import:\n%s", output)
		}
		t.Logf("killed %d times", cuts)
	})
}

// checkAllBlobs checks that a folder contains the same blobs as after an uninterrupted import.
func (d imageRegistry) checkAllBlobs(name string) {
	d.t.Helper()
	blobs, err := os.ReadDir(filepath.Join(d.file("whole"), "blobs", "sha256"))
	must(d.t, err)
	for _, blob := range blobs {
		want, err := blob.Info()
		must(d.t, err)
		got, err := os.Stat(filepath.Join(d.file(name), "blobs", "sha256", blob.Name()))
		if err != nil || got.Size() != want.Size() {
			d.t.Fatalf("the bundle is visible but blob %s is missing: %v", blob.Name(), err)
		}
	}
}

func TestExportFileCanBeCompressedAndSplit(t *testing.T) {
	d := newDepot(t, 2, 3<<20)
	d.run(0, d.binaries.Publisher, d.exportArgs("plain.tar")...)
	d.run(0, d.binaries.Agent, d.importArgs(store.LayoutScheme+d.file("whole"), d.file("plain.tar"))...)
	var got struct{ Files []string }
	output := d.run(0, d.binaries.Publisher,
		d.exportArgs("small.tar.zst", "--zstd", "--volume-size", "1M", "--format", "json")...)
	must(t, json.Unmarshal([]byte(output), &got))
	if len(got.Files) < 6 {
		t.Fatalf("export wrote unexpected files %v", got.Files)
	}
	target := store.LayoutScheme + d.file("volumes")
	removeModule := append([]string{}, got.Files[:2]...)
	if output := d.run(3, d.binaries.Agent,
		d.importArgs(target, append(removeModule, got.Files[3:]...)...)...); !strings.Contains(output,
		fmt.Sprintf("volume %s is missing", got.Files[2])) {
		t.Errorf("output does not name the missing volume:\n%s", output)
	}
	d.run(3, d.binaries.Agent, d.importArgs(target, got.Files[:len(got.Files)-1]...)...)
	if _, err := os.Stat(d.file("volumes")); err == nil {
		t.Error("import wrote content although a volume is missing")
	}
	d.run(0, d.binaries.Agent, d.importArgs(target, got.Files...)...)
	d.checkAllBlobs("volumes")
}
