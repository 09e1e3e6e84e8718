package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// Repositories of the images that are made here. Nothing serves them: they are loaded into the nodes.
const (
	publisherImage = "kyma-pull.test/kcp-publisher"
	agentImage     = "kyma-pull.test/skr-agent"
	registryImage  = "kyma-pull.test/registry"
	tag            = "test"
)

// image is one to be made: a program of this checkout, alone in a file system.
type image struct {
	name, program string // the program's package, below the checkout, which has the Dockerfile
	version       string
}

func (i image) build(ctx context.Context, checkout string) error {
	context, err := os.MkdirTemp("", "kyma-pull-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(context)
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+i.version, "-o", context+"/", "./"+i.program)
	compile.Dir = checkout
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if _, err := run(ctx, compile); err != nil {
		return fmt.Errorf("compile image %s: %w", i.name, err)
	}
	if _, err := docker(ctx, "build", "--quiet", "--tag", i.name, "--file", filepath.Join(checkout, i.program, "Dockerfile"), context); err != nil {
		return fmt.Errorf("make image %s: %w", i.name, err)
	}
	return nil
}

// buildImages makes all images of a run.
func buildImages(ctx context.Context, checkout string) error {
	images := []image{
		{publisherImage + ":" + tag, "kcp-publisher", tag},
		{agentImage + ":" + tag, "skr-agent", tag},
		{registryImage + ":" + tag, "integration/registry/serve", tag},
	}
	for _, version := range moduleVersions {
		images = append(images, image{samplemodule.Image(version), "integration/samplemodule/operator", version})
	}
	for _, i := range images {
		if err := i.build(ctx, checkout); err != nil {
			return err
		}
	}
	return nil
}

var moduleVersions = []string{samplemodule.VersionGood, samplemodule.VersionBetter, samplemodule.VersionBroken}

// runtimeImages are what pods of a runtime are started from.
func runtimeImages() []string {
	images := []string{agentImage + ":" + tag}
	for _, version := range moduleVersions {
		images = append(images, samplemodule.Image(version))
	}
	return images
}
