package main

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/kyma-pull/kyma-pull/hack/plaintar"
)

// Options configure an image.
type Options struct {
	// Name is the name of the program in the image's root folder.
	Name string
	// Reference is the image's name as HOST/PATH:TAG.
	Reference, Version string
	Created            time.Time
	// Program is a static ELF executable for Linux.
	Program []byte
	// Architecture is the architecture for a base image without a program.
	Architecture string
}

// Image is an OCI image in a tar archive.
type Image struct {
	Reference, Architecture string
	Digest                  digest.Digest
	// Archive is a tar with an OCI image layout and Docker's manifest.json.
	Archive []byte
}

const (
	// user and group are the IDs of distroless' nonroot user. Kubernetes can check that a container does not run as
	// root only if the image contains numeric IDs.
	user       = "65532:65532"
	rootsFile  = "etc/ssl/certs/ca-certificates.crt"
	passwdFile = "etc/passwd"
)

// architectures maps the machine in an ELF header to Go's architecture.
var architectures = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// Build builds an image, or a base image if the options have no program. It returns an error for a program that cannot
// run in the image.
func Build(o Options) (Image, error) {
	architecture := o.Architecture
	if o.Program != nil {
		var err error
		if architecture, err = examine(o.Program); err != nil {
			return Image{}, err
		}
	} else if !slices.Contains(slices.Collect(maps.Values(architectures)), architecture) {
		return Image{}, fmt.Errorf("unsupported architecture %q: use amd64 or arm64", architecture)
	}
	image := Image{Reference: o.Reference, Architecture: architecture}
	stored := &store{}
	config := ocispec.Image{
		Created:  &o.Created,
		Platform: ocispec.Platform{OS: "linux", Architecture: architecture},
		Config: ocispec.ImageConfig{
			User: user, WorkingDir: "/",
			Labels: map[string]string{
				ocispec.AnnotationTitle: o.Name, ocispec.AnnotationVersion: o.Version,
				ocispec.AnnotationLicenses: "Apache-2.0",
			},
		},
		RootFS: ocispec.RootFS{Type: "layers"},
	}
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
	}
	layers := [][]plaintar.File{{
		{Name: rootsFile, Data: publicRoots(), Mode: 0o644},
		{Name: passwdFile, Data: []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"), Mode: 0o644},
	}}
	if o.Program != nil {
		config.Config.Entrypoint = []string{"/" + o.Name}
		layers = append(layers, []plaintar.File{{Name: o.Name, Data: o.Program, Mode: 0o755}})
	}
	for _, files := range layers {
		layer, err := archive(files, o.Created)
		if err != nil {
			return Image{}, err
		}
		packed, err := compressed(layer)
		if err != nil {
			return Image{}, err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(layer))
		manifest.Layers = append(manifest.Layers, stored.add(ocispec.MediaTypeImageLayerGzip, packed))
	}
	var err error
	if manifest.Config, err = stored.addJSON(ocispec.MediaTypeImageConfig, config); err != nil {
		return Image{}, err
	}
	top, err := stored.addJSON(ocispec.MediaTypeImageManifest, manifest)
	if err != nil {
		return Image{}, err
	}
	image.Digest = top.Digest
	image.Archive, err = stored.layout(o, manifest, top)
	return image, err
}

// examine returns a static Linux program's architecture. It returns an error for other programs.
func examine(program []byte) (string, error) {
	parsed, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", fmt.Errorf("not a program for Linux: %w", err)
	}
	architecture, ok := architectures[parsed.Machine]
	if !ok {
		return "", fmt.Errorf("unsupported machine %s: build the program for amd64 or arm64", parsed.Machine)
	}
	for _, p := range parsed.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("dynamically linked, but the image has no libraries: build it with CGO_ENABLED=0")
		}
	}
	return architecture, nil
}

// publicRoots returns Mozilla's root certificates from a package of the Go project. It omits roots that are trusted
// only with a constraint, such as up to a date.
func publicRoots() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// A bytes.Buffer never returns an error.
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return all.Bytes()
}

func archive(files []plaintar.File, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	err := plaintar.Write(&out, files, at)
	return out.Bytes(), err
}

func compressed(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(w, bytes.NewReader(data)); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

type store struct{ blobs []plaintar.File }

func blobPath(d digest.Digest) string { return "blobs/" + string(d.Algorithm()) + "/" + d.Encoded() }

func (s *store) add(mediaType string, data []byte) ocispec.Descriptor {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	s.blobs = append(s.blobs, plaintar.File{Name: blobPath(d.Digest), Data: data, Mode: 0o644})
	return d
}

func (s *store) addJSON(mediaType string, v any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return s.add(mediaType, data), nil
}

// layout returns a tar archive with the image as an OCI image layout and in Docker's format.
//
// Source: OCI Image Layout Specification 1.1; Docker Image Specification 1.3, "Combined Image JSON + Filesystem
// Changeset Format"; containerd's annotation for a complete image name.
func (s *store) layout(o Options, manifest ocispec.Manifest, top ocispec.Descriptor) ([]byte, error) {
	top.Annotations = map[string]string{"io.containerd.image.name": o.Reference, ocispec.AnnotationRefName: o.Version}
	docker := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blobPath(manifest.Config.Digest), RepoTags: []string{o.Reference}}
	for _, layer := range manifest.Layers {
		docker.Layers = append(docker.Layers, blobPath(layer.Digest))
	}
	files := s.blobs
	for _, document := range []struct {
		name string
		v    any
	}{
		{ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}},
		{
			ocispec.ImageIndexFile, ocispec.Index{
				Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
				Manifests: []ocispec.Descriptor{top},
			},
		},
		{"manifest.json", []any{docker}},
	} {
		data, err := json.Marshal(document.v)
		if err != nil {
			return nil, err
		}
		files = append(files, plaintar.File{Name: document.name, Data: data, Mode: 0o644})
	}
	return archive(files, o.Created)
}
