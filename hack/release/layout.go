package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"

	"github.com/kyma-pull/kyma-pull/hack/plaintar"
)

// layout opens the OCI image layout in the scratch folder. The references are NAME:VERSION.
func layout(scratch string) (*oci.Store, error) { return oci.New(filepath.Join(scratch, "oci")) }

// buildImages builds each program's image for all platforms.
func (r *release) buildImages(ctx context.Context, scratch string) error {
	layout, err := layout(scratch)
	if err != nil {
		return err
	}
	if r.tools != "" {
		if err := r.serveBases(ctx, scratch); err != nil {
			return err
		}
	}
	for _, program := range programs {
		index := ocispec.Index{
			Versioned:   specs.Versioned{SchemaVersion: 2},
			MediaType:   ocispec.MediaTypeImageIndex,
			Annotations: r.annotations(program),
		}
		for _, p := range r.platforms {
			if p.os != "linux" {
				continue
			}
			manifest, err := r.image(ctx, layout, scratch, p, program)
			if err != nil {
				return err
			}
			manifest.Annotations, manifest.Platform = nil, &ocispec.Platform{OS: p.os, Architecture: p.arch}
			index.Manifests = append(index.Manifests, manifest)
		}
		if len(index.Manifests) == 0 {
			continue
		}
		pushed, err := push(ctx, layout, ocispec.MediaTypeImageIndex, index, program+":"+r.version)
		if err != nil {
			return err
		}
		r.built[program] = pushed
	}
	return nil
}

// image builds a program's image for one platform and adds it to the layout.
func (r *release) image(
	ctx context.Context, layout *oci.Store, scratch string, p platform, program string,
) (ocispec.Descriptor, error) {
	if r.tools != "" {
		return r.koImage(ctx, layout, p, program)
	}
	dir := filepath.Dir(binary(scratch, p, program))
	_, err := output(ctx, nil, "go", "run", "./hack/images", "-repository", r.images, "-version", r.version, "-created",
		r.commit.time.Format(time.RFC3339), "-output", dir, binary(scratch, p, program))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	from, err := oci.NewFromTar(ctx, filepath.Join(dir, fmt.Sprintf("%s-linux-%s.tar", program, p.arch)))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	manifest, err := from.Resolve(ctx, r.version)
	if err != nil {
		return manifest, err
	}
	return manifest, oras.CopyGraph(ctx, from, layout, manifest, oras.DefaultCopyGraphOptions)
}

func (r *release) annotations(title string) map[string]string {
	return map[string]string{
		ocispec.AnnotationTitle: title, ocispec.AnnotationVersion: r.version, ocispec.AnnotationRevision: r.commit.hash,
		ocispec.AnnotationCreated: r.commit.time.Format(time.RFC3339), ocispec.AnnotationLicenses: "Apache-2.0",
	}
}

// push stores a document under a tag.
func push(ctx context.Context, to oras.Target, mediaType string, document any, tag string) (ocispec.Descriptor, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	pushed, err := oras.PushBytes(ctx, to, mediaType, data)
	if err != nil {
		return pushed, err
	}
	return pushed, to.Tag(ctx, pushed, tag)
}

// packLayout writes the layout as one file for oras and skopeo.
func (r *release) packLayout(scratch string) error {
	dir := filepath.Join(scratch, "oci")
	if err := sortIndex(filepath.Join(dir, ocispec.ImageIndexFile)); err != nil {
		return err
	}
	var files []plaintar.File
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		files = append(files, plaintar.File{Name: name, Data: data, Mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := plaintar.Write(&packed, files, r.commit.time); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, layoutFile(r.version)), packed.Bytes(), 0o644)
}

// sortIndex sorts the entries in the layout's index.json, which package oci writes in a random order.
func sortIndex(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return err
	}
	slices.SortFunc(index.Manifests, func(a, b ocispec.Descriptor) int {
		const name = ocispec.AnnotationRefName
		return cmp.Or(cmp.Compare(a.Annotations[name], b.Annotations[name]), cmp.Compare(a.Digest, b.Digest))
	})
	if data, err = json.Marshal(index); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
