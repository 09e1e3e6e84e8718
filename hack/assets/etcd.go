package assets

import (
	"context"
	"fmt"
	"io"
)

// EnsureEtcdTool returns the path to one of etcd's command-line tools: etcdctl, which saves snapshots, or etcdutl,
// which restores them. If the tool is missing in the cache, EnsureEtcdTool first builds it.
func EnsureEtcdTool(ctx context.Context, name string, progress io.Writer) (string, error) {
	p := program{name: name, module: controlPlane, pkg: "go.etcd.io/etcd/" + name + "/v3"}
	// hack/offline/controlplane/go.mod pins etcd together with kube-apiserver.
	path, err := ensureOne(ctx, p, name+"-"+KubernetesVersion, progress)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return path, nil
}
