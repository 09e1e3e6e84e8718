package resolve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

func newManifest(w requestedModule, content Content) (*bundle.Manifest, error) {
	choice := w.choice
	if err := w.checkContent(content); err != nil {
		return nil, err
	}
	name, err := manifestName(choice.Module)
	if err != nil {
		return nil, err
	}
	manifest := &bundle.Manifest{
		Name: name, Module: choice.Module, Channel: choice.Channel, Version: choice.Version,
		Component: choice.Component, Template: choice.Template.Name,
		Labels: w.labels(name),
		// As in lifecycle-manager, mandatory modules do not wait for maintenance windows, because users cannot see
		// these modules.
		RequiresDowntime: choice.Template.Spec.RequiresDowntime && !choice.Mandatory,
		Content:          content.Parts(), Release: content.Release,
	}
	if w.inherited != nil {
		manifest.Inherited = w.inherited.Objects
	}
	if err := w.checkValues(); err != nil {
		return nil, err
	}
	if manifest.Annotations, err = w.annotations(name); err != nil {
		return nil, err
	}
	if manifest.Spec, err = w.spec(content); err != nil {
		return nil, err
	}
	if content.IsLocked {
		if err := w.checkLocked(manifest, content); err != nil {
			return nil, err
		}
	}
	return manifest, nil
}

// checkLocked returns an error if the module's name or default CR differs from the component's signed release.
func (w *requestedModule) checkLocked(m *bundle.Manifest, content Content) error {
	var released *unstructured.Unstructured
	if content.DefaultCR != nil {
		released = content.DefaultCR.Object
	}
	if err := bundle.CheckReleaseOf(m.Module, m.Component, m.Spec.Resource, released); err != nil {
		return reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s, component %s:%s: %w", m.Template, m.Component,
			m.Version, err)
	}
	return nil
}

// checkContent returns an error if the component could not be read or if agents would refuse its content.
func (w *requestedModule) checkContent(content Content) error {
	if content.Err != nil {
		return wrapComponentError(content.Err)
	}
	for _, part := range content.Parts() {
		if part.SizeBytes > bundle.MaxLayerBytes {
			return reason.Errorf(reason.ComponentBroken, "component %s:%s: resource %q is %d bytes, limit %d",
				w.choice.Component, w.choice.Version, part.Name, part.SizeBytes, bundle.MaxLayerBytes)
		}
	}
	return nil
}

func wrapComponentError(err error) error {
	if reason.Of(err) != reason.Other {
		return err
	}
	return reason.With(reason.ComponentBroken, err)
}

func manifestName(module string) (string, error) {
	name := bundle.ManifestName(module)
	if problems := validation.IsDNS1123Label(strings.ReplaceAll(name, ".", "-")); len(problems) > 0 {
		return "",
			fmt.Errorf("its name is not a valid Manifest name: %s: request it by its module name",
				strings.Join(problems, ", "))
	}
	return name, nil
}

func (w *requestedModule) labels(name string) map[string]string {
	all := map[string]string{
		v1beta2.LabelModuleName: name,
		v1beta2.LabelKymaName:   v1beta2.RuntimeKymaName,
		v1beta2.LabelManagedBy:  v1beta2.ManagedByKyma,
	}
	if w.choice.Channel != "" {
		all[v1beta2.LabelChannel] = w.choice.Channel
	}
	if controller := w.choice.Template.Labels[v1beta2.LabelControllerName]; controller != "" {
		all[v1beta2.LabelControllerName] = controller
	}
	if w.choice.Mandatory {
		all[v1beta2.LabelMandatoryModule] = v1beta2.True
	}
	return all
}

func (w *requestedModule) annotations(name string) (map[string]string, error) {
	all := map[string]string{v1beta2.AnnotationFQDN: w.choice.Component}
	if name != w.choice.Module {
		all[v1beta2.AnnotationModule] = w.choice.Module
	}
	if checks := w.choice.Template.Spec.CustomStateCheck; len(checks) > 0 {
		text, err := json.Marshal(checks)
		if err != nil {
			return nil, err
		}
		all[v1beta2.AnnotationCustomStateCheck] = string(text)
	}
	if recreate := w.choice.Template.Annotations[v1beta2.AnnotationRecreate]; recreate == v1beta2.True {
		all[v1beta2.AnnotationRecreate] = recreate
	}
	if values := w.choice.Template.Annotations[v1beta2.AnnotationUsesValues]; values != "" {
		all[v1beta2.AnnotationUsesValues] = values
	}
	if features := w.choice.Template.Annotations[v1beta2.AnnotationRequiresFeatures]; features != "" {
		all[v1beta2.AnnotationRequiresFeatures] = features
		for _, f := range (bundle.Manifest{Annotations: all}).Features() {
			if !bundle.IsFeature(f) {
				return nil,
					reason.Errorf(reason.CatalogInvalid,
						"ModuleTemplate %s: annotation %s: this publisher does not know feature %s: upgrade the "+
							"publisher, or correct the name",
						w.choice.Template.Name, v1beta2.AnnotationRequiresFeatures,
						bundle.Quote(string(f), bundle.MaxVersionBytes))
			}
		}
	}
	return all, nil
}

func (w *requestedModule) spec(content Content) (v1beta2.ManifestSpec, error) {
	template := w.choice.Template
	source, err := json.Marshal(content.Install.source())
	if err != nil {
		return v1beta2.ManifestSpec{}, err
	}
	spec := v1beta2.ManifestSpec{
		Remote: true, Version: w.choice.Version,
		Install: v1beta2.InstallInfo{
			Name: content.Install.Name, Source: runtime.RawExtension{Raw: source},
		},
		LocalizedImages:      content.Images,
		Manager:              template.Spec.Manager,
		CustomResourcePolicy: cmp.Or(w.module.CustomResourcePolicy, v1beta2.PolicyCreateAndDelete),
	}
	if content.Values != nil {
		values := content.Values.source()
		spec.Config = &values
	}
	if spec.CustomResourcePolicy == v1beta2.PolicyCreateAndDelete {
		spec.Resource = template.Spec.Data
	}
	if r := spec.Resource; r != nil && (r.GetKind() == "" || r.GetName() == "") {
		return spec,
			reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s spec.data: kind and metadata.name are required",
				template.Name)
	}
	return spec, nil
}

// withChecks returns a copy of a module's manifest with the checks that the module's rollout requires. If no rollout is
// active and the version has not changed, the copy keeps the checks from the last manifest. If the agent does not
// support checks, the copy does not contain checks.
func (r Request) withChecks(m *bundle.Manifest, gate rollout.Decision) *bundle.Manifest {
	if m == nil {
		return nil
	}
	next := *m
	next.Checks, next.CheckFor = nil, rollout.WaveChecks{}.Duration
	own, found := r.Checks[rollout.Track{Module: m.Module, Channel: m.Channel}]
	switch last := lastManifest(r.LastState, m.Module); {
	case slices.Contains(r.Unsupported, bundle.FeatureChecks):
	case found && m.Version == gate.Version:
		next.Checks, next.CheckFor = own.Checks, own.Duration
	case last != nil && last.Version == m.Version:
		next.Checks, next.CheckFor = last.Checks, last.CheckFor
	}
	return &next
}

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

// Content is a component version's content. If the component could not be read, Err is set.
type Content struct {
	Install Part
	// Values is the resource with the values of the module's Helm chart, or nil.
	Values *Part
	// Checks is the resource with the module's checks, or nil.
	Checks *Part
	// DefaultCR is the module's default CR in the signed release. IsLocked is true if the release must contain the
	// module's name and default CR. Both are set only if the root of trust contains release keys.
	DefaultCR *DefaultCR
	IsLocked  bool
	// Images lists the image references in the component and in the components that it references, sorted.
	Images []string
	// Release contains the documents that prove the signed release of the component. It is empty if the root of trust
	// does not contain release keys.
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
	// Type is the value of the field type in a Manifest's image spec.
	Type v1beta2.ImageSpecType
}

func (p Part) source() v1beta2.ImageSpec {
	return v1beta2.ImageSpec{Repo: p.Repository, Name: p.Name, Ref: p.Digest.String(), Type: p.Type}
}
