package flagset

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

// RenderingFlags select the renderer that finds the images of modules.
type RenderingFlags struct{ renderer, Kubernetes string }

// noRenderer disables rendering.
const noRenderer = "none"

// Add adds the renderer's flags. The parameter when is a prefix for each help text, such as "with --images: ".
func (f *RenderingFlags) Add(flags *pflag.FlagSet, when string) {
	flags.StringVar(
		&f.renderer,
		"renderer",
		"",
		when+"path to an skr-agent program that renders modules to find their images; default: this program; none "+
			"uses only the images that modules list",
	)
	flags.StringVar(&f.Kubernetes, "kubernetes-version", "",
		when+"Kubernetes version to render charts for, such as v1.36.3; default: the version that each runtime "+
			"reported")
}

// NewRendering returns the function that renders modules with a program, or nil if program is empty.
func NewRendering(program string) export.Rendering {
	if program == "" {
		return nil
	}
	return export.Renderer{Program: program}.Images
}

// Program returns the path of the renderer, or "" without a renderer.
func (f *RenderingFlags) Program() (string, error) {
	if f.renderer == noRenderer {
		return "", nil
	}
	if f.renderer != "" {
		return exec.LookPath(f.renderer)
	}
	return os.Executable()
}

// UsedCache returns the cache of rendered images in dir. Its entries are valid only for this renderer program, which is
// identified by the size and modification time of its file.
func UsedCache(program, dir string) export.UsedCache {
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

// UserCache and noCache are special values of a flag for a cache folder.
const UserCache, noCache = "user", "none"

// CacheDir returns the folder for the cache of rendered images, or "" without a cache.
func CacheDir(flag string) string {
	switch flag {
	case noCache:
		return ""
	case UserCache:
		dir, err := os.UserCacheDir()
		if err != nil {
			return "" // the user has no home folder
		}
		return filepath.Join(dir, "kyma-pull", "images")
	}
	return flag
}

// UnconfinedWarning returns a warning if the operating system cannot limit the memory of the renderer, and ""
// otherwise.
func UnconfinedWarning(system string) string {
	if system == "linux" {
		return ""
	}
	return "modules are rendered without a memory limit, because only Linux confines the renderer: export " +
		"untrusted modules on Linux or with --renderer=none"
}
