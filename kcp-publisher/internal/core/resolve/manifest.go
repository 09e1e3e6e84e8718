package resolve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// newManifest returns a module's manifest in the bundle.
func newManifest(w wish, content Content) (*bundle.Manifest, error) {
	choice := w.choice
	if err := w.check(content); err != nil {
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
		// Mandatory modules wait for nobody, as in Kyma: their users neither see them nor can skip the wait.
		RequiresDowntime: choice.Template.Spec.RequiresDowntime && !choice.Mandatory,
		Content:          content.Parts(), Release: content.Release,
	}
	if w.inherited != nil {
		manifest.Inherited = w.inherited.Objects
	}
	if manifest.Annotations, err = w.annotations(name); err != nil {
		return nil, err
	}
	if manifest.Spec, err = w.spec(content); err != nil {
		return nil, err
	}
	return manifest, nil
}

// check returns why no manifest can be made of a component: it could not be read, or no agent would fetch what is in it.
func (w *wish) check(content Content) error {
	if content.Err != nil {
		return ofComponent(content.Err)
	}
	for _, part := range content.Parts() {
		if part.SizeBytes > bundle.MaxLayerBytes {
			return reason.Errorf(reason.ComponentBroken, "component %s:%s: resource %q has %d bytes, at most %d", w.choice.Component, w.choice.Version, part.Name, part.SizeBytes, bundle.MaxLayerBytes)
		}
	}
	return nil
}

// ofComponent adds ComponentBroken to an error of reading a component that has no reason of its own.
func ofComponent(err error) error {
	if reason.Of(err) != reason.Other {
		return err
	}
	return reason.With(reason.ComponentBroken, err)
}

// manifestName returns the name of a module's Manifest in the runtime.
func manifestName(module string) (string, error) {
	name := strings.ReplaceAll(module, "/", "-")
	if problems := validation.IsDNS1123Label(strings.ReplaceAll(name, ".", "-")); len(problems) > 0 {
		return "", fmt.Errorf("its name cannot be that of a Manifest: %s: ask for it by its module name", strings.Join(problems, ", "))
	}
	return name, nil
}

func (w *wish) labels(name string) map[string]string {
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

func (w *wish) annotations(name string) (map[string]string, error) {
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
	if features := w.choice.Template.Annotations[v1beta2.AnnotationRequiresFeatures]; features != "" {
		all[v1beta2.AnnotationRequiresFeatures] = features
		for _, f := range (bundle.Manifest{Annotations: all}).Features() {
			if !bundle.IsFeature(f) {
				return nil, reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s: annotation %s: %s is no feature that this publisher knows: upgrade it, or correct the name",
					w.choice.Template.Name, v1beta2.AnnotationRequiresFeatures, bundle.Quote(string(f), bundle.MaxVersionBytes))
			}
		}
	}
	former, err := w.former(name)
	if former != "" {
		all[v1beta2.AnnotationRenamedFrom] = former
	}
	return all, err
}

// former returns the Manifest of the module by the name that it had before, empty for none.
func (w *wish) former(name string) (string, error) {
	module := w.choice.Template.Annotations[v1beta2.AnnotationRenamedFrom]
	if module == "" {
		return "", nil
	}
	former, err := manifestName(module)
	if err == nil && former == name {
		err = errors.New("is the module's own name")
	}
	if err != nil {
		return "", reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s: annotation %s: %q: %w: name the module as it was called before", w.choice.Template.Name, v1beta2.AnnotationRenamedFrom, module, err)
	}
	return former, nil
}

// keepFormer leaves a module as it is whose successor is asked for and not in the bundle, such as for an agent that is too old for it or while no
// channel has it: the module would be uninstalled instead of handed over.
func (r *Result) keepFormer(w wish, request Request, snapshot *catalog.Snapshot) {
	if w.revoked || !w.module.Managed || lastManifest(&r.State, w.module.Name) != nil {
		return
	}
	formerly := snapshot.Formerly(w.module.Name)
	if template := w.choice.Template; template != nil {
		formerly = []string{template.Annotations[v1beta2.AnnotationRenamedFrom]}
	}
	for _, former := range formerly {
		if former == "" || slices.Contains(r.Asked, former) {
			continue
		}
		r.Asked = append(r.Asked, former)
		last := lastManifest(request.Last, former)
		if kept := request.readable(last); kept != nil {
			r.State.Manifests = append(r.State.Manifests, *kept)
		}
		if version := floor(last, request.Versions[former]); version != "" {
			r.Versions[former] = version
		}
	}
}

func (w *wish) spec(content Content) (v1beta2.ManifestSpec, error) {
	template := w.choice.Template
	source, err := json.Marshal(content.Install.source())
	if err != nil {
		return v1beta2.ManifestSpec{}, err
	}
	spec := v1beta2.ManifestSpec{
		Remote: true, Version: w.choice.Version,
		Install:              v1beta2.InstallInfo{Name: content.Install.Name, Source: runtime.RawExtension{Raw: source}},
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
		return spec, reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s spec.data: kind and metadata.name are required", template.Name)
	}
	return spec, nil
}
