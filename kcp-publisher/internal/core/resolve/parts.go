package resolve

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// Ref identifies a component version. Template is the ModuleTemplate with an inline descriptor, or empty.
type Ref struct{ Component, Version, Template string }

// Need is a component version whose content Resolve needs.
type Need struct {
	Ref
	// Descriptor is the inline descriptor, or nil if it must be read from a repository.
	Descriptor *ocm.Descriptor
	// NamesItself is true if only the descriptor contains the component's name.
	NamesItself bool
}

func refOf(choice catalog.Choice) Ref {
	ref := Ref{Component: choice.Component, Version: choice.Version}
	if choice.Descriptor != nil {
		ref.Template = choice.Template.Namespace + "/" + choice.Template.Name
	}
	return ref
}

// Content is the content of a component version, or an error.
type Content struct {
	Install Part
	// Values are the values of a chart, or nil.
	Values *Part
	// Checks are the checks of the module, or nil.
	Checks *Part
	// DefaultCR is the released default CR. Locked is true if the release must cover the module's name and default CR.
	// Both are set only if the root of trust has release keys.
	DefaultCR *DefaultCR
	Locked    bool
	// Images are the image references in the component and its referenced components, sorted.
	Images []string
	// Release is the proof of the release, or empty without release keys.
	Release []bundle.Content
	Err     error
}

// DefaultCR is a resource that contains the module's default CR.
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

// Part is one blob of a module.
type Part struct {
	bundle.Content
	// Type is the type of the blob in a Manifest's image spec.
	Type v1beta2.ImageSpecType
}

func (p Part) source() v1beta2.ImageSpec {
	return v1beta2.ImageSpec{Repo: p.Repository, Name: p.Name, Ref: p.Digest.String(), Type: p.Type}
}
