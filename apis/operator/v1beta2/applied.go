package v1beta2

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// AppliedVersion is the version of a module that was applied whole last, as AnnotationApplied of its Manifest has it: while a newer one is
// refused, it is what runs and is kept in line.
// +kubebuilder:object:generate=false
type AppliedVersion struct {
	Version         string                     `json:"version"`
	Install         InstallInfo                `json:"install"`
	Config          *ImageSpec                 `json:"config,omitempty"`
	LocalizedImages []string                   `json:"localizedImages,omitempty"`
	Resource        *unstructured.Unstructured `json:"resource,omitempty"`
	// Images is AnnotationImages of that time.
	Images string `json:"images,omitempty"`
}

// Wanted returns what a Manifest asks for, in the form of what was applied.
func (m *Manifest) Wanted() AppliedVersion {
	return AppliedVersion{
		Version: m.Spec.Version, Install: m.Spec.Install, Config: m.Spec.Config, LocalizedImages: m.Spec.LocalizedImages,
		Resource: m.Spec.Resource, Images: m.Annotations[AnnotationImages],
	}
}

// Applied returns what was applied whole last, nil where that is not known.
func (m *Manifest) Applied() *AppliedVersion {
	text := m.Annotations[AnnotationApplied]
	if text == "" {
		return nil
	}
	var applied AppliedVersion
	if err := json.Unmarshal([]byte(text), &applied); err != nil {
		return nil
	}
	return &applied
}

// RunningVersion returns the version that was applied last, and the one that is asked for while none is known to be applied.
func (m *Manifest) RunningVersion() string {
	if applied := m.Applied(); applied != nil {
		return applied.Version
	}
	return m.Spec.Version
}
