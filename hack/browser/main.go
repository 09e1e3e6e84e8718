// Command browser prints the requirements of the web page's tests as assignments for a shell: CHROMIUM, the path of a
// Chromium, and AXE, the path of the script that checks accessibility. Chromium comes from $CHROMIUM, $PATH or the
// Debian archive. The script comes from the npm registry with a pinned checksum.
//
// Tests that need a missing part are skipped.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	axeVersion = "4.14.1"
	axeAddress = "https://registry.npmjs.org/axe-core/-/axe-core-" + axeVersion + ".tgz"
	// axeSum is the SHA-512 of the npm archive in base64.
	axeSum   = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
	axeFile  = "package/axe.min.js"
	maxBytes = 32 << 20
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for _, part := range []struct {
		name string
		find func(context.Context) (string, error)
	}{{"CHROMIUM", chromium}, {"AXE", axeScript}} {
		path, err := part.find(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "browser: no %s: %v\n", part.name, err)
			continue
		}
		fmt.Printf("%s=%s\n", part.name, path)
	}
}

// chromium returns the path of a Chromium binary. It installs the package chromium if no binary exists.
func chromium(ctx context.Context) (string, error) {
	find := func() string {
		for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
			if path, err := exec.LookPath(name); name != "" && err == nil {
				return path
			}
		}
		return ""
	}
	if path := find(); path != "" {
		return path, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", errors.New(
			"chromium not found in $PATH: set $CHROMIUM to its path, or run as root on Debian to install it")
	}
	fmt.Fprintln(os.Stderr, "browser: installing chromium by apt-get")
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", "chromium"}} {
		command := exec.CommandContext(ctx, "apt-get", args...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w: %s", args[0], err, out[max(0, len(out)-500):])
		}
	}
	if path := find(); path != "" {
		return path, nil
	}
	return "", errors.New("the package chromium does not contain the program chromium")
}

// axeScript returns the path of the script that checks accessibility. The first call downloads the script.
func axeScript(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "kyma-pull", "axe-core-"+axeVersion+".min.js")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	archive, err := download(ctx)
	if err != nil {
		return "", fmt.Errorf("download %s: %w", axeAddress, err)
	}
	script, err := extract(archive)
	if err != nil {
		return "", fmt.Errorf("%s: %w", axeAddress, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(part, script, 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(part, path)
}

func download(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, axeAddress, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	archive, err := io.ReadAll(io.LimitReader(response.Body, maxBytes))
	if err != nil {
		return nil, err
	}
	if sum := sha512.Sum512(archive); base64.StdEncoding.EncodeToString(sum[:]) != axeSum {
		return nil, errors.New("the downloaded file does not have the pinned checksum")
	}
	return archive, nil
}

func extract(archive []byte) ([]byte, error) {
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	files := tar.NewReader(plain)
	for {
		header, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", axeFile, err)
		}
		if header.Name == axeFile {
			return io.ReadAll(io.LimitReader(files, maxBytes))
		}
	}
}
