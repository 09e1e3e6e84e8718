// Package takeover takes Kymas over from lifecycle-manager, and returns them. Only the files control.go, giveback.go
// and steps.go access the control plane.
package takeover

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// recordModules returns the status entry with the modules that lifecycle-manager installed. It collects the modules
// from lifecycle-manager's Manifests, including Manifests that are being deleted, and from status.modules.
func recordModules(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest) *v1beta2.TakeoverStatus {
	memory := &v1beta2.TakeoverStatus{}
	known := map[string]bool{}
	objects, bytes := 0, 0
	for _, manifest := range manifestsOf(kyma, manifests) {
		module := moduleName(kyma, &manifest)
		version := installedVersion(kyma, module, &manifest)
		if module == "" || version == "" || known[module] ||
			manifest.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True {
			continue
		}
		known[module] = true
		inherited := v1beta2.InheritedModule{
			Name: module, Version: version, Channel: manifest.Labels[v1beta2.LabelChannel],
		}
		for _, o := range manifest.Status.Synced {
			if size := resourceBytes(o); isInheritable(o) && objects < bundle.MaxInherited &&
				bytes+size <= maxInheritedBytes {
				inherited.Objects = append(inherited.Objects, o)
				objects, bytes = objects+1, bytes+size
			}
		}
		memory.Modules = append(memory.Modules, inherited)
	}
	for _, m := range kyma.Status.Modules {
		if !known[m.Name] && m.Version != "" && m.State != v1beta2.StateDeleting {
			known[m.Name] = true
			memory.Modules = append(memory.Modules, v1beta2.InheritedModule{
				Name: m.Name, Version: m.Version, Channel: m.Channel, Unmanaged: m.State == v1beta2.StateUnmanaged,
			})
		}
	}
	slices.SortFunc(memory.Modules, func(a, b v1beta2.InheritedModule) int { return strings.Compare(a.Name, b.Name) })
	return memory
}

// maxInheritedBytes limits the size of the recorded objects in JSON. Otherwise, the API server could reject the Kyma's
// status.
const maxInheritedBytes = 1 << 20

// resourceBytes returns the approximate size of a reference to an object in JSON.
func resourceBytes(o v1beta2.Resource) int {
	return len(`{"name":"","namespace":"","group":"","version":"","kind":""},`) + len(o.Name) + len(o.Namespace) +
		len(o.Group) + len(o.Version) + len(o.Kind)
}

// manifestsOf returns lifecycle-manager's Manifests for a Kyma, sorted by name.
func manifestsOf(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest) (own []v1beta2.Manifest) {
	for _, m := range manifests {
		if m.Namespace == kyma.Namespace && m.Labels[v1beta2.LabelKymaName] == kyma.Name {
			own = append(own, m)
		}
	}
	slices.SortFunc(own, func(a, b v1beta2.Manifest) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// moduleName returns the module name of a Manifest, or "" if it is unknown.
func moduleName(kyma *v1beta2.Kyma, manifest *v1beta2.Manifest) string {
	if module := manifest.Labels[v1beta2.LabelModuleName]; module != "" {
		return module
	}
	for _, m := range kyma.Status.Modules {
		if m.Manifest != nil && m.Manifest.PartialMeta.Name == manifest.Name {
			return m.Name
		}
	}
	return ""
}

func installedVersion(kyma *v1beta2.Kyma, module string, manifest *v1beta2.Manifest) string {
	version := ""
	for _, m := range kyma.Status.Modules {
		if m.Name == module {
			version = m.Version
		}
	}
	return newerVersion(manifest.Spec.Version, version)
}

// isInheritable reports whether the reference to an installed object is valid in a bundle.
func isInheritable(o v1beta2.Resource) bool {
	return bundle.ObjectRef{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace,
		Name: o.Name}.Check() == nil
}
