package assemble

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// Files are a module's packed files.
type Files struct {
	// Type is the type of the resource: directoryTree, helmChart or kustomize.
	Type      string
	MediaType string
	Packed    []byte
	// Values contains YAML that overrides a chart's default values, or is empty.
	Values []byte
	// DefaultCR is the module's default CR, in YAML, or empty.
	DefaultCR []byte
	// Checks contains the module's checks, in YAML, or is empty.
	Checks []byte
	// Kubernetes describes the cluster that Check assumes when it renders a chart.
	Kubernetes render.Capabilities
	// Rendered is true if agents must render the content, such as a chart, before they apply it.
	Rendered bool
	// hidden lists the hidden files and folders in a kustomization's folder. They are not packed, because files such as
	// .env often contain credentials.
	hidden []string
}

// Renderer renders the objects in a module's content.
type Renderer func(context.Context, render.Input) ([]*unstructured.Unstructured, error)

// CheckResult is the result of checking files.
type CheckResult struct {
	// Objects contains the rendered objects.
	Objects []*unstructured.Unstructured
	// Images lists the images in the pods of plain manifests. It is empty for content that must be rendered.
	Images []string
	// Ignored lists the unknown fields of objects, which agents ignore.
	Ignored []string
	// Tests contains the checks that were created from a chart's test hooks.
	Tests Tests
}

// Check renders the files as an agent would. It returns an error if agents would refuse any part of the content. Check
// uses the module's name as the release name if the files are a chart.
func (f Files) Check(ctx context.Context, module string, renderer Renderer) (checked CheckResult, err error) {
	in, err := f.input(module)
	if err != nil {
		return CheckResult{}, err
	}
	objects, err := renderer(ctx, in)
	if err != nil {
		return CheckResult{}, f.explainHidden(err)
	}
	accepted, err := checkContent(objects, f.DefaultCR)
	if err != nil {
		return CheckResult{}, err
	}
	checked.Objects, checked.Ignored = objects, accepted.Ignored
	if !f.Rendered {
		if checked.Images, err = usedImages(objects); err != nil {
			return CheckResult{}, err
		}
	}
	checked.Tests, err = f.tests(ctx, module, renderer, objects)
	return checked, err
}

// explainHidden adds the hidden files to an error from rendering a kustomization, which may refer to one of them.
func (f Files) explainHidden(err error) error {
	if len(f.hidden) == 0 {
		return err
	}
	names := strings.Join(f.hidden[:min(len(f.hidden), maxListedHidden)], ", ")
	return fmt.Errorf("%w; hidden files are not packed (%s): if the kustomization refers to one, rename it", err, names)
}

const maxListedHidden = 3

// input returns the input for rendering the files. Sample values replace the placeholders for runtime values.
func (f Files) input(module string) (render.Input, error) {
	refs, err := f.ValueRefs()
	return render.Input{
		Content: f.Packed, Packed: packedAs[f.Type], Values: f.Values, Release: module, Namespace: moduleNamespace,
		Kubernetes: f.Kubernetes, CheckKinds: true, Substitute: bundle.SampleValues(refs),
	}, err
}

const moduleNamespace = "kyma-system"

var packedAs = map[string]v1beta2.ImageSpecType{
	typeDirectory: v1beta2.OCIDir,
	typeChart:     v1beta2.HelmChart,
	typeKustomize: v1beta2.Kustomize,
}

const maxBytes = 64 << 20

const (
	typeDirectory, typeChart, typeKustomize = "directoryTree", "helmChart", "kustomize"
	mediaTypeTar, mediaTypeChart            = "application/x-tar", "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	typeValues, typeYAML, mediaTypeYAML     = "helmValues", "yaml", "application/yaml"
)

// IsChart reports whether the files are a chart, whose objects can depend on the cluster.
func (f Files) IsChart() bool { return f.Type == typeChart }

// Read packs the content at a path: a chart, a folder with a kustomization, or manifests.
func Read(from string) (Files, error) {
	files, err := pack(from)
	files.Kubernetes = render.UsualCapabilities("")
	return files, err
}

func pack(from string) (Files, error) {
	info, err := os.Stat(from)
	switch {
	case err != nil:
		return Files{}, err
	case info.IsDir() && exists(from, "Chart.yaml"):
		return chartFolder(from)
	case info.IsDir() &&
		(exists(from, "kustomization.yaml") || exists(from, "kustomization.yml") || exists(from, "Kustomization")):
		return kustomization(from)
	case info.IsDir():
		return manifests(os.DirFS(from), from)
	case strings.HasSuffix(from, ".tgz") || strings.HasSuffix(from, ".tar.gz"):
		return chartArchive(from)
	}
	data, err := readFile(from)
	if err != nil {
		return Files{}, err
	}
	name := filepath.Base(from)
	if !render.IsManifest(name) {
		name += ".yaml" // agents ignore files without a YAML or JSON extension
	}
	return packManifests([]file{{name, data}})
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

type file struct {
	name string
	data []byte
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = errTooLarge(path)
	}
	return data, err
}

func errTooLarge(what string) error { return fmt.Errorf("%s: larger than %d MiB", what, maxBytes>>20) }

func chartArchive(from string) (Files, error) {
	data, err := readFile(from)
	if err != nil {
		return Files{}, err
	}
	if _, err := loader.LoadArchive(bytes.NewReader(data)); err != nil {
		return Files{}, fmt.Errorf("%s is not a Helm chart: %w", from, err)
	}
	return Files{Type: typeChart, MediaType: mediaTypeChart, Packed: data, Rendered: true}, nil
}

// chartFolder packs a chart like `helm package`, but with reproducible bytes.
func chartFolder(from string) (Files, error) {
	if err := regularOnly(os.DirFS(from)); err != nil {
		return Files{}, fmt.Errorf("%s: %w", from, err)
	}
	chart, err := loader.LoadDir(from)
	if err != nil {
		return Files{}, fmt.Errorf("%s: %w", from, err)
	}
	var files []file
	size := 0
	for _, f := range chart.Raw {
		if size += len(f.Data); size > maxBytes {
			return Files{}, errTooLarge(from)
		}
		files = append(files, file{path.Join(chart.Name(), f.Name), f.Data})
	}
	packed, err := packTar(files)
	if err != nil {
		return Files{}, fmt.Errorf("%s: %w", from, err)
	}
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	if _, err := writer.Write(packed); err != nil {
		return Files{}, err
	}
	if err := writer.Close(); err != nil {
		return Files{}, err
	}
	return Files{Type: typeChart, MediaType: mediaTypeChart, Packed: zipped.Bytes(), Rendered: true}, nil
}

// regularOnly returns an error if the folder contains a link or another special file. Helm follows links, so a third
// party's chart could include files from outside its folder.
func regularOnly(folder fs.FS) error {
	return fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !entry.Type().IsRegular() {
			err = errIrregular(name)
		}
		return err
	})
}

func errIrregular(name string) error {
	return fmt.Errorf("%s is not a regular file: replace it with a regular file", name)
}

func kustomization(from string) (Files, error) {
	files, hidden, err := readFolder(os.DirFS(from), func(string) bool { return true })
	if err != nil {
		return Files{}, fmt.Errorf("%s: %w", from, err)
	}
	packed, err := packTar(files)
	return Files{Type: typeKustomize, MediaType: mediaTypeTar, Packed: packed, Rendered: true, hidden: hidden}, err
}

func manifests(folder fs.FS, root string) (Files, error) {
	files, _, err := readFolder(folder, render.IsManifest)
	if err != nil {
		return Files{}, fmt.Errorf("%s: %w", root, err)
	}
	if len(files) == 0 {
		return Files{}, fmt.Errorf("%s contains no Chart.yaml, kustomization or YAML file", root)
	}
	return packManifests(files)
}

func packManifests(files []file) (Files, error) {
	packed, err := packTar(files)
	return Files{Type: typeDirectory, MediaType: mediaTypeTar, Packed: packed}, err
}

// readFolder returns the wanted files in a folder and its subfolders, and the names of the hidden files and folders
// that it skipped.
func readFolder(folder fs.FS, wanted func(name string) bool) (files []file, hidden []string, err error) {
	size := int64(0)
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(entry.Name(), "."):
			hidden = append(hidden, name)
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || !wanted(name):
			return nil
		case !entry.Type().IsRegular():
			return errIrregular(name)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if size += info.Size(); size > maxBytes {
			return errTooLarge(name)
		}
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		files = append(files, file{name, data})
		return nil
	})
	return files, hidden, err
}

// packTar packs files into a gzipped tar. The tar does not contain times, owners or other machine-specific data, so
// that equal files produce equal bytes.
func packTar(files []file) ([]byte, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var packed bytes.Buffer
	writer := tar.NewWriter(&packed)
	for _, f := range files {
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644,
			Size: int64(len(f.data)), Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
		if _, err := io.Copy(writer, bytes.NewReader(f.data)); err != nil {
			return nil, err
		}
	}
	return packed.Bytes(), writer.Close()
}
