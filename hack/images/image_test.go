package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
)

var created = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// program returns a small static program. Compressing a large one would take half a second for each image.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "kyma-pull-images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, file := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return nil, err
	}
	command := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, source)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	return os.ReadFile(file)
})

// withChangedHeader returns the program with one changed byte in its header.
func withChangedHeader(t *testing.T, at int, to byte) []byte {
	t.Helper()
	original, err := program()
	require.NoError(t, err)
	other := bytes.Clone(original)
	other[at] = to
	return other
}

// Offsets and values in the ELF header, for the machine type and for the first segment's type. Source: System V ABI.
const (
	atMachine, machineAMD64, machineARM64, machineRISCV = 18, 0x3e, 0xb7, 0xf3
	atSegment, segmentInterpreter                       = 64, 3
)

func options(program []byte) Options {
	return Options{
		Name: "images", Reference: "example.org/images:v1", Version: "v1", Created: created, Program: program,
	}
}

func TestImageRunsProgramAsNonRoot(t *testing.T) {
	program := withChangedHeader(t, atMachine, machineARM64)
	image, err := Build(options(program))
	require.NoError(t, err)
	require.Equal(t, "arm64", image.Architecture)
	file := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, os.WriteFile(file, image.Archive, 0o600))

	layout, err := oci.NewFromTar(t.Context(), file)
	require.NoError(t, err)
	top, err := layout.Resolve(t.Context(), "v1")
	require.NoError(t, err)
	require.Equal(t, image.Digest, top.Digest)
	require.Equal(t, "example.org/images:v1", top.Annotations["io.containerd.image.name"])
	read := func(d ocispec.Descriptor, into any) []byte {
		data, err := content.FetchAll(t.Context(), layout, d) // compares size and digest
		require.NoError(t, err)
		if into != nil {
			require.NoError(t, json.Unmarshal(data, into))
		}
		return data
	}
	var manifest ocispec.Manifest
	read(top, &manifest)
	var config ocispec.Image
	read(manifest.Config, &config)
	require.Equal(t, "65532:65532", config.Config.User)
	require.Equal(t, []string{"/images"}, config.Config.Entrypoint)
	require.Equal(t, "linux/arm64", config.OS+"/"+config.Architecture)
	require.Equal(t, created, *config.Created)

	files := map[string][]byte{}
	for _, layer := range manifest.Layers {
		unzipped, err := gzip.NewReader(bytes.NewReader(read(layer, nil)))
		require.NoError(t, err)
		for reader := tar.NewReader(unzipped); ; {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Zero(t, header.Uid, "the program's user must not own the file")
			require.Zero(t, header.Mode&0o022, "%s is writable", header.Name)
			files[header.Name], err = io.ReadAll(reader)
			require.NoError(t, err)
		}
	}
	require.Len(t, files, 3)
	require.True(t, bytes.Equal(program, files["images"]))
	require.Contains(t, string(files["etc/passwd"]), ":65532:65532:")
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]))
}

// Docker reads manifest.json, which lists the same config and layers.
func TestDockerManifestMatchesOCILayout(t *testing.T) {
	image, err := Build(options(withChangedHeader(t, atMachine, machineAMD64)))
	require.NoError(t, err)
	files := map[string][]byte{}
	for reader := tar.NewReader(bytes.NewReader(image.Archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		files[header.Name], err = io.ReadAll(reader)
		require.NoError(t, err)
	}
	var docker []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	require.NoError(t, json.Unmarshal(files["manifest.json"], &docker))
	var manifest ocispec.Manifest
	require.NoError(t, json.Unmarshal(files[blobPath(image.Digest)], &manifest))
	require.Len(t, docker, 1)
	require.Equal(t, []string{"example.org/images:v1"}, docker[0].RepoTags)
	require.Equal(t, blobPath(manifest.Config.Digest), docker[0].Config)
	require.Len(t, docker[0].Layers, len(manifest.Layers))
	for i, layer := range manifest.Layers {
		require.Equal(t, blobPath(layer.Digest), docker[0].Layers[i])
		require.Contains(t, files, docker[0].Layers[i])
	}
}

func TestImageIsReproducible(t *testing.T) {
	program := withChangedHeader(t, atMachine, machineAMD64)
	first, err := Build(options(program))
	require.NoError(t, err)
	second, err := Build(options(program))
	require.NoError(t, err)
	require.True(t, bytes.Equal(first.Archive, second.Archive))
}

// ko adds the program to the base image, so the base image must contain everything else.
func TestBaseImageContainsEverythingButTheProgram(t *testing.T) {
	base, err := Build(Options{Name: "base", Version: "v1", Created: created, Architecture: "amd64"})
	require.NoError(t, err)
	image, err := Build(options(withChangedHeader(t, atMachine, machineAMD64)))
	require.NoError(t, err)
	config := func(image Image) (config ocispec.Image) {
		file := filepath.Join(t.TempDir(), "image.tar")
		require.NoError(t, os.WriteFile(file, image.Archive, 0o600))
		layout, err := oci.NewFromTar(t.Context(), file)
		require.NoError(t, err)
		top, err := layout.Resolve(t.Context(), "v1")
		require.NoError(t, err)
		var manifest ocispec.Manifest
		data, err := content.FetchAll(t.Context(), layout, top)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &manifest))
		data, err = content.FetchAll(t.Context(), layout, manifest.Config)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &config))
		return config
	}
	small, large := config(base), config(image)
	require.Equal(t, large.RootFS.DiffIDs[:1], small.RootFS.DiffIDs)
	require.Equal(t, large.Config.User, small.Config.User)
	require.Empty(t, small.Config.Entrypoint)
	_, err = Build(Options{Name: "base", Architecture: "riscv64"})
	require.ErrorContains(t, err, "use amd64 or arm64")
}

func TestUnsupportedProgramIsRejected(t *testing.T) {
	for name, c := range map[string]struct {
		program []byte
		want    string
	}{
		"shell script":    {[]byte("#!/bin/sh\n"), "not a program for Linux"},
		"Windows program": {[]byte("MZ\x90\x00"), "not a program for Linux"},
		"RISC-V program": {
			withChangedHeader(t, atMachine, machineRISCV), "unsupported machine EM_RISCV: build the program for amd64 or arm64",
		},
		"dynamically linked program": {withChangedHeader(t, atSegment, segmentInterpreter), "build it with CGO_ENABLED=0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Build(options(c.program))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Scripts from before release 0.1.0 use the file name without a version.
func TestImageArchiveIsNamedWithAndWithoutVersion(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "images"), t.TempDir()
	require.NoError(t, os.WriteFile(from, withChangedHeader(t, atMachine, machineARM64), 0o600))
	for _, version := range []string{"v1", "v2"} {
		require.NoError(t, run([]string{"-version", version, "-output", to, from}))
		versioned, err := os.ReadFile(filepath.Join(to, "images-"+version+"-linux-arm64.tar"))
		require.NoError(t, err)
		newest, err := os.ReadFile(filepath.Join(to, "images-linux-arm64.tar"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(versioned, newest), "the link without a version must lead to version %s", version)
	}
}
