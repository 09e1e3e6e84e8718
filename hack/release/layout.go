package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/registry"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/hack/plaintar"
)

// layout returns the OCI image layout that gets images and charts, each under NAME:VERSION.
func layout(scratch string) (*oci.Store, error) { return oci.New(filepath.Join(scratch, "oci")) }

// buildImages makes an image of each program with an entry for each platform.
func (r *release) buildImages(ctx context.Context, scratch string) error {
	layout, err := layout(scratch)
	if err != nil {
		return err
	}
	for _, program := range programs {
		index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Annotations: r.annotations(program)}
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
		if err := push(ctx, layout, ocispec.MediaTypeImageIndex, index, program+":"+r.version); err != nil {
			return err
		}
	}
	return nil
}

// image makes the image of a program for one platform and puts it into the layout.
func (r *release) image(ctx context.Context, layout *oci.Store, scratch string, p platform, program string) (ocispec.Descriptor, error) {
	dir := filepath.Dir(binary(scratch, p, program))
	_, err := output(ctx, nil, "go", "run", "./hack/images", "-repository", r.images, "-version", r.version, "-created", r.commit.time.Format(time.RFC3339), "-output", dir, binary(scratch, p, program))
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

func push(ctx context.Context, to oras.Target, mediaType string, document any, tag string) error {
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	pushed, err := oras.PushBytes(ctx, to, mediaType, data)
	if err != nil {
		return err
	}
	return to.Tag(ctx, pushed, tag)
}

// buildCharts packs the charts with the release's version, as files and as Helm's OCI artifacts.
//
// Source: Helm Improvement Proposal 6, "OCI Support".
func (r *release) buildCharts(ctx context.Context, scratch string) error {
	layout, err := layout(scratch)
	if err != nil {
		return err
	}
	for _, name := range programs {
		packed, config, err := r.chart(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, fmt.Sprintf("%s-%s.tgz", name, r.version)), packed, 0o644); err != nil {
			return err
		}
		manifest := ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Annotations: r.annotations(name),
		}
		if manifest.Config, err = oras.PushBytes(ctx, layout, registry.ConfigMediaType, config); err != nil {
			return err
		}
		layer, err := oras.PushBytes(ctx, layout, registry.ChartLayerMediaType, packed)
		if err != nil {
			return err
		}
		manifest.Layers = []ocispec.Descriptor{layer}
		if err := push(ctx, layout, ocispec.MediaTypeImageManifest, manifest, "charts/"+name+":"+r.version); err != nil {
			return err
		}
	}
	return nil
}

// chart returns a chart as `helm package --version --app-version` makes it, and its metadata as JSON.
func (r *release) chart(name string) (packed, config []byte, err error) {
	loaded, err := loader.LoadDir(filepath.Join("charts", name))
	if err != nil {
		return nil, nil, err
	}
	loaded.Metadata.Version, loaded.Metadata.AppVersion = r.version, r.version
	metadata, err := yaml.Marshal(loaded.Metadata)
	if err != nil {
		return nil, nil, err
	}
	if config, err = json.Marshal(loaded.Metadata); err != nil {
		return nil, nil, err
	}
	var files []plaintar.File
	for _, f := range loaded.Raw { // sorted by name
		if f.Name == "Chart.yaml" {
			f.Data = metadata
		}
		files = append(files, plaintar.File{Name: path.Join(name, f.Name), Data: f.Data, Mode: 0o644})
	}
	packed, err = pack(files, r.commit.time)
	return packed, config, err
}

// packLayout writes the layout as one file, for oras and skopeo to copy from.
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

func layoutFile(version string) string { return "oci_" + version + ".tar" }

// sortIndex gives the index one order: the library writes it in any.
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
