package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Limits are the oldest and newest supported Kubernetes versions. A folder in hack/offline pins kube-apiserver for
// each version.
var Limits = map[string]string{"oldest": "v1.30.14", "newest": "v1.37.2"}

// EnsureLimit returns a folder with kube-apiserver in the oldest or newest supported version, and with the same etcd
// and kwok that Ensure returns. It builds missing programs.
func EnsureLimit(ctx context.Context, limit string, progress io.Writer) (string, error) {
	version, ok := Limits[limit]
	if !ok {
		return "", fmt.Errorf("unknown version limit %q: use oldest or newest", limit)
	}
	usual, err := Ensure(ctx, progress)
	if err != nil {
		return "", err
	}
	dir, err := limitDir(version)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, "lock"), progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	for name, path := range map[string]string{"etcd": usual.Etcd, "kwok": usual.Kwok} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	if find("kube-apiserver", dir) != "" {
		return dir, nil
	}
	server := program{
		name:    "kube-apiserver",
		module:  "offline/" + limit,
		pkg:     "k8s.io/kubernetes/cmd/kube-apiserver",
		ldflags: versionFlags(version),
	}
	return dir, build(ctx, server, dir, progress)
}

// CachedLimit returns the path of kube-apiserver in the oldest or newest supported version, or "" if EnsureLimit has
// not built it on this machine.
func CachedLimit(limit string) string {
	dir, err := limitDir(Limits[limit])
	if err != nil {
		return ""
	}
	return find("kube-apiserver", dir)
}

func limitDir(version string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder: %w", err)
	}
	name := fmt.Sprintf("kubernetes-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH)
	return filepath.Join(base, "kyma-pull", name), nil
}

// versionFlags returns linker flags that set kube-apiserver's version. Clients that compare versions would reject the
// default, v0.0.0.
func versionFlags(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	flags := ""
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, version,
			parts[0], parts[1])
	}
	return flags
}
