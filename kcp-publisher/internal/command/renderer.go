package command

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

// renderingFlags select the renderer that finds the images of modules.
type renderingFlags struct{ renderer, kubernetes string }

// noRenderer disables rendering.
const noRenderer = "none"

// when starts the help texts with the condition for the flags.
func (f *renderingFlags) add(flags *pflag.FlagSet, when string) {
	flags.StringVar(
		&f.renderer,
		"renderer",
		"",
		when+"path of the skr-agent program that renders modules to find their images; default: skr-agent "+
			"next to this program or in $PATH; none uses only the images that modules list",
	)
	flags.StringVar(&f.kubernetes, "kubernetes-version", "",
		when+"Kubernetes version to render charts for, such as v1.36.3; default: the version that each runtime "+
			"reported")
}

// rendering returns the function that renders modules, or nil without a renderer.
func (f *renderingFlags) rendering() (export.Rendering, error) {
	if f.renderer == noRenderer {
		return nil, nil
	}
	if f.renderer != "" {
		program, err := exec.LookPath(f.renderer)
		return export.Renderer{Program: program}.Images, err
	}
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), "skr-agent")); err == nil {
			return export.Renderer{Program: beside}.Images, nil
		}
	}
	if program, err := exec.LookPath("skr-agent"); err == nil {
		return export.Renderer{Program: program}.Images, nil
	}
	return nil, nil
}
