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
	// maxChartFileBytes limits the size of a file in a chart. Helm has the same limit.
	maxChartFileBytes = 5 << 20
	// maxChartNesting limits the nesting of packaged subcharts. Helm creates only one level.
	maxChartNesting = 8
)

// chartFiles returns the files in a chart and its packaged subcharts, with paths inside the chart. The blob is the
// chart's archive, or an OCI artifact that contains the archive.
func chartFiles(blob []byte) ([]file, error) {
	data, err := decompress(blob, MaxUnpackedBytes)
	if err != nil {
		return nil, err
	}
	if !isTar(data) {
		return nil, errors.New("content is not an archive: create it with `helm package`")
	}
	if names, err := topLevel(data); err != nil {
		return nil, err
	} else if slices.ContainsFunc(names, isArtifact) {
		archive, err := findChartLayer(blob)
		if err != nil {
			return nil, err
		}
		if data, err = decompress(archive, MaxUnpackedBytes); err != nil {
			return nil, err
		}
	}
	files, err := newBudget(MaxUnpackedBytes).chart(data, 0)
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

func topLevel(data []byte) ([]string, error) {
	var names []string
	_, err := newBudget(MaxUnpackedBytes).untar(data, func(name string) bool {
		first, _, _ := strings.Cut(name, "/")
		names = append(names, first)
		return false
	})
	return names, err
}

// isArtifact reports whether a name belongs to an OCI layout or to OCM's older artifact set.
func isArtifact(name string) bool {
	return name == "oci-layout" || name == "index.json" || name == "artifact-descriptor.json"
}

// findChartLayer returns the chart's archive in an OCI artifact.
//
// Source: OCM specification, artifact sets; Helm's OCI media types (HIP 6).
func findChartLayer(blob []byte) ([]byte, error) {
	set, err := ocm.OpenArtifactSet(blob)
	if err != nil {
		return nil, err
	}
	text, err := set.Blob(set.Main.Digest)
	if err != nil {
		return nil, err
	}
	if err := strict.CheckYAML(text, strict.Limits{}); err != nil {
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
		return nil, fmt.Errorf("manifest has %d layers of media type %s, must have one", len(layers), chartLayer)
	}
	return set.Blob(layers[0].Digest)
}

// chart reads the archives of a chart and its subcharts. One size limit applies to all archives together.
func (b *budget) chart(data []byte, nesting int) ([]file, error) {
	members, err := b.untar(data, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, errors.New("the archive does not contain files")
	}
	folder, _, _ := strings.Cut(members[0].name, "/")
	var files []file
	for _, m := range members {
		name, inside := strings.CutPrefix(m.name, folder+"/")
		if !inside {
			return nil, fmt.Errorf("%s is not in the chart's folder %s: create the archive with `helm package`", m.name, folder)
		}
		if len(m.data) > maxChartFileBytes {
			return nil, fmt.Errorf("%s is %d bytes, must be at most %d", m.name, len(m.data), maxChartFileBytes)
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
			// Helm accepts any folder name for a subchart, but treats a name that ends in .tgz as an archive.
			files = append(files, file{name + ".unpacked/" + f.name, f.data})
		}
	}
	return files, nil
}

func (b *budget) archivedChart(data []byte, nesting int) ([]file, error) {
	if nesting > maxChartNesting {
		return nil, fmt.Errorf("more than %d nested chart archives", maxChartNesting)
	}
	data, err := decompress(data, MaxUnpackedBytes)
	if err != nil {
		return nil, err
	}
	return b.chart(data, nesting)
}

// inChart returns a file's path relative to the innermost subchart that contains the file.
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

// isArchivedChart reports whether Helm treats a file as a subchart archive.
func isArchivedChart(name string) bool {
	archive, inside := strings.CutPrefix(inChart(name), "charts/")
	return inside && path.Ext(archive) == ".tgz" && strings.IndexAny(archive, "_.") != 0
}

// checkDocument returns an error for a chart's YAML file that exceeds the limits.
func checkDocument(f file) error {
	switch inChart(f.name) {
	case "Chart.yaml", "Chart.lock", "requirements.yaml", "requirements.lock":
		if len(f.data) > maxValuesBytes {
			return fmt.Errorf("the file is %d bytes, must be at most %d", len(f.data), maxValuesBytes)
		}
		return strict.CheckYAML(f.data, strict.Limits{})
	case "values.yaml":
		return checkExpansion(f.data)
	}
	return nil
}

func loadChart(files []file) (*chart.Chart, error) {
	buffered := make([]*loader.BufferedFile, len(files))
	for i, f := range files {
		buffered[i] = &loader.BufferedFile{Name: f.name, Data: f.data}
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, err
	}
	return c, sortSubcharts(c)
}

// sortSubcharts makes the order of subcharts deterministic. Helm returns them in random order.
func sortSubcharts(c *chart.Chart) error {
	inner := slices.Clone(c.Dependencies())
	slices.SortFunc(inner, func(a, b *chart.Chart) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Metadata.Version, b.Metadata.Version))
	})
	for i, one := range inner {
		if i > 0 && inner[i-1].Name() == one.Name() && inner[i-1].Metadata.Version == one.Metadata.Version {
			return fmt.Errorf("charts/ contains %s %s twice", one.Name(), one.Metadata.Version)
		}
		if err := sortSubcharts(one); err != nil {
			return err
		}
	}
	c.SetDependencies(inner...)
	return nil
}

// checkInstallable makes the same checks as Helm before an installation.
func checkInstallable(c *chart.Chart) error {
	if c.Metadata.Type == "library" {
		return errors.New("a library chart cannot be installed: use a chart that depends on it")
	}
	for _, wanted := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return d.Name() == wanted.Name }) {
			return fmt.Errorf("dependency %s is not in charts/: run `helm dependency build` before `helm package`",
				wanted.Name)
		}
	}
	return nil
}

// checkNames returns an error for subcharts with the same name. They would overwrite each other's templates.
func checkNames(c *chart.Chart) error {
	seen := map[string]bool{}
	for _, inner := range c.Dependencies() {
		if seen[inner.Name()] {
			return fmt.Errorf("%s has two charts named %s in charts/: set an alias for one of them", c.ChartFullPath(),
				inner.Name())
		}
		seen[inner.Name()] = true
		if err := checkNames(inner); err != nil {
			return err
		}
	}
	return nil
}
