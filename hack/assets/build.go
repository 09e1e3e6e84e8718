package assets

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// temporaryPrefix is the prefix of the temporary build folders. They are in the cache folder, because a rename is
// atomic only within one file system.
const temporaryPrefix = ".build-"

// build compiles one program in a temporary folder and renames the result, so the cache never contains an incomplete
// program.
func build(ctx context.Context, p program, cache string, progress io.Writer) error {
	source, err := hackDir()
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(cache, temporaryPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	target := filepath.Join(temporary, p.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-s -w"+p.ldflags, "-tags", p.tags,
		"-o", target, p.pkg)
	cmd.Dir = filepath.Join(source, p.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if _, err := runWithProgress(cmd, "assets: building "+p.name+" from its Go module, once", progress); err != nil {
		return err
	}
	return os.Rename(target, filepath.Join(cache, p.name))
}

// hackDir returns the checkout's hack folder.
func hackDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "hack", controlPlane, "go.mod")); err == nil {
			return filepath.Join(dir, "hack"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "",
				errors.New("hack/" + controlPlane +
					"/go.mod not found in any parent of the working directory: run this inside the checkout")
		}
		dir = parent
	}
}
