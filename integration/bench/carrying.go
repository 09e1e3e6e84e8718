package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	cargoLayers     = 8
	cargoLayerBytes = 128 << 20
	maxImportBytes  = 200 << 20
)

// measureTransfer measures the time to transfer a 1 GiB file across an air gap, and compares it with the time of `cp`.
// It also measures the memory usage of the import.
func measureTransfer(ctx context.Context) ([]result, error) {
	binaries, err := fleet.Build()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kyma-pull-carrying-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	from, err := registry.Start(ctx, registry.Options{Dir: filepath.Join(dir, "from")})
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := registry.Start(ctx, registry.Options{Dir: filepath.Join(dir, "to")})
	if err != nil {
		return nil, err
	}
	defer to.Close()
	keys, file := filepath.Join(dir, "keys"), filepath.Join(dir, "cargo.tar")
	if output, code := fleet.Run(ctx, binaries.Publisher, "keys", "init", "--keys", keys); code != 0 {
		return nil, fmt.Errorf("make keys: %s", output)
	}
	registries, err := store.NewRegistries(store.Access{})
	if err != nil {
		return nil, err
	}
	err = sample.Cargo{
		Registries: registries, Prefix: from.Host() + "/fleet", Keys: keys, Runtime: "ship", Layers: cargoLayers,
		LayerBytes: cargoLayerBytes,
	}.Publish(ctx)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	exported, err := timed(func() error {
		_, err := fleet.PeakMemory(ctx, binaries.Publisher, "export", "ship", "--from", from.Host()+"/fleet", "--keys",
			keys, "--images", "-o", file)
		return err
	})
	if err != nil {
		return nil, err
	}
	copied, err := copying(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("cp: %w", err)
	}
	results := []result{
		{"cp of a file of 1 GiB", copied.Round(10 * time.Millisecond).String(), ""},
		{"export of that file from a registry", withRatio(exported, copied), ""},
	}
	for _, target := range []struct{ name, location string }{
		{"a folder", store.LayoutScheme + filepath.Join(dir, "folder")}, {"a registry", to.Host() + "/ship"},
	} {
		var peak int64
		took, err := timed(func() error {
			var err error
			peak, err = fleet.PeakMemory(ctx, binaries.Agent, "import", file, "--to", target.location, "--trust",
				filepath.Join(keys, "root.json"))
			return err
		})
		if err != nil {
			return nil, err
		}
		results = append(results,
			result{"import into " + target.name, withRatio(took, copied), ""},
			result{
				"memory of the import into " + target.name, fmt.Sprintf("%d MiB", peak>>20),
				fmt.Sprintf("below %d MiB", maxImportBytes>>20),
			})
		if peak >= maxImportBytes {
			return nil, fmt.Errorf("the import into %s took %d MiB of memory", target.name, peak>>20)
		}
	}
	return results, nil
}

// copying copies a file several times with cp and returns the shortest time, because load from other programs can only
// make a copy slower.
func copying(ctx context.Context, file string) (time.Duration, error) {
	fastest := time.Duration(0)
	for range 3 {
		took, err := timed(func() error { return exec.CommandContext(ctx, "cp", file, file+".copy").Run() })
		if err = errors.Join(err, os.Remove(file+".copy")); err != nil {
			return 0, err
		}
		if fastest == 0 || took < fastest {
			fastest = took
		}
	}
	return fastest, nil
}

func timed(do func() error) (time.Duration, error) {
	started := time.Now()
	err := do()
	return time.Since(started), err
}

// withRatio formats a duration and its ratio to another duration.
func withRatio(took, other time.Duration) string {
	return fmt.Sprintf("%s, %.1f times", took.Round(10*time.Millisecond), took.Seconds()/other.Seconds())
}
