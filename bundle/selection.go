package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

const (
	rawManifest = "raw-manifest"
	config      = "config"
)

// Selection contains the component resources to install.
type Selection struct {
	Install ocm.Resource
	Type    v1beta2.ImageSpecType
	// Values is the resource with the chart values, or nil if the component does not contain it.
	Values *ocm.Resource
	// Checks is the resource with the module's checks, or nil if the component does not contain it.
	Checks *ocm.Resource
	// DefaultCR is the resource with the module's default CR, or nil if the component does not contain exactly one.
	DefaultCR *ocm.Resource
}

// Select returns the resources to install: the resource "raw-manifest" or, if none has that name, the only Helm chart
// or Kustomize overlay. The resources "config" and "checks" are optional.
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
		return Selection{},
			fmt.Errorf("%s: no resource to install: add a resource %q, or one of type helmChart or kustomize", subject,
				rawManifest)
	case 1:
	default:
		names := make([]string, len(candidates))
		for i, r := range candidates {
			names[i] = r.Name + ":" + r.Version
		}
		return Selection{},
			fmt.Errorf("%s: several resources to install (%s): rename the intended resource to %q", subject,
				strings.Join(names, ", "), rawManifest)
	}
	selection := Selection{Install: candidates[0], Type: installType(candidates[0])}
	var err error
	if selection.Checks, err = onlyResource(d, ContentChecks); err == nil && selection.Type == v1beta2.HelmChart {
		selection.Values, err = onlyResource(d, config)
	}
	if err != nil {
		return Selection{}, fmt.Errorf("%s: %w", subject, err)
	}
	// A component with several default CRs is an error only if the root of trust has release keys. CheckReleases then
	// refuses it, because DefaultCR is nil.
	selection.DefaultCR, _ = onlyResource(d, ContentDefaultCR)
	return selection, nil
}

// Needed returns all selected resources except the default CR.
func (s Selection) Needed() []ocm.Resource {
	needed := []ocm.Resource{s.Install}
	for _, more := range []*ocm.Resource{s.Values, s.Checks} {
		if more != nil {
			needed = append(needed, *more)
		}
	}
	return needed
}

func onlyResource(d ocm.Descriptor, name string) (*ocm.Resource, error) {
	named := slices.DeleteFunc(slices.Clone(d.Resources), func(r ocm.Resource) bool { return r.Name != name })
	switch len(named) {
	case 0:
		return nil, nil
	case 1:
		return &named[0], nil
	}
	return nil, fmt.Errorf("%d resources are named %q: keep one", len(named), name)
}

func installType(r ocm.Resource) v1beta2.ImageSpecType {
	switch {
	case strings.EqualFold(r.Type, "helmChart") || r.Type == string(v1beta2.HelmChart) ||
		r.Access.Kind() == ocm.AccessHelm:
		return v1beta2.HelmChart
	case strings.EqualFold(r.Type, "kustomize") || strings.EqualFold(r.Type, "kustomization"):
		return v1beta2.Kustomize
	case r.Type == "directoryTree" || r.Access.MediaType == "application/x-tar":
		return v1beta2.OCIDir
	}
	return v1beta2.OCIRef
}
