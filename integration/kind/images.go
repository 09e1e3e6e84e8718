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
	hostOfImages   = "kyma-pull.test"
	publisherImage = hostOfImages + "/kcp-publisher"
	agentImage     = hostOfImages + "/skr-agent"
	registryImage  = hostOfImages + "/registry"
	tag            = "test"
)

// image is one to be made: a program of this checkout, alone in a file system.
type image struct {
	repository, name, version string
	program                   string // its package, below the checkout
}

func (i image) reference() string { return i.repository + "/" + i.name + ":" + i.version }

// build makes the image as `make images` does, and gives it to Docker.
func (i image) build(ctx context.Context, checkout string) error {
	dir, err := os.MkdirTemp("", "kyma-pull-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, i.name)
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+i.version, "-o", program, "./"+i.program)
	pack := exec.CommandContext(ctx, "go", "run", "./hack/images", "-repository", i.repository, "-version", i.version, "-output", dir, program)
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	for _, cmd := range []*exec.Cmd{compile, pack} {
		cmd.Dir = checkout
		if _, err := run(ctx, cmd); err != nil {
			return fmt.Errorf("make image %s: %w", i.reference(), err)
		}
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return err
	}
	if len(archives) != 1 {
		return fmt.Errorf("make image %s: hack/images gave archives %v", i.reference(), archives)
	}
	_, err = docker(ctx, "load", "--quiet", "--input", archives[0])
	return err
}

// buildImages makes all images of a run.
func buildImages(ctx context.Context, checkout string) error {
	images := []image{
		{hostOfImages, "kcp-publisher", tag, "kcp-publisher"},
		{hostOfImages, "skr-agent", tag, "skr-agent"},
		{hostOfImages, "registry", tag, "integration/registry/serve"},
	}
	for _, version := range moduleVersions {
		images = append(images, image{samplemodule.ImageRepository, samplemodule.Operator, version, "integration/samplemodule/operator"})
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
