// Package assets obtains the programs that a test cluster is made of: kube-apiserver, etcd and kwok.
//
// They come from the first place that has them: $KUBEBUILDER_ASSETS, a cache outside the checkout, the release archive of
// envtest where the network allows, or a build from their Go modules, which takes some minutes once. What comes out is a
// folder with the programs in it; a program is either there whole or not at all, also after a crash or with two processes
// at work.
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
	"strings"
	"syscall"
	"time"
)

// KubernetesVersion is that of kube-apiserver, as hack/controlplane/go.mod pins it.
const KubernetesVersion = "v1.36.3"

// EnvDir names the environment variable, known from envtest, of a folder with kube-apiserver and etcd.
const EnvDir = "KUBEBUILDER_ASSETS"

// Assets are the paths of the programs.
type Assets struct {
	KubeAPIServer string
	Etcd          string
	Kwok          string
}

// program is one that can be built from a Go module.
type program struct {
	name string
	// module is the folder below hack/ whose go.mod pins the program, pkg its main package there.
	module, pkg string
	ldflags     string
}

var programs = []program{
	{name: "kube-apiserver", module: "controlplane", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", ldflags: versionFlags()},
	{name: "etcd", module: "controlplane", pkg: "go.etcd.io/etcd/server/v3"},
	{name: "kwok", module: "tools", pkg: "sigs.k8s.io/kwok/cmd/kwok"},
}

// Without them the API server calls itself v0.0.0, and clients that compare versions refuse it.
func versionFlags() string {
	parts := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	flags := ""
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, KubernetesVersion, parts[0], parts[1])
	}
	return flags
}

// Ensure gives the programs, obtaining first what is missing. It writes a line per step that takes time to progress.
func Ensure(ctx context.Context, progress io.Writer) (Assets, error) {
	cache, err := cacheDir()
	if err != nil {
		return Assets{}, err
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return Assets{}, err
	}
	defer unlock()

	paths := map[string]string{}
	tried := false
	for _, p := range programs {
		if path := find(p.name, os.Getenv(EnvDir), cache); path != "" {
			paths[p.name] = path
			continue
		}
		if p.module == "controlplane" && !tried {
			tried = true
			if err := download(ctx, cache, progress); err != nil {
				fmt.Fprintf(progress, "assets: no envtest archive to download (%v), building instead\n", err)
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
	return Assets{KubeAPIServer: paths["kube-apiserver"], Etcd: paths["etcd"], Kwok: paths["kwok"]}, nil
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder: %w", err)
	}
	dir := filepath.Join(base, "kyma-pull", fmt.Sprintf("kubernetes-%s-%s-%s", KubernetesVersion, runtime.GOOS, runtime.GOARCH))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
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

// lock keeps two processes, such as the tests of two packages, from building the same thing twice.
func lock(path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return func() { file.Close() }, nil
}

// build compiles one program; the rename at the end makes it appear whole.
func build(ctx context.Context, p program, cache string, progress io.Writer) error {
	source, err := hackDir()
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(cache, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	target := filepath.Join(temporary, p.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w"+p.ldflags, "-o", target, p.pkg)
	cmd.Dir = filepath.Join(source, p.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if err := runWithProgress(cmd, "assets: building "+p.name+" from its Go module, once", progress); err != nil {
		return err
	}
	return os.Rename(target, filepath.Join(cache, p.name))
}

// hackDir finds this checkout's hack folder, wherever in it the process runs.
func hackDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "hack", "controlplane", "go.mod")); err == nil {
			return filepath.Join(dir, "hack"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("hack/controlplane/go.mod is in no folder above the working directory: run this inside the checkout")
		}
		dir = parent
	}
}

// runWithProgress says what runs, and every 15 seconds for how long already, so that nobody takes minutes for a hang.
func runWithProgress(cmd *exec.Cmd, title string, progress io.Writer) error {
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	started := time.Now()
	fmt.Fprintf(progress, "%s …\n", title)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%w\n%s", err, output.String())
			}
			fmt.Fprintf(progress, "%s: done after %s\n", title, time.Since(started).Round(time.Second))
			return nil
		case <-tick.C:
			fmt.Fprintf(progress, "%s: %s\n", title, time.Since(started).Round(time.Second))
		}
	}
}
