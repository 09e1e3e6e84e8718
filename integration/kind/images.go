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

var moduleVersions = []string{samplemodule.VersionGood, samplemodule.VersionBetter}

// Versions of the agent beside the one that charts install: one that works, and one that gets ready and then ends again
// and again.
const (
	AgentBetter = "better"
	AgentBad    = "bad"
)

// buildImages makes all images of a run as `make images` does, in a folder that it removes again, and gives them to
// Docker.
func buildImages(ctx context.Context, checkout, dir string) error {
	defer os.RemoveAll(dir)
	p := packer{checkout: checkout, dir: dir}
	// Most at once, for most of what they are made of is the same.
	if err := p.compile(ctx, tag, "", "./kcp-publisher", "./skr-agent", "./integration/registry/serve", "./integration/samplemodule/operator", "./integration/kind/dialer", "./hack/images"); err != nil {
		return err
	}
	if err := p.compile(ctx, AgentBetter, "skr-agent", "./skr-agent"); err != nil {
		return err
	}
	if err := p.compile(ctx, AgentBad, "skr-agent", "./integration/kind/badagent"); err != nil {
		return err
	}
	// An image is named like its program.
	for from, to := range map[string]string{"serve": "registry", "operator": samplemodule.Operator} {
		if err := os.Rename(p.program(tag, from), p.program(tag, to)); err != nil {
			return err
		}
	}
	if err := p.pack(ctx, repository, tag, p.program(tag, "kcp-publisher"), p.program(tag, "skr-agent"), p.program(tag, "registry"), p.program(tag, "dialer")); err != nil {
		return err
	}
	for _, version := range []string{AgentBetter, AgentBad} {
		if err := p.pack(ctx, repository, version, p.program(version, "skr-agent")); err != nil {
			return err
		}
	}
	for _, version := range moduleVersions {
		if err := p.pack(ctx, samplemodule.ImageRepository, version, p.program(tag, samplemodule.Operator)); err != nil {
			return err
		}
	}
	return nil
}

// packer makes images of the project's programs.
type packer struct{ checkout, dir string }

func (p packer) program(version, name string) string { return filepath.Join(p.dir, version, name) }

// compile compiles programs that call themselves by a version; name is for a single one that is not named like its
// folder.
func (p packer) compile(ctx context.Context, version, name string, programs ...string) error {
	output := p.program(version, name)
	if name == "" {
		output += "/"
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-ldflags", "-s -w -X main.version=" + version, "-o", output}, programs...)...)
	cmd.Dir, cmd.Env = p.checkout, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if _, err := run(ctx, cmd); err != nil {
		return fmt.Errorf("compile the images' programs: %w", err)
	}
	return nil
}

// pack makes images of programs and gives them to Docker.
func (p packer) pack(ctx context.Context, repository, version string, programs ...string) error {
	dir, err := os.MkdirTemp(p.dir, "archives-")
	if err != nil {
		return err
	}
	args := append([]string{"-repository", repository, "-version", version, "-output", dir}, programs...)
	if _, err := run(ctx, exec.CommandContext(ctx, p.program(tag, "images"), args...)); err != nil {
		return fmt.Errorf("make images: %w", err)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*-"+version+"-linux-*.tar")) // and not the links to them
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

// madeImages are all that buildImages gives to Docker.
func madeImages() []string {
	return append(runtimeImages(), publisherImage+":"+tag, registryImage+":"+tag, agentImage+":"+AgentBetter, agentImage+":"+AgentBad)
}

// runtimeImages are what pods of a runtime are started from.
func runtimeImages() []string {
	images := []string{agentImage + ":" + tag, DialerImage}
	for _, version := range moduleVersions {
		images = append(images, samplemodule.Image(version))
	}
	return images
}

// BringAgent puts a version of the agent into a runtime's node, and names it IMAGE@DIGEST as the node knows it.
func (g *Ground) BringAgent(ctx context.Context, r *fleet.Runtime, version string) (string, error) {
	c, image := g.clusters[r.Cluster()], agentImage+":"+version
	if err := c.load(ctx, image); err != nil {
		return "", err
	}
	list, err := c.inNode(ctx, "ctr", "--namespace=k8s.io", "images", "ls", "name=="+image)
	if err != nil {
		return "", err
	}
	const digestColumn = 2 // REF TYPE DIGEST SIZE ...
	_, row, _ := strings.Cut(list, "\n")
	columns := strings.Fields(row)
	if len(columns) <= digestColumn {
		return "", fmt.Errorf("the node of %s does not list %s: %q", r.ID, image, list)
	}
	pinned := agentImage + "@" + columns[digestColumn]
	_, err = c.inNode(ctx, "ctr", "--namespace=k8s.io", "images", "tag", "--force", image, pinned)
	return pinned, err
}
