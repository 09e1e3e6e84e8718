// Package provenance traces an object in the runtime to the publisher's key. Its input is the object, the Manifests
// and the last accepted bundle. Its output is the complete chain, or an error. The package is pure.
//
// Users can change an object's labels and annotations. The package uses them only to select one of several Manifests
// whose inventory contains the object. A Manifest is trusted only if the verified bundle has the same content.
package provenance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Object is the object to trace.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// OwnedBy is the value of the object's annotation owned-by: its Manifest, as namespace/name.
	OwnedBy string `json:"-"`
}

func (o Object) String() string {
	kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}.String()
	return kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// Chain connects an object to the key that signed its bundle.
type Chain struct {
	Object Object `json:"object"`
	// Manifest is the object's Manifest, as namespace/name. State is the Manifest's state.
	Manifest string        `json:"manifest"`
	State    v1beta2.State `json:"state"`
	// Pending means that the Manifest's current spec is not completely applied. The object can then be from an earlier
	// bundle.
	Pending bool `json:"pending,omitempty"`
	// DefaultCR means that the object is the module's default CR, which users can change.
	DefaultCR bool `json:"defaultCR,omitempty"`
	bundle.Origin
}

// Trace returns the chain from an object to the key that signed the last accepted bundle.
func Trace(object Object, manifests []v1beta2.Manifest, accepted bundle.Bundle) (Chain, error) {
	manifest, err := findManifest(object, manifests)
	if err != nil {
		return Chain{}, err
	}
	named := slices.IndexFunc(accepted.State.All(), func(m bundle.Manifest) bool { return m.Name == manifest.Name })
	if named < 0 {
		return Chain{},
			fmt.Errorf("%s belongs to Manifest %s, which is not in bundle %s: its origin is unknown", object,
				manifestName(manifest), accepted.Digest)
	}
	listed := accepted.State.All()[named]
	if err := sameContent(manifest, listed); err != nil {
		return Chain{},
			fmt.Errorf("%s: Manifest %s differs from bundle %s: %w", object, manifestName(manifest), accepted.Digest, err)
	}
	origins := accepted.Origins()
	at := slices.IndexFunc(origins, func(o bundle.Origin) bool { return o.Module == listed.Module })
	return Chain{
		Object: object, Manifest: manifestName(manifest), State: manifest.Status.State, Pending: isPending(manifest),
		DefaultCR: isDefaultCR(object, manifest), Origin: origins[at],
	}, nil
}

func isPending(m *v1beta2.Manifest) bool {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	return m.Status.State != v1beta2.StateReady || ready == nil || ready.ObservedGeneration != m.Generation
}

func manifestName(m *v1beta2.Manifest) string { return m.Namespace + "/" + m.Name }

// findManifest returns the Manifest whose inventory contains the object. If the object is a Manifest, it returns the
// object itself.
func findManifest(object Object, manifests []v1beta2.Manifest) (*v1beta2.Manifest, error) {
	var found []*v1beta2.Manifest
	for i := range manifests {
		m := &manifests[i]
		itself := object.Group == v1beta2.Group && object.Kind == "Manifest" && object.Namespace == m.Namespace &&
			object.Name == m.Name
		if itself {
			return m, nil
		}
		listed := slices.ContainsFunc(m.Status.Synced, func(r v1beta2.Resource) bool {
			return r.Group == object.Group && r.Kind == object.Kind && r.Namespace == object.Namespace &&
				r.Name == object.Name
		})
		if listed || isDefaultCR(object, m) {
			found = append(found, m)
		}
	}
	switch named := slices.IndexFunc(found, func(m *v1beta2.Manifest) bool { return manifestName(m) == object.OwnedBy }); {
	case len(found) == 0:
		return nil,
			fmt.Errorf(
				"%s is not in the inventory of a Manifest: no module installed it, or the installation is not complete",
				object)
	case named >= 0:
		return found[named], nil
	case len(found) == 1:
		return found[0], nil
	}
	names := make([]string, 0, len(found))
	for _, m := range found {
		names = append(names, manifestName(m))
	}
	return nil,
		fmt.Errorf("%s is in the inventory of Manifests %s, but its annotation %s does not select one of them", object,
			strings.Join(names, " and "), v1beta2.AnnotationOwnedBy)
}

// isDefaultCR reports whether the agent created the object as the Manifest's default CR.
func isDefaultCR(object Object, m *v1beta2.Manifest) bool {
	cr := m.Spec.Resource
	return cr != nil && object.OwnedBy == manifestName(m) &&
		cr.GroupVersionKind().GroupKind() == schema.GroupKind{Group: object.Group, Kind: object.Kind} &&
		cr.GetName() == object.Name &&
		(object.Namespace == "" || cmp.Or(cr.GetNamespace(), m.Namespace) == object.Namespace)
}

// sameContent returns an error if the Manifest's version or content differs from the bundle. The comparison is needed
// because cluster users can change Manifests.
func sameContent(m *v1beta2.Manifest, listed bundle.Manifest) error {
	if m.Spec.Version != listed.Spec.Version {
		return fmt.Errorf("spec.version is %q, but the bundle has %q", m.Spec.Version, listed.Spec.Version)
	}
	have, err := contentDigests(m.Spec)
	if err != nil {
		return err
	}
	want, err := contentDigests(listed.Spec)
	if err != nil {
		return err
	}
	if !slices.Equal(have, want) {
		return fmt.Errorf("the content has digests %v, but the bundle has %v", have, want)
	}
	for _, d := range have {
		if !slices.ContainsFunc(listed.Content, func(c bundle.Content) bool { return c.Digest == d }) {
			return fmt.Errorf("content %s is not in the bundle's list of content", d)
		}
	}
	return nil
}

// contentDigests returns the digests of the content that a Manifest refers to.
func contentDigests(spec v1beta2.ManifestSpec) ([]digest.Digest, error) {
	var source v1beta2.ImageSpec
	if err := json.Unmarshal(spec.Install.Source.Raw, &source); err != nil {
		return nil, fmt.Errorf("spec.install.source: %w", err)
	}
	found := []digest.Digest{digest.Digest(source.Ref)}
	if spec.Config != nil {
		found = append(found, digest.Digest(spec.Config.Ref))
	}
	return found, nil
}
