package resolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// Ref names a component version. Template is the ModuleTemplate that contains its descriptor, empty if a repository
// contains it.
type Ref struct{ Component, Version, Template string }

// Need is a component version whose content is needed.
type Need struct {
	Ref
	// Descriptor is that of the ModuleTemplate, nil if it must be read from a repository.
	Descriptor *ocm.Descriptor
	// NamesItself: only the descriptor names the component.
	NamesItself bool
}

func refOf(choice catalog.Choice) Ref {
	ref := Ref{Component: choice.Component, Version: choice.Version}
	if choice.Descriptor != nil {
		ref.Template = choice.Template.Namespace + "/" + choice.Template.Name
	}
	return ref
}

// Content is the content of a component version, or the reason why it is not known.
type Content struct {
	// Install is the content to install.
	Install Part
	// Values are those of a chart, nil for none.
	Values *Part
	// Images are the references of all images of the component and its referenced components, sorted.
	Images []string
	// Release is the proof of the release, empty if the root of trust does not require one.
	Release []bundle.Content
	Err     error
}

// Parts returns the blobs to install.
func (c Content) Parts() []bundle.Content {
	if c.Values != nil {
		return []bundle.Content{c.Install.Content, c.Values.Content}
	}
	return []bundle.Content{c.Install.Content}
}

// Part is one blob of a module at the location that runtimes read.
type Part struct {
	bundle.Content
	// Type is Kyma's type of the blob in a Manifest.
	Type v1beta2.ImageSpecType
}

func (p Part) source() v1beta2.ImageSpec {
	return v1beta2.ImageSpec{Repo: p.Repository, Name: p.Name, Ref: p.Digest.String(), Type: p.Type}
}

const (
	// rawManifest is the resource that is installed, whatever its kind.
	rawManifest = "raw-manifest"
	// config is the resource with a chart's values.
	config = "config"
)

// Selection are the resources of a component to install.
type Selection struct {
	Install ocm.Resource
	Type    v1beta2.ImageSpecType
	// Values are those of a chart, nil for none.
	Values *ocm.Resource
}

// Select decides which of a component's resources are installed: the one named "raw-manifest", else the only one that
// is a chart or an overlay, with the resource "config" as a chart's values.
func Select(d ocm.Descriptor) (Selection, error) {
	var candidates []ocm.Resource
	for _, r := range d.Resources {
		if r.Name == rawManifest {
			candidates = append(candidates, r)
		}
	}
	if len(candidates) == 0 {
		for _, r := range d.Resources {
			if kind := installType(r); kind == v1beta2.HelmChart || kind == v1beta2.Kustomize {
				candidates = append(candidates, r)
			}
		}
	}
	subject := fmt.Sprintf("component %s:%s: component.resources", d.Name, d.Version)
	switch len(candidates) {
	case 0:
		return Selection{}, fmt.Errorf("%s: has nothing to install: want a resource %q, or one of type helmChart or kustomize", subject, rawManifest)
	case 1:
	default:
		names := make([]string, len(candidates))
		for i, r := range candidates {
			names[i] = r.Name + ":" + r.Version
		}
		return Selection{}, fmt.Errorf("%s: has several things to install (%s): name the one that is meant %q", subject, strings.Join(names, ", "), rawManifest)
	}
	selection := Selection{Install: candidates[0], Type: installType(candidates[0])}
	if selection.Type != v1beta2.HelmChart {
		return selection, nil
	}
	values := slices.Collect(func(yield func(ocm.Resource) bool) {
		for _, r := range d.Resources {
			if r.Name == config && !yield(r) {
				return
			}
		}
	})
	if len(values) > 1 {
		return Selection{}, fmt.Errorf("%s: has %d resources %q: keep one", subject, len(values), config)
	}
	if len(values) == 1 {
		selection.Values = &values[0]
	}
	return selection, nil
}

// installType returns the packaging of a resource.
func installType(r ocm.Resource) v1beta2.ImageSpecType {
	switch {
	case strings.EqualFold(r.Type, "helmChart") || r.Type == string(v1beta2.HelmChart) || r.Access.Kind() == ocm.AccessHelm:
		return v1beta2.HelmChart
	case strings.EqualFold(r.Type, "kustomize") || strings.EqualFold(r.Type, "kustomization"):
		return v1beta2.Kustomize
	case r.Type == "directoryTree" || r.Access.MediaType == "application/x-tar":
		return v1beta2.OCIDir
	}
	return v1beta2.OCIRef
}
