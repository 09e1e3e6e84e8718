// Package assets provides kube-apiserver, etcd and kwok for test clusters, and Flux's controllers for a benchmark.
//
// A program comes from the first source that has it: $KUBEBUILDER_ASSETS, a cache outside the checkout, envtest's
// release archive, or a build from its Go module. The first build takes a few minutes. The cache never contains an
// incomplete program.
package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// KubernetesVersion is the version of kube-apiserver that hack/offline/controlplane/go.mod pins.
const KubernetesVersion = "v1.36.3"

// controlPlane is the folder in hack/ whose go.mod pins kube-apiserver and etcd.
const controlPlane = "offline/controlplane"

// EnvDir is envtest's environment variable for the folder with kube-apiserver and etcd.
const EnvDir = "KUBEBUILDER_ASSETS"

// Assets contains the paths to a test cluster's programs.
type Assets struct {
	KubeAPIServer string
	Etcd          string
	Kwok          string
	// Kubectl is the path to kubectl, for users of the demo. It is empty if kubectl is not installed.
	Kubectl string
}

// program is a program that can be built from a Go module.
type program struct {
	name string
	// module is the folder in hack/ whose go.mod pins the program. pkg is the import path of its main package.
	module, pkg   string
	ldflags, tags string
}

var programs = []program{
	{
		name: "kube-apiserver", module: controlPlane, pkg: "k8s.io/kubernetes/cmd/kube-apiserver",
		ldflags: versionFlags(KubernetesVersion),
	},
	{name: "etcd", module: controlPlane, pkg: "go.etcd.io/etcd/server/v3"},
	{name: "kwok", module: "tools", pkg: "sigs.k8s.io/kwok/cmd/kwok"},
}

// Ensure returns the paths to a test cluster's programs. It downloads or builds missing programs. On a terminal, it
// shows a spinner. Otherwise, it writes log lines.
func Ensure(ctx context.Context, progress io.Writer) (Assets, error) {
	cache, err := cacheDir()
	if err != nil {
		return Assets{}, err
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"), progress)
	if err != nil {
		return Assets{}, err
	}
	defer unlock()
	if err := sweep(cache); err != nil {
		return Assets{}, err
	}

	paths := map[string]string{}
	tried := false
	for _, p := range programs {
		if path := find(p.name, os.Getenv(EnvDir), cache); path != "" {
			paths[p.name] = path
			continue
		}
		if p.module == controlPlane && !tried {
			tried = true
			if err := download(ctx, releaseIndex, cache, progress); err != nil {
				fmt.Fprintf(progress, "assets: cannot download an envtest archive (%v), building instead\n", err)
			}
		}
		if path := find(p.name, "", cache); path != "" {
			paths[p.name] = path
			continue
		}
		if err := build(ctx, p, cache, progress); err != nil {
			return Assets{}, fmt.Errorf("build %s: %w", p.name, err)
		}
		paths[p.name] = filepath.Join(cache, p.name)
	}
	return Assets{KubeAPIServer: paths["kube-apiserver"], Etcd: paths["etcd"], Kwok: paths["kwok"],
		Kubectl: kubectl(cache)}, nil
}

func kubectl(cache string) string {
	if path := find("kubectl", os.Getenv(EnvDir), cache); path != "" {
		return path
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return ""
	}
	return path
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder: %w", err)
	}
	dir := filepath.Join(base, "kyma-pull",
		fmt.Sprintf("kubernetes-%s-%s-%s", KubernetesVersion, runtime.GOOS, runtime.GOARCH))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the cache folder: %w", err)
	}
	return dir, nil
}

func find(name string, dirs ...string) string {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// lock prevents concurrent builds for the same program.
func lock(ctx context.Context, path string, progress io.Writer) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	for started := time.Now(); ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil,
				errors.Join(fmt.Errorf("wait for lock %s of another process: %w", path, ctx.Err()), file.Close())
		case <-time.After(250 * time.Millisecond):
		}
		if time.Since(started) > reportEvery {
			fmt.Fprintln(progress, "assets: another process obtains the programs, waiting for it")
			started = time.Now()
		}
	}
}

// sweep removes the files that killed builds left in the cache. The caller must hold the lock.
func sweep(cache string) error {
	left, err := filepath.Glob(filepath.Join(cache, temporaryPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the files of an interrupted build: %w", err)
		}
	}
	return nil
}
