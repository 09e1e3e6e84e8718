package assets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// releases serves a list of archives and one archive, as envtest's release page does.
func releases(t *testing.T, spoil func([]byte) []byte) string {
	t.Helper()
	var packed bytes.Buffer
	compressor := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressor)
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		header := &tar.Header{
			Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: int64(len(name)), Typeflag: tar.TypeReg,
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressor.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(packed.Bytes())
	file := fmt.Sprintf("envtest-%s-%s-%s.tar.gz", KubernetesVersion, runtime.GOOS, runtime.GOARCH)
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "releases:\n  %s:\n    %s:\n      hash: %s\n      selfLink: %s/%s\n", KubernetesVersion, file,
			hex.EncodeToString(sum[:]), server.URL, file)
	})
	mux.HandleFunc("/"+file, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(spoil(packed.Bytes())) })
	return server.URL + "/index.yaml"
}

func TestControlPlaneIsDownloadedIfAvailable(t *testing.T) {
	cache := t.TempDir()
	var output bytes.Buffer
	if err := download(t.Context(), releases(t, bytes.Clone), cache, &output); err != nil {
		t.Fatalf("got error %v from the download; output:\n%s", err, &output)
	}
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		if data, err := os.ReadFile(find(name, cache)); err != nil || string(data) != name {
			t.Errorf("%s: got content %q and error %v, want the program of the archive", name, data, err)
		}
	}
	if !strings.Contains(output.String(), "downloading kube-apiserver and etcd 1.36 …") {
		t.Errorf("got output without the downloaded version:\n%s", &output)
	}
}

func TestDownloadWithWrongDigestIsRejected(t *testing.T) {
	cache := t.TempDir()
	spoil := func(data []byte) []byte { return append(bytes.Clone(data), 0) }
	if err := download(t.Context(), releases(t, spoil), cache, &bytes.Buffer{}); err == nil {
		t.Error("got no error for an archive with a wrong digest")
	}
	if got := find("kube-apiserver", cache); got != "" {
		t.Errorf("got program %s from an archive with a wrong digest, want none", got)
	}
	if err := download(t.Context(), "http://127.0.0.1:1/index.yaml", cache, &bytes.Buffer{}); err == nil ||
		!strings.Contains(err.Error(), "the index of setup-envtest is not reachable") {
		t.Errorf("got error %v without a network, want an unreachable index", err)
	}
}

// The first build can run for minutes and does not print anything itself.
func TestLongStepsReportProgress(t *testing.T) {
	output := filepath.Join(t.TempDir(), "told")
	out, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	elapsed(t, out, 0, "true")
	elapsed(t, out, 3, "sh", "-c", "exit 3")
	data, err := os.ReadFile(output)
	if err != nil || strings.Count(string(data), "waiting …\n") != 2 {
		t.Errorf("got output %q and error %v, want the title of both commands", data, err)
	}
}

func elapsed(t *testing.T, out *os.File, want int, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "elapsed"), append([]string{"waiting"}, args...)...)
	cmd.Stderr = out
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("%v: got exit code %d, want %d", args, got, want)
	}
}
