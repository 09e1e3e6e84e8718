// Package chart renders the project's Helm charts as Helm does, for tests.
package chart

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Release is a chart with the options of `helm install`.
type Release struct {
	Dir             string
	Name, Namespace string
	Values          map[string]any
}

// Rendered contains the objects and notes of a release.
type Rendered struct {
	// Templates contains the output of each non-empty template by file name.
	Templates map[string]string
	// Notes is the text that Helm prints after an installation.
	Notes string
}

// Render renders the templates as `helm install` does for an empty cluster, without the CRDs in crds/. It returns an
// error if the chart's schema rejects the values.
func (r Release) Render() (Rendered, error) {
	loaded, err := loader.LoadDir(r.Dir)
	if err != nil {
		return Rendered{}, fmt.Errorf("load chart %s: %w", r.Dir, err)
	}
	options := chartutil.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(loaded, r.Values, options, nil)
	if err != nil {
		return Rendered{}, err
	}
	texts, err := engine.Render(loaded, values)
	if err != nil {
		return Rendered{}, err
	}
	rendered := Rendered{Templates: map[string]string{}}
	for file, text := range texts {
		switch name := path.Base(file); {
		case name == "NOTES.txt":
			rendered.Notes = text
		case !strings.HasPrefix(name, "_") && strings.TrimSpace(text) != "":
			rendered.Templates[name] = text
		}
	}
	return rendered, nil
}

// Objects returns all objects, sorted by the names of their templates.
func (r Rendered) Objects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(r.Templates)) {
		for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(r.Templates[name]), 4096); ; {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("template %s: %w", name, err)
			}
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}
