package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kyma-pull/kyma-pull/hack/assets"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
)

// SaveControlPlane saves a snapshot of the running control plane to a file, with etcdctl.
func (f *Fleet) SaveControlPlane(ctx context.Context, path string) error {
	c, here := f.kcp.(*cluster.Cluster)
	if !here {
		return errNoBackup
	}
	return runEtcdTool(ctx, "etcdctl", "--endpoints", c.Etcd(), "snapshot", "save", path)
}

// RestoreControlPlaneSnapshot restores the control plane from a file that SaveControlPlane wrote, with etcdutl. flags
// are additional flags for `etcdutl snapshot restore`.
func (f *Fleet) RestoreControlPlaneSnapshot(ctx context.Context, path string, flags ...string) error {
	dir, err := os.MkdirTemp(f.Dir, "snapshot-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	if err := runEtcdTool(ctx, "etcdutl",
		append([]string{"snapshot", "restore", path, "--data-dir", data}, flags...)...); err != nil {
		return err
	}
	return f.RestoreControlPlane(data)
}

func runEtcdTool(ctx context.Context, name string, args ...string) error {
	path, err := assets.EnsureEtcdTool(ctx, name, os.Stderr)
	if err != nil {
		return err
	}
	if output, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, args, err, output)
	}
	return nil
}
