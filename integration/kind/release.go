package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"oras.land/oras-go/v2/content/oci"
)

// release is the output folder of `make release`. A run can install the charts and images in this folder.
type release string

const layoutPrefix = "oci_"

// layout returns the path of the release's image layout, and its version.
func (r release) layout() (path, version string, err error) {
	found, err := filepath.Glob(filepath.Join(string(r), layoutPrefix+"*.tar"))
	if err != nil {
		return "", "", err
	}
	if len(found) != 1 {
		return "", "", fmt.Errorf("release %s contains %d files %s*.tar, expected one", r, len(found), layoutPrefix)
	}
	version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), layoutPrefix), ".tar")
	return found[0], version, nil
}

// chart returns the path of a chart in the release.
func (r release) chart(name string) (string, error) {
	_, version, err := r.layout()
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(string(r), name+"-"+version+".tgz"))
	if err != nil {
		return "", err
	}
	_, err = os.Stat(path)
	return path, err
}

// releaseImages is the prefix of image references in the charts of a release.
const releaseImages = "ghcr.io/kyma-pull/"

// loadRelease imports the images of a release into the node, under the references that the release's charts use.
func (c *cluster) loadRelease(ctx context.Context, r release) error {
	path, version, err := r.layout()
	if err != nil {
		return err
	}
	layout, err := oci.NewFromTar(ctx, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	const imported = "kyma-pull.release"
	load := exec.CommandContext(ctx, "docker", "exec", "-i", c.node(), "ctr", "--namespace=k8s.io", "images", "import",
		"--digests", "--no-unpack", "--base-name", imported, "-")
	load.Stdin = file
	if _, err := run(ctx, load); err != nil {
		return fmt.Errorf("load %s into %s: %w", path, c.name, err)
	}
	for _, program := range []string{publisherRelease, agentRelease} {
		built, err := layout.Resolve(ctx, program+":"+version)
		if err != nil {
			return fmt.Errorf("%s: %s:%s: %w", path, program, version, err)
		}
		at := "@" + built.Digest.String()
		if _, err := c.inNode(
			ctx, "ctr", "--namespace=k8s.io", "images", "tag", "--force", imported+at, releaseImages+program+at,
		); err != nil {
			return err
		}
	}
	return nil
}
