// Package moduleinput builds the input for rendering a Manifest, and finds the images of its rendered objects.
//
// The agent renders a module with this input before it applies the module. kcp-publisher renders with the same input,
// so it finds the images that an agent would apply.
package moduleinput

import (
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// Problem is a problem that a module causes. Reason is a condition reason for the module's Manifest.
type Problem struct{ Reason, Message string }

// Sources loads the parts of a rendering input that are not in the Manifest.
type Sources struct {
	// Load returns the content with a digest. Its error is temporary.
	Load func(digest.Digest) ([]byte, *Problem, error)
	// Capabilities returns the API server's version and kinds, which only charts need.
	Capabilities func() (render.Capabilities, error)
}

// Input returns the input for rendering a Manifest. namespace is the default namespace for its objects.
// The error is temporary.
func (s Sources) Input(m *v1beta2.Manifest, namespace string) (in render.Input, problem *Problem, err error) {
	var source v1beta2.ImageSpec
	if err := json.Unmarshal(m.Spec.Install.Source.Raw, &source); err != nil {
		return in, &Problem{Reason: v1beta2.ReasonSourceBroken, Message: "spec.install.source: " + err.Error()}, nil
	}
	if in.Substitute, problem = Values(m); problem != nil {
		return in, problem, nil
	}
	in.Packed, in.Release, in.Namespace = source.Type, m.ModuleLabel(), namespace
	in.Content, problem, err = s.content(source, "spec.install.source")
	if problem != nil || err != nil || source.Type != v1beta2.HelmChart {
		return in, problem, err
	}
	if m.Spec.Config != nil {
		if in.Values, problem, err = s.content(*m.Spec.Config, "spec.config"); problem != nil || err != nil {
			return in, problem, err
		}
	}
	in.Kubernetes, err = s.Capabilities()
	return in, nil, err
}

// content loads the content that an ImageSpec refers to. field is the name of the field with the
// ImageSpec, for messages.
func (s Sources) content(source v1beta2.ImageSpec, field string) ([]byte, *Problem, error) {
	blob := digest.Digest(source.Ref)
	if err := blob.Validate(); err != nil {
		return nil, &Problem{
			Reason:  v1beta2.ReasonSourceBroken,
			Message: fmt.Sprintf("%s.ref: invalid digest %q: %v", field, source.Ref, err),
		}, nil
	}
	return s.Load(blob)
}

// Values returns the runtime's values that a module uses. The Problem reports an undefined or invalid value.
func Values(m *v1beta2.Manifest) (bundle.ModuleValues, *Problem) {
	values, err := bundle.ParseModuleValues(m.Annotations[v1beta2.AnnotationValues])
	if err != nil {
		return nil, &Problem{Reason: v1beta2.ReasonSourceBroken, Message: fmt.Sprintf("annotation %s: %v",
			v1beta2.AnnotationValues, err)}
	}
	if err := bundle.UndefinedValues(m.Module(), values.UndefinedNames()); err != nil {
		return nil, &Problem{Reason: v1beta2.ReasonValueUndefined, Message: err.Error()}
	}
	if err := bundle.InvalidValues(m.Module(), values.InvalidRefs(), m.Spec.Resource); err != nil {
		return nil, &Problem{Reason: v1beta2.ReasonValueInvalid, Message: err.Error()}
	}
	return values, nil
}

// DefaultCR returns a copy of a Manifest's default CR with the runtime's values, or nil if the Manifest has none. An
// error means that a value is undefined.
func DefaultCR(m *v1beta2.Manifest, values bundle.ModuleValues) (*unstructured.Unstructured, error) {
	if m.Spec.Resource == nil {
		return nil, nil
	}
	cr := m.Spec.Resource.DeepCopy()
	if len(values) == 0 {
		return cr, nil
	}
	if err := values.SubstituteObject(cr.Object); err != nil {
		return nil, fmt.Errorf("spec.resource: %w", err)
	}
	return cr, nil
}
