package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// Images that buildImages builds and the scenarios load into the nodes.
const (
	repository     = "kyma-pull.test"
	tag            = "test"
	publisherImage = repository + "/kcp-publisher"
	agentImage     = repository + "/skr-agent"
	registryImage  = repository + "/registry"
	// DialerImage contains a program for tests of NetworkPolicies.
	DialerImage = repository + "/dialer:" + tag
)

var moduleVersions = []string{samplemodule.VersionGood, samplemodule.VersionBetter}

// Agent versions for upgrades: a working version, and a version that becomes ready and then crashes repeatedly.
const (
	AgentBetter = "better"
	AgentBad    = "bad"
)

// buildImages builds all images of a run and loads them into Docker.
func buildImages(ctx context.Context, checkout, dir string) error {
	defer os.RemoveAll(dir)
	p := packer{checkout: checkout, dir: dir}
	// One `go build` compiles shared packages only once.
	if err := p.compile(ctx, tag, "", "./kcp-publisher", "./skr-agent", "./integration/registry/serve",
		"./integration/samplemodule/operator", "./integration/kind/dialer", "./hack/images"); err != nil {
		return err
	}
	if err := p.compile(ctx, AgentBetter, "skr-agent", "./skr-agent"); err != nil {
		return err
	}
	if err := p.compile(ctx, AgentBad, "skr-agent", "./integration/kind/badagent"); err != nil {
		return err
	}
	// hack/images names each image after its program file.
	for from, to := range map[string]string{"serve": "registry", "operator": samplemodule.Operator} {
		if err := os.Rename(p.program(tag, from), p.program(tag, to)); err != nil {
			return err
		}
	}
	if err := p.pack(ctx, repository, tag, p.program(tag, "kcp-publisher"), p.program(tag, "skr-agent"),
		p.program(tag, "registry"), p.program(tag, "dialer")); err != nil {
		return err
	}
	for _, version := range []string{AgentBetter, AgentBad} {
		if err := p.pack(ctx, repository, version, p.program(version, "skr-agent")); err != nil {
			return err
		}
	}
	for _, version := range moduleVersions {
		if err := p.pack(ctx, samplemodule.ImageRepository, version,
			p.program(tag, samplemodule.Operator)); err != nil {
			return err
		}
	}
	return nil
}

// packer compiles the project's programs and builds container images from them.
type packer struct{ checkout, dir string }

func (p packer) program(version, name string) string { return filepath.Join(p.dir, version, name) }

// compile compiles Go packages and sets main.version. name is the file name for a single program. If name
// is empty, each program gets the name of its folder.
func (p packer) compile(ctx context.Context, version, name string, programs ...string) error {
	output := p.program(version, name)
	if name == "" {
		output += "/"
	}
	cmd := exec.CommandContext(ctx, "go",
		append([]string{"build", "-ldflags", "-s -w -funcalign=16 -X main.version=" + version, "-o", output},
			programs...)...)
	cmd.Dir, cmd.Env = p.checkout, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if _, err := run(ctx, cmd); err != nil {
		return fmt.Errorf("compile the images' programs: %w", err)
	}
	return nil
}

// pack builds images of programs and loads them into Docker.
func (p packer) pack(ctx context.Context, repository, version string, programs ...string) error {
	dir, err := os.MkdirTemp(p.dir, "archives-")
	if err != nil {
		return err
	}
	args := append([]string{"-repository", repository, "-version", version, "-output", dir}, programs...)
	if _, err := run(ctx, exec.CommandContext(ctx, p.program(tag, "images"), args...)); err != nil {
		return fmt.Errorf("build images: %w", err)
	}
	// The pattern does not match hack/images' links, whose names have no version.
	archives, err := filepath.Glob(filepath.Join(dir, "*-"+version+"-linux-*.tar"))
	if err != nil {
		return err
	}
	if len(archives) != len(programs) {
		return fmt.Errorf("build images: found %d archives for %d programs", len(archives), len(programs))
	}
	for _, archive := range archives {
		if _, err := docker(ctx, "load", "--quiet", "--input", archive); err != nil {
			return err
		}
	}
	return nil
}

// builtImages returns the names of all images that buildImages builds.
func builtImages() []string {
	return append(runtimeImages(), publisherImage+":"+tag, registryImage+":"+tag, agentImage+":"+AgentBetter,
		agentImage+":"+AgentBad)
}

// runtimeImages returns the names of the images that pods in a runtime use.
func runtimeImages() []string {
	images := []string{agentImage + ":" + tag, DialerImage}
	for _, version := range moduleVersions {
		images = append(images, samplemodule.Image(version))
	}
	return images
}

// LoadAgent loads the image of an agent version into a runtime's node. It returns the reference as IMAGE@DIGEST.
func (g *Environment) LoadAgent(ctx context.Context, r *fleet.Runtime, version string) (string, error) {
	c, image := g.clusters[r.Cluster()], agentImage+":"+version
	if err := c.load(ctx, image); err != nil {
		return "", err
	}
	list, err := c.inNode(ctx, "ctr", "--namespace=k8s.io", "images", "ls", "name=="+image)
	if err != nil {
		return "", err
	}
	const digestColumn = 2 // columns of ctr: REF TYPE DIGEST SIZE ...
	_, row, _ := strings.Cut(list, "\n")
	columns := strings.Fields(row)
	if len(columns) <= digestColumn {
		return "", fmt.Errorf("the node of %s does not list %s: %q", r.ID, image, list)
	}
	pinned := agentImage + "@" + columns[digestColumn]
	_, err = c.inNode(ctx, "ctr", "--namespace=k8s.io", "images", "tag", "--force", image, pinned)
	return pinned, err
}
