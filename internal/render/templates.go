package render

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// renderOnce renders a chart once and returns the objects in the order of installation. It loads the chart each time,
// because templates can modify the values of a loaded chart.
func (in Input) renderOnce(files []file, layer []byte) ([]placedObject, error) {
	c, err := loadChart(files)
	if err != nil {
		return nil, err
	}
	if err := checkInstallable(c); err != nil {
		return nil, err
	}
	values, err := in.values(c, layer)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(c, values)
	if err != nil {
		return nil, fmt.Errorf("%s", shortenMessage(err.Error()))
	}
	var p parser
	if err := p.crds(c); err != nil {
		return nil, err
	}
	definitions := slices.Clone(p.found)
	if err := p.manifests(texts); err != nil {
		return nil, err
	}
	objects := p.found[len(definitions):]
	if in.TestHooks {
		return slices.DeleteFunc(objects, func(o placedObject) bool { return !isTest(o.object) }), nil
	}
	found, err := withoutHooks(objects)
	if err != nil {
		return nil, err
	}
	return slices.Concat(definitions, found.definitions, found.before, found.release, found.after), nil
}

// UsualCapabilities returns the capabilities for a cluster with only Kubernetes' own APIs. An empty version means the
// version of the Kubernetes libraries in this program.
func UsualCapabilities(version string) Capabilities {
	return Capabilities{
		Version: cmp.Or(version, libraryVersion()), APIVersions: chartutil.DefaultCapabilities.APIVersions,
	}
}

func libraryVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if rest, ok := strings.CutPrefix(dependency.Version, "v0."); ok && dependency.Path == "k8s.io/client-go" {
				return "v1." + rest
			}
		}
	}
	return chartutil.DefaultCapabilities.KubeVersion.Version
}

// values returns the top-level objects for templates, such as .Values and .Release. layer is the module's
// config layer.
func (in Input) values(c *chart.Chart, layer []byte) (chartutil.Values, error) {
	defaults, err := in.configValues(layer, c.Name())
	if err != nil {
		return nil, err
	}
	version, err := chartutil.ParseKubeVersion(in.Kubernetes.Version)
	if err != nil {
		return nil, fmt.Errorf("parse the Kubernetes version: %w", err)
	}
	if wanted := c.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, version.Version) {
		return nil,
			fmt.Errorf("the chart requires Kubernetes %s, but the cluster has %s: use another version of the module",
				wanted, version)
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, defaults); err != nil {
		return nil, err
	}
	if err := checkNames(c); err != nil {
		return nil, err
	}
	// Each version is rendered as a first installation. Upgrades would need stored Helm releases, which the agent
	// does not have.
	release := chartutil.ReleaseOptions{Name: in.Release, Namespace: in.Namespace, Revision: 1, IsInstall: true}
	capabilities := &chartutil.Capabilities{
		KubeVersion: *version, APIVersions: in.Kubernetes.APIVersions,
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	values, err := chartutil.ToRenderValuesWithSchemaValidation(c, defaults, release, capabilities, true)
	if err != nil {
		return nil, err
	}
	all, _ := values["Values"].(chartutil.Values)
	return values, checkSchemas(c, all)
}

// crds parses the files in the crds folders, which are not templated.
func (p *parser) crds(c *chart.Chart) error {
	files := c.CRDObjects()
	slices.SortFunc(files, func(a, b chart.CRD) int { return cmp.Compare(a.Filename, b.Filename) })
	for _, f := range files {
		if err := p.documents(file{f.Filename, f.File.Data}); err != nil {
			return err
		}
	}
	return nil
}

// manifests parses the templates' output by file name.
func (p *parser) manifests(texts map[string]string) error {
	names := make([]string, 0, len(texts))
	total := 0
	for name, text := range texts {
		if total += len(text); total > bundle.MaxLayerBytes {
			return fmt.Errorf("the templates render to more than %d bytes", bundle.MaxLayerBytes)
		}
		if !strings.HasSuffix(name, "NOTES.txt") && strings.TrimSpace(text) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for i, text := range split(texts[name]) {
			if i == maxDocuments {
				return fmt.Errorf("%s: more than %d documents", name, maxDocuments)
			}
			if err := p.document(fmt.Sprintf("%s, document %d", name, i+1), []byte(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// split divides a template's output at lines that start with ---. It omits empty documents.
//
// Source: Helm's releaseutil.SplitManifests, which uses a regular expression and takes ten times as long.
func split(text string) []string {
	var documents []string
	keep := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			documents = append(documents, text)
		}
	}
	start := 0
	for at := 0; at < len(text); {
		if strings.HasPrefix(text[at:], "---") {
			keep(text[start:at])
			start = at + len("---")
		}
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	keep(text[start:])
	return documents
}
