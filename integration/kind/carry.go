package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// Folders on the node of an air-gapped runtime. The agent's pod mounts them.
const (
	nodeCarried = "/var/lib/kyma-pull/carried"
	nodeLayout  = "/var/lib/kyma-pull/layout"
)

// Folders in the agent's pod of an air-gapped runtime. Carried contains the files that Environment.Carry copies.
// Layout is the OCI layout with the files that the agent has imported.
const (
	Carried = "/carried"
	Layout  = "/layout"
)

// volumes creates the folders on the node of an air-gapped runtime, and returns the chart values that mount them.
func volumes(ctx context.Context, c *cluster) (map[string]any, error) {
	for _, folder := range []string{nodeCarried, nodeLayout} {
		if _, err := c.inNode(ctx, "install", "-d", "-o", "65532", "-g", "65532", folder); err != nil {
			return nil, err
		}
	}
	volume := func(name, path string) map[string]any {
		return map[string]any{"name": name, "hostPath": map[string]any{"path": path}}
	}
	return map[string]any{
		"extraVolumes": []any{volume("carried", nodeCarried), volume("layout", nodeLayout)},
		"extraVolumeMounts": []any{
			map[string]any{"name": "carried", "mountPath": Carried, "readOnly": true},
			map[string]any{"name": "layout", "mountPath": Layout},
		},
	}, nil
}

// Export runs `kcp-publisher export` and returns the path of the file with the runtime's bundle.
func (g *Environment) Export(ctx context.Context, f *fleet.Fleet, runtime string) (string, error) {
	g.exports++
	name := fmt.Sprintf("%s-%d.tar", runtime, g.exports)
	_, err := docker(ctx, "run", "--rm", "--user", "0:0", "--network", network, "--volume", g.options.Dir+":/files",
		"--volume", f.Keys()+":/keys:ro",
		publisherImage+":"+tag, "export", runtime, "--from", f.Location(), "--keys", "/keys", "-o", "/files/"+name,
		"--registry-config", "/files/publisher.json", "--registry-ca", "/files/registry/tls.crt")
	return filepath.Join(g.options.Dir, name), err
}

// Carry copies a file to the node of an air-gapped runtime.
func (g *Environment) Carry(ctx context.Context, runtime, path string) error {
	c := g.clusters[runtime]
	// The agent can read the folder at any time, so rename a file to its final name only when it is complete.
	arriving := filepath.Join(nodeCarried, "arriving")
	if _, err := docker(ctx, "cp", path, c.node()+":"+arriving); err != nil {
		return err
	}
	_, err := c.inNode(ctx, "mv", arriving, filepath.Join(nodeCarried, filepath.Base(path)))
	return err
}

// Report copies the newest report of an air-gapped runtime to the fleet's registry.
func (g *Environment) Report(ctx context.Context, f *fleet.Fleet, runtime string) error {
	layout := filepath.Join(g.options.Dir, runtime+"-layout")
	if err := os.RemoveAll(layout); err != nil {
		return err
	}
	if _, err := docker(ctx, "cp", g.clusters[runtime].node()+":"+nodeLayout, layout); err != nil {
		return err
	}
	report := filepath.Join(g.options.Dir, runtime+"-report.json")
	if output, exit := fleet.Run(ctx, f.Binaries().Agent, "export-report", "--location", "oci-layout:"+layout,
		"--runtime", runtime, "-o", report); exit != 0 {
		return fmt.Errorf("export the report of %s: %s", runtime, output)
	}
	if output, exit := fleet.Run(ctx, f.Binaries().Publisher, "import-report", report, "--to",
		f.Place.String()); exit != 0 {
		return fmt.Errorf("import the report of %s: %s", runtime, output)
	}
	return nil
}

// Reaches reports whether a cluster's node can connect to the registry's IP address.
func (g *Environment) Reaches(ctx context.Context, cluster string) (bool, error) {
	registry, err := address(ctx, registryContainer)
	if err != nil {
		return false, err
	}
	_, err = g.clusters[cluster].inNode(ctx, "curl", "--silent", "--insecure", "--max-time", "5", "--output",
		"/dev/null", "https://"+registry+":"+registryPort+"/v2/")
	var ended *exec.ExitError
	if errors.As(err, &ended) && slices.Contains(unconnected, ended.ExitCode()) {
		return false, nil
	}
	return err == nil, err
}

// unconnected contains curl's exit codes for a refused connection and a timeout.
//
// Source: curl(1), EXIT CODES.
var unconnected = []int{7, 28}
