package assets

import (
	"context"
	"fmt"
	"io"
)

// EnsureEtcdTools returns the paths of etcdctl, which saves snapshots of etcd, and of etcdutl, which restores them. If
// they are missing in the cache, EnsureEtcdTools first builds them.
func EnsureEtcdTools(ctx context.Context, progress io.Writer) (etcdctl, etcdutl string, err error) {
	paths := map[string]string{}
	for _, name := range []string{"etcdctl", "etcdutl"} {
		p := program{name: name, module: controlPlane, pkg: "go.etcd.io/etcd/" + name + "/v3"}
		// hack/offline/controlplane/go.mod pins etcd together with kube-apiserver.
		if paths[name], err = ensureOne(ctx, p, name+"-"+KubernetesVersion, progress); err != nil {
			return "", "", fmt.Errorf("build %s: %w", name, err)
		}
	}
	return paths["etcdctl"], paths["etcdutl"], nil
}
