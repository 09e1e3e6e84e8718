package resolve

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// ComponentRef identifies a component version. If the component descriptor is in a ModuleTemplate, Template is the name
// of the ModuleTemplate. Otherwise, it is empty.
type ComponentRef struct{ Component, Version, Template string }

// ComponentNeed is a component version that must be read before Resolve can be called.
type ComponentNeed struct {
	ComponentRef
	// Descriptor is the component descriptor in the ModuleTemplate, or nil if the descriptor must be read from a
	// repository.
	Descriptor *ocm.Descriptor
	// IsSelfNamed is true if the component name comes only from the descriptor in the ModuleTemplate.
	IsSelfNamed bool
}

func componentRef(choice catalog.Choice) ComponentRef {
	ref := ComponentRef{Component: choice.Component, Version: choice.Version}
	if choice.Descriptor != nil {
		ref.Template = choice.Template.Namespace + "/" + choice.Template.Name
	}
	return ref
}

// Content is the content of a component version. If the component could not be read, Err is set.
type Content struct {
	Install Part
	// Values is the resource with the values of the module's Helm chart, or nil.
	Values *Part
	// Checks is the resource with the module's checks, or nil.
	Checks *Part
	// DefaultCR is the module's default CR in the signed release. IsLocked is true if the release must contain the
	// module's name and default CR. Both are only set if the root of trust contains release keys.
	DefaultCR *DefaultCR
	IsLocked  bool
	// Images lists the image references in the component and in the components that it references, sorted.
	Images []string
	// Release contains the documents that prove the signed release of the component. It is empty if the root of trust
	// contains no release keys.
	Release []bundle.Content
	Err     error
}

// DefaultCR is the resource of a component that contains the module's default CR.
type DefaultCR struct {
	Part   Part
	Object *unstructured.Unstructured
}

// Parts returns the blobs that an agent fetches to install the module.
func (c Content) Parts() []bundle.Content {
	parts := []bundle.Content{c.Install.Content}
	for _, more := range []*Part{c.Values, c.Checks} {
		if more != nil {
			parts = append(parts, more.Content)
		}
	}
	if c.DefaultCR != nil {
		parts = append(parts, c.DefaultCR.Part.Content)
	}
	return parts
}

// Part is one blob that an agent needs to install a module.
type Part struct {
	bundle.Content
	// Type is the value of the field type in the image spec of a Manifest.
	Type v1beta2.ImageSpecType
}

func (p Part) source() v1beta2.ImageSpec {
	return v1beta2.ImageSpec{Repo: p.Repository, Name: p.Name, Ref: p.Digest.String(), Type: p.Type}
}
