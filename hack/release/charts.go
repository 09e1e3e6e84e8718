package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/registry"
	"oras.land/oras-go/v2"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/hack/plaintar"
)

// buildCharts packs the charts with the release's version, as files and as OCI artifacts.
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
		if err := os.WriteFile(filepath.Join(r.dir, chartFile(name, r.version)), packed, 0o644); err != nil {
			return err
		}
		manifest := ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
			Annotations: r.annotations(name),
		}
		if manifest.Config, err = oras.PushBytes(ctx, layout, registry.ConfigMediaType, config); err != nil {
			return err
		}
		layer, err := oras.PushBytes(ctx, layout, registry.ChartLayerMediaType, packed)
		if err != nil {
			return err
		}
		manifest.Layers = []ocispec.Descriptor{layer}
		pushed, err := push(ctx, layout, ocispec.MediaTypeImageManifest, manifest, "charts/"+name+":"+r.version)
		if err != nil {
			return err
		}
		r.built["charts/"+name] = pushed
	}
	return nil
}

// chart packages a chart as `helm package --version --app-version` does, with the digest of the release's image.
// config is the chart's metadata as JSON.
func (r *release) chart(name string) (packed, config []byte, err error) {
	loaded, err := r.loadChart(name)
	if err != nil {
		return nil, nil, err
	}
	if config, err = json.Marshal(loaded.Metadata); err != nil {
		return nil, nil, err
	}
	var files []plaintar.File
	for _, f := range loaded.Raw { // sorted by file name
		files = append(files, plaintar.File{Name: path.Join(name, f.Name), Data: f.Data, Mode: 0o644})
	}
	packed, err = pack(files, r.commit.time)
	return packed, config, err
}

// loadChart returns a chart with the release's version and image.
func (r *release) loadChart(name string) (*chart.Chart, error) {
	dir := filepath.Join("charts", name)
	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	loaded.Metadata.Version, loaded.Metadata.AppVersion = r.version, r.version
	metadata, err := yaml.Marshal(loaded.Metadata)
	if err != nil {
		return nil, err
	}
	var buffered []*loader.BufferedFile
	for _, f := range loaded.Raw {
		switch f.Name {
		case chartutil.ChartfileName:
			f.Data = metadata
		case chartutil.ValuesfileName:
			if f.Data, err = r.setImage(f.Data, name); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		buffered = append(buffered, &loader.BufferedFile{Name: f.Name, Data: f.Data})
	}
	return loader.LoadFiles(buffered)
}

// imagePattern matches a chart's image in its values.yaml.
var imagePattern = regexp.MustCompile(`(?m)^  repository: \S+/(kcp-publisher|skr-agent)$((?:.*\n)*?)^  digest: ""$`)

// setImage sets the release's image in a chart's values.yaml. It sets the digest if the release has images.
func (r *release) setImage(values []byte, name string) ([]byte, error) {
	if found := imagePattern.FindAll(values, -1); len(found) != 1 {
		return nil, fmt.Errorf("found %d images with a repository and an empty digest, expected one", len(found))
	}
	at := `""` // for a release without images, such as one for macOS only
	if built, ok := r.built[name]; ok {
		at = built.Digest.String()
	}
	return imagePattern.ReplaceAll(values, []byte("  repository: "+r.images+"/"+name+"${2}  digest: "+at)), nil
}
