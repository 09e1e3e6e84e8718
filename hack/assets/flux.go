package assets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// fluxModules is the folder in hack/ whose go.mod pins Flux's controllers.
const fluxModules = "flux"

// Flux contains the Flux controllers and CRDs that the agent is compared with.
type Flux struct {
	SourceController, KustomizeController string
	// CRDs contains the folders with the controllers' CRDs.
	CRDs []string
	// Versions lists the controllers with their versions.
	Versions string
}

// fluxModule is the Go module of a Flux controller, in the format of `go mod download -json`.
type fluxModule struct {
	Path, Version, Dir string
	Error              string
}

// EnsureFlux returns Flux's controllers. It builds missing ones.
func EnsureFlux(ctx context.Context, progress io.Writer) (Flux, error) {
	source, err := hackDir()
	if err != nil {
		return Flux{}, err
	}
	modules, err := downloadFlux(ctx, filepath.Join(source, fluxModules), "github.com/fluxcd/source-controller",
		"github.com/fluxcd/kustomize-controller")
	if err != nil {
		return Flux{}, err
	}
	var found Flux
	paths := []*string{&found.SourceController, &found.KustomizeController}
	var versions []string
	for i, m := range modules {
		name := filepath.Base(m.Path)
		if *paths[i], err = ensureController(ctx, m, name, progress); err != nil {
			return Flux{}, fmt.Errorf("build %s %s: %w", name, m.Version, err)
		}
		found.CRDs = append(found.CRDs, filepath.Join(m.Dir, "config", "crd", "bases"))
		versions = append(versions, name+" "+m.Version)
	}
	found.Versions = strings.Join(versions, ", ")
	return found, nil
}

// downloadFlux downloads the modules in the versions that go.mod pins.
func downloadFlux(ctx context.Context, dir string, paths ...string) ([]fluxModule, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"mod", "download", "-json"}, paths...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	output, err := cmd.Output()
	found := map[string]fluxModule{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var m fluxModule
		if failed := decoder.Decode(&m); errors.Is(failed, io.EOF) {
			break
		} else if failed != nil {
			return nil, errors.Join(err, failed)
		}
		if m.Error != "" {
			return nil, fmt.Errorf("download %s: %s", m.Path, m.Error)
		}
		found[m.Path] = m
	}
	if err != nil {
		return nil, fmt.Errorf("download Flux's controllers: %w", err)
	}
	var modules []fluxModule
	for _, path := range paths {
		if found[path].Dir == "" {
			return nil, fmt.Errorf("download %s: go mod download returned no folder for it", path)
		}
		modules = append(modules, found[path])
	}
	return modules, nil
}

func ensureController(ctx context.Context, m fluxModule, name string, progress io.Writer) (string, error) {
	return ensureOne(ctx, program{name: name, module: fluxModules, pkg: m.Path}, "flux-"+name+"-"+m.Version, progress)
}

// ensureOne returns the path of a program in a cache folder for only this program. It builds the program if it is
// missing.
func ensureOne(ctx context.Context, p program, folder string, progress io.Writer) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder: %w", err)
	}
	cache := filepath.Join(base, "kyma-pull", fmt.Sprintf("%s-%s-%s", folder, runtime.GOOS, runtime.GOARCH))
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("create the cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"), progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := sweep(cache); err != nil {
		return "", err
	}
	if path := find(p.name, cache); path != "" {
		return path, nil
	}
	return filepath.Join(cache, p.name), build(ctx, p, cache, progress)
}
