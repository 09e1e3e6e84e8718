package resolve

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// Ref identifies a component version. Template is the ModuleTemplate that contains the descriptor. It is empty if the
// descriptor is in a repository.
type Ref struct{ Component, Version, Template string }

// Need is a component version whose content Resolve needs.
type Need struct {
	Ref
	// Descriptor is the descriptor in the ModuleTemplate, or nil if it must be read from a repository.
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

// Content is the content of a component version, or an error if the content could not be read.
type Content struct {
	// Install is the content to install.
	Install Part
	// Values are the values of a chart, or nil if no values are configured.
	Values *Part
	// Checks are the checks that the module ships, or nil if it ships none.
	Checks *Part
	// DefaultCR is the released default CR, and Locked is true if agents require the release to cover the module's name
	// and default CR. Both are set only if the root of trust has release keys.
	DefaultCR *DefaultCR
	Locked    bool
	// Images are the sorted references of all images in the component and its referenced components.
	Images []string
	// Release is the proof of the release. It is empty if the root of trust does not require a proof.
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

// Part is one blob of a module at the location from which runtimes read it.
type Part struct {
	bundle.Content
	// Type is the type of the blob in a Manifest's image spec.
	Type v1beta2.ImageSpecType
}

func (p Part) source() v1beta2.ImageSpec {
	return v1beta2.ImageSpec{Repo: p.Repository, Name: p.Name, Ref: p.Digest.String(), Type: p.Type}
}
