package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

// EnvNodeImage is the environment variable with the name of a node image. This image replaces kind's own node image.
const EnvNodeImage = "KIND_NODE_IMAGE"

// ownNodeImage is the prefix of images that hack/offline/kind-node builds.
const ownNodeImage = "kyma-pull/kind-node:"

const pullTimeout = 10 * time.Minute

// ErrNoDocker means that Docker is not running on this machine.
var ErrNoDocker = errors.New(
	"Docker does not respond: start it, or on a plain Debian run `hack/offline/kind-node/dockerd start` as root")

// machine describes the machine that runs the clusters.
type machine struct {
	nodeImage string
	// lacksSysResource is true if even privileged containers lack CAP_SYS_RESOURCE.
	lacksSysResource bool
	// oldCgroups is true if the machine has cgroups version 1. The kubelet supports this version only with a setting.
	oldCgroups bool
}

// inspect returns the properties of this machine, except nodeImage.
func inspect(ctx context.Context) (machine, error) {
	m := machine{}
	if _, err := exec.LookPath("docker"); err != nil {
		return m, ErrNoDocker
	}
	version, err := docker(ctx, "info", "--format", "{{.CgroupVersion}}")
	if err != nil {
		return m, fmt.Errorf("%w (%w)", ErrNoDocker, err)
	}
	m.oldCgroups = version == "1"
	// The file describes this machine. If Docker runs on another machine, that machine usually has all capabilities.
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		m.lacksSysResource = lacksSysResource(string(status))
	}
	return m, nil
}

// lacksSysResource reports whether a process lacks CAP_SYS_RESOURCE in its bounding set. Without it, the kubelet cannot
// protect processes from the out-of-memory killer.
//
// Source: proc_pid_status(5), CapBnd; linux/capability.h.
func lacksSysResource(status string) bool {
	const sysResource = 24
	_, rest, found := strings.Cut(status, "CapBnd:")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return false
	}
	mask, err := strconv.ParseUint(fields[0], 16, 64)
	return err == nil && mask&(1<<sysResource) == 0
}

// NodeImage returns the node image in $KIND_NODE_IMAGE, or else kind's own image. If kind's image cannot be pulled, it
// returns an image that hack/offline/kind-node builds.
func NodeImage(ctx context.Context, checkout string, progress io.Writer) (string, error) {
	if name := os.Getenv(EnvNodeImage); name != "" {
		return name, nil
	}
	if _, err := docker(ctx, "image", "inspect", defaults.Image); err == nil {
		return defaults.Image, nil
	}
	fmt.Fprintf(progress, "kind: pulling %s …\n", defaults.Image)
	pulling, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	_, err := docker(pulling, "pull", "--quiet", defaults.Image)
	if err == nil {
		return defaults.Image, nil
	}
	fmt.Fprintf(progress,
		"kind: cannot pull the image (%s); building one with hack/offline/kind-node/build, ten minutes once …\n",
		strings.Join(strings.Fields(err.Error()), " "))
	cmd := exec.CommandContext(ctx, filepath.Join(checkout, "hack", "offline", "kind-node", "build"))
	cmd.Stderr = progress
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build a node image: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}

// config returns the kind configuration for a cluster with one node.
func (m machine) config() string {
	text := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n"
	if strings.HasPrefix(m.nodeImage, ownNodeImage) {
		text += "networking: {disableDefaultCNI: true}\n" // the image contains its own CNI plugin
	}
	if m.lacksSysResource {
		text += "containerdConfigPatches:\n- |-\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    " +
			"restrict_oom_score_adj = true\n"
	}
	if m.oldCgroups {
		text += "kubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  failCgroupV1: false\n"
	}
	return text
}
