package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

// renderingFlags select the renderer that finds the images of modules.
type renderingFlags struct{ renderer, kubernetes string }

// noRenderer disables rendering.
const noRenderer = "none"

// add adds the flags of the renderer. when is the start of their help texts, such as "with --images: ".
func (f *renderingFlags) add(flags *pflag.FlagSet, when string) {
	flags.StringVar(
		&f.renderer,
		"renderer",
		"",
		when+"path to the skr-agent program that renders modules to find their images; default: skr-agent "+
			"next to this program or in $PATH; none uses only the images that modules list",
	)
	flags.StringVar(&f.kubernetes, "kubernetes-version", "",
		when+"Kubernetes version to render charts for, such as v1.36.3; default: the version that each runtime "+
			"reported")
}

// newRendering returns the function that renders modules with a program, or nil if program is empty.
func newRendering(program string) export.Rendering {
	if program == "" {
		return nil
	}
	return export.Renderer{Program: program}.Images
}

// program returns the path of the renderer, or "" without a renderer.
func (f *renderingFlags) program() (string, error) {
	if f.renderer == noRenderer {
		return "", nil
	}
	if f.renderer != "" {
		return exec.LookPath(f.renderer)
	}
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), "skr-agent")); err == nil {
			return beside, nil
		}
	}
	if program, err := exec.LookPath("skr-agent"); err == nil {
		return program, nil
	}
	return "", nil
}

// usedCache returns the cache of rendered images in dir. Its entries are valid only for this renderer program: the size
// and modification time of the file identify the program.
func usedCache(program, dir string) export.UsedCache {
	if program == "" || dir == "" {
		return export.UsedCache{}
	}
	info, err := os.Stat(program)
	if err != nil {
		return export.UsedCache{}
	}
	renderer := fmt.Sprintf("%s %d %s", program, info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano))
	return export.UsedCache{Dir: dir, Renderer: renderer}
}

// userCache and noCache are values of a flag for a cache folder, instead of a path.
const userCache, noCache = "user", "none"

// cacheDir returns the folder for the cache of rendered images, or "" without a cache.
func cacheDir(flag string) string {
	switch flag {
	case noCache:
		return ""
	case userCache:
		dir, err := os.UserCacheDir()
		if err != nil {
			return "" // the user has no home folder
		}
		return filepath.Join(dir, "kyma-pull", "images")
	}
	return flag
}
