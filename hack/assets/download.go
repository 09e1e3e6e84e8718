package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const releaseIndex = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"

// download downloads a release archive with setup-envtest and links its programs into the cache. It uses the newest
// patch of the minor version, because some patch versions have no archive. index is the URL of the
// archive list.
func download(ctx context.Context, index, cache string, progress io.Writer) error {
	if err := reachable(ctx, index); err != nil {
		return err
	}
	source, err := hackDir()
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(KubernetesVersion, "v")
	minor := version[:strings.LastIndex(version, ".")]
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "setup-envtest", "use", minor, "--index", index, "--bin-dir",
		filepath.Join(cache, "envtest"), "-p", "path")
	cmd.Dir = filepath.Join(source, "tools")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	path, err := runWithProgress(cmd, "assets: downloading kube-apiserver and etcd "+minor, progress)
	if err != nil {
		return fmt.Errorf("setup-envtest: %w", err)
	}
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		link := filepath.Join(cache, name)
		if find(name, cache) != "" {
			continue
		}
		// Remove a link to a deleted archive.
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(filepath.Join(strings.TrimSpace(path), name), link); err != nil {
			return err
		}
	}
	return nil
}

// reachable checks the network with a short timeout before a long download.
func reachable(ctx context.Context, index string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, index, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return errors.New("the index of setup-envtest is not reachable")
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the index of setup-envtest returned %s", response.Status)
	}
	return nil
}
