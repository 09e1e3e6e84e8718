package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

const (
	chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// maxChartFileBytes limits one file of a chart, as Helm does.
	maxChartFileBytes = 5 << 20
	// maxChartNesting limits archives within archives. Helm's own tools create one level.
	maxChartNesting = 8
)

// chartFiles returns a chart's files by their path inside the chart, with its subcharts unpacked. The blob is the
// chart's archive, which can be compressed, or an OCI artifact that contains it.
func chartFiles(blob []byte) ([]file, error) {
	data, err := decompress(blob)
	if err != nil {
		return nil, err
	}
	if !isTar(data) {
		return nil, errors.New("content is not an archive: pack it with helm package")
	}
	var b budget
	if names, err := topLevel(data); err != nil {
		return nil, err
	} else if slices.ContainsFunc(names, isArtifact) {
		archive, err := chartLayerOf(blob)
		if err != nil {
			return nil, err
		}
		if data, err = decompress(archive); err != nil {
			return nil, err
		}
	}
	files, err := b.chart(data, 0)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := checkDocument(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return files, nil
}

// topLevel returns the names at the top of an archive.
func topLevel(data []byte) ([]string, error) {
	var b budget
	var names []string
	_, err := b.untar(data, func(name string) bool {
		first, _, _ := strings.Cut(name, "/")
		names = append(names, first)
		return false
	})
	return names, err
}

// isArtifact recognizes the first files of an OCI layout and of OCM's older form of it.
func isArtifact(name string) bool {
	return name == "oci-layout" || name == "index.json" || name == "artifact-descriptor.json"
}

// chartLayerOf returns the chart inside an OCI artifact.
//
// Source: OCM specification, artifact sets; Helm's OCI media types (HIP 6).
func chartLayerOf(blob []byte) ([]byte, error) {
	set, err := ocm.OpenArtifactSet(blob)
	if err != nil {
		return nil, err
	}
	text, err := set.Blob(set.Main.Digest)
	if err != nil {
		return nil, err
	}
	if err := strict.YAML(text, strict.Limits{}); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	var layers []ocispec.Descriptor
	for _, layer := range manifest.Layers {
		if layer.MediaType == chartLayer {
			layers = append(layers, layer)
		}
	}
	if len(layers) != 1 {
		return nil, fmt.Errorf("manifest has %d layers of %s, want one", len(layers), chartLayer)
	}
	return set.Blob(layers[0].Digest)
}

// chart reads one archive and the archives inside it. Helm would unpack the inner ones itself, each with its own limit;
// here all share one limit.
func (b *budget) chart(data []byte, nesting int) ([]file, error) {
	members, err := b.untar(data, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, errors.New("archive is empty")
	}
	folder, _, _ := strings.Cut(members[0].name, "/")
	var files []file
	for _, m := range members {
		name, inside := strings.CutPrefix(m.name, folder+"/")
		if !inside {
			return nil, fmt.Errorf("%s is not in the chart's folder %s: pack it with helm package", m.name, folder)
		}
		if len(m.data) > maxChartFileBytes {
			return nil, fmt.Errorf("%s: %d bytes, at most %d in a chart's file", m.name, len(m.data), maxChartFileBytes)
		}
		if !isArchivedChart(name) {
			files = append(files, file{name, bytes.TrimPrefix(m.data, []byte("\xef\xbb\xbf"))})
			continue
		}
		inner, err := b.archivedChart(m.data, nesting+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		for _, f := range inner {
			// The folder's name does not matter. The extension keeps Helm from unpacking it again.
			files = append(files, file{name + ".unpacked/" + f.name, f.data})
		}
	}
	return files, nil
}

func (b *budget) archivedChart(data []byte, nesting int) ([]file, error) {
	if nesting > maxChartNesting {
		return nil, fmt.Errorf("charts in more than %d archives, one inside the other", maxChartNesting)
	}
	data, err := decompress(data)
	if err != nil {
		return nil, err
	}
	return b.chart(data, nesting)
}

// inChart removes the folders of subcharts from a path.
func inChart(name string) string {
	for {
		rest, inside := strings.CutPrefix(name, "charts/")
		_, rest, deeper := strings.Cut(rest, "/")
		if !inside || !deeper {
			return name
		}
		name = rest
	}
}

// isArchivedChart recognizes the archives that Helm reads as charts. Helm ignores names that start with a dot or
// underscore.
func isArchivedChart(name string) bool {
	archive, inside := strings.CutPrefix(inChart(name), "charts/")
	return inside && path.Ext(archive) == ".tgz" && strings.IndexAny(archive, "_.") != 0
}

// checkDocument refuses YAML that would grow when Helm reads it.
func checkDocument(f file) error {
	switch inChart(f.name) {
	case "Chart.yaml", "Chart.lock", "requirements.yaml", "requirements.lock":
		if len(f.data) > maxValuesBytes {
			return fmt.Errorf("%d bytes, at most %d", len(f.data), maxValuesBytes)
		}
		return strict.YAML(f.data, strict.Limits{})
	case "values.yaml":
		return checkExpansion(f.data)
	}
	return nil
}

// loadChart creates a chart from its files. The order of the files does not matter.
func loadChart(files []file) (*chart.Chart, error) {
	buffered := make([]*loader.BufferedFile, len(files))
	for i, f := range files {
		buffered[i] = &loader.BufferedFile{Name: f.name, Data: f.data}
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, err
	}
	return c, settle(c)
}

// settle orders the subcharts, which Helm reads from a map.
func settle(c *chart.Chart) error {
	inner := slices.Clone(c.Dependencies())
	slices.SortFunc(inner, func(a, b *chart.Chart) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Metadata.Version, b.Metadata.Version))
	})
	for i, one := range inner {
		if i > 0 && inner[i-1].Name() == one.Name() && inner[i-1].Metadata.Version == one.Metadata.Version {
			return fmt.Errorf("charts/ contains %s %s twice", one.Name(), one.Metadata.Version)
		}
		if err := settle(one); err != nil {
			return err
		}
	}
	c.SetDependencies(inner...)
	return nil
}

// checkInstallable repeats Helm's checks before an installation.
func checkInstallable(c *chart.Chart) error {
	if c.Metadata.Type == "library" {
		return errors.New("is a library chart, which installs nothing: use a chart that depends on it")
	}
	for _, wanted := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return d.Name() == wanted.Name }) {
			return fmt.Errorf("dependency %s is not in charts/: run helm dependency build before helm package",
				wanted.Name)
		}
	}
	return nil
}

// checkNames refuses charts that would overwrite each other's templates.
func checkNames(c *chart.Chart) error {
	seen := map[string]bool{}
	for _, inner := range c.Dependencies() {
		if seen[inner.Name()] {
			return fmt.Errorf("%s has two charts %s in charts/: give one an alias", c.ChartFullPath(), inner.Name())
		}
		seen[inner.Name()] = true
		if err := checkNames(inner); err != nil {
			return err
		}
	}
	return nil
}
