package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// Images that are made here. Nothing serves them: they are loaded into the nodes.
const (
	repository     = "kyma-pull.test"
	tag            = "test"
	publisherImage = repository + "/kcp-publisher"
	agentImage     = repository + "/skr-agent"
	registryImage  = repository + "/registry"
	// DialerImage has a program for pods that try out NetworkPolicies.
	DialerImage = repository + "/dialer:" + tag
)

var moduleVersions = []string{samplemodule.VersionGood, samplemodule.VersionBetter, samplemodule.VersionBroken}

// buildImages makes all images of a run as `make images` does, and gives them to Docker.
func buildImages(ctx context.Context, checkout string) error {
	dir, err := os.MkdirTemp("", "kyma-pull-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// At once, for most of what they are made of is the same.
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+tag, "-o", dir+"/",
		"./kcp-publisher", "./skr-agent", "./integration/registry/serve", "./integration/samplemodule/operator", "./integration/kind/dialer")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	packer := filepath.Join(dir, "pack")
	for _, cmd := range []*exec.Cmd{compile, exec.CommandContext(ctx, "go", "build", "-o", packer, "./hack/images")} {
		cmd.Dir = checkout
		if _, err := run(ctx, cmd); err != nil {
			return fmt.Errorf("compile the images' programs: %w", err)
		}
	}
	// An image is named like its program.
	registry, operator := filepath.Join(dir, "registry"), filepath.Join(dir, samplemodule.Operator)
	if err := os.Rename(filepath.Join(dir, "serve"), registry); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "operator"), operator); err != nil {
		return err
	}
	programs := []string{filepath.Join(dir, "kcp-publisher"), filepath.Join(dir, "skr-agent"), filepath.Join(dir, "dialer"), registry}
	if err := pack(ctx, packer, repository, tag, programs...); err != nil {
		return err
	}
	for _, version := range moduleVersions {
		if err := pack(ctx, packer, samplemodule.ImageRepository, version, operator); err != nil {
			return err
		}
	}
	return nil
}

// pack makes images of programs and gives them to Docker.
func pack(ctx context.Context, packer, repository, version string, programs ...string) error {
	dir, err := os.MkdirTemp(filepath.Dir(packer), "archives-")
	if err != nil {
		return err
	}
	args := append([]string{"-repository", repository, "-version", version, "-output", dir}, programs...)
	if _, err := run(ctx, exec.CommandContext(ctx, packer, args...)); err != nil {
		return fmt.Errorf("make images: %w", err)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return err
	}
	if len(archives) != len(programs) {
		return fmt.Errorf("make images: %d archives of %d programs", len(archives), len(programs))
	}
	for _, archive := range archives {
		if _, err := docker(ctx, "load", "--quiet", "--input", archive); err != nil {
			return err
		}
	}
	return nil
}

// runtimeImages are what pods of a runtime are started from.
func runtimeImages() []string {
	images := []string{agentImage + ":" + tag, DialerImage}
	for _, version := range moduleVersions {
		images = append(images, samplemodule.Image(version))
	}
	return images
}
