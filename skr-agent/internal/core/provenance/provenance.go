// Package provenance says where an object in the runtime comes from: the object, the Manifests and the bundle in force
// go in; the chain from the object to the publisher's key comes out, or why there is none. It reads and writes nothing.
//
// A chain is shown whole or not at all. Labels and annotations of the object are claims that anybody with access to it
// can make, so they only choose between Manifests whose inventory has the object; and a Manifest counts only as far as
// the verified bundle says the same.
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

// Object is what is asked about.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// OwnedBy is the annotation with the Manifest that the object says it belongs to, as namespace/name.
	OwnedBy string `json:"-"`
}

func (o Object) String() string {
	kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}.String()
	return kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// Chain is an object's way back to the key that let it in.
type Chain struct {
	Object Object `json:"object"`
	// Manifest is the Manifest object, as namespace/name, and State what became of it.
	Manifest string        `json:"manifest"`
	State    v1beta2.State `json:"state"`
	// Pending says that the Manifest was not installed to the end as it is now: the object may still be as an earlier
	// bundle wanted it.
	Pending bool `json:"pending,omitempty"`
	// DefaultCR says that the object was made once, as the module's default CR: what is in it is its user's since.
	DefaultCR bool `json:"defaultCR,omitempty"`
	bundle.Origin
}

// Trace follows an object back. in is the bundle in force.
func Trace(object Object, manifests []v1beta2.Manifest, in bundle.Bundle) (Chain, error) {
	manifest, err := manifestOf(object, manifests)
	if err != nil {
		return Chain{}, err
	}
	named := slices.IndexFunc(in.State.All(), func(m bundle.Manifest) bool { return m.Name == manifest.Name })
	if named < 0 {
		return Chain{}, fmt.Errorf("%s: belongs to Manifest %s, which bundle %s does not name: where that came from is not known", object, nameOf(manifest), in.Digest)
	}
	said := in.State.All()[named]
	if err := sameContent(manifest, said); err != nil {
		return Chain{}, fmt.Errorf("%s: Manifest %s is not what bundle %s says: %w", object, nameOf(manifest), in.Digest, err)
	}
	origins := in.Origins()
	at := slices.IndexFunc(origins, func(o bundle.Origin) bool { return o.Module == said.Module })
	return Chain{
		Object: object, Manifest: nameOf(manifest), State: manifest.Status.State, Pending: isPending(manifest),
		DefaultCR: isDefaultCR(object, manifest), Origin: origins[at],
	}, nil
}

func isPending(m *v1beta2.Manifest) bool {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	return m.Status.State != v1beta2.StateReady || ready == nil || ready.ObservedGeneration != m.Generation
}

func nameOf(m *v1beta2.Manifest) string { return m.Namespace + "/" + m.Name }

// manifestOf finds the Manifest that brought the object: itself, or one whose inventory has it. Of several, the one
// that the object names.
func manifestOf(object Object, manifests []v1beta2.Manifest) (*v1beta2.Manifest, error) {
	var found []*v1beta2.Manifest
	for i := range manifests {
		m := &manifests[i]
		itself := object.Group == v1beta2.Group && object.Kind == "Manifest" && object.Namespace == m.Namespace && object.Name == m.Name
		if itself {
			return m, nil
		}
		listed := slices.ContainsFunc(m.Status.Synced, func(r v1beta2.Resource) bool {
			return r.Group == object.Group && r.Kind == object.Kind && r.Namespace == object.Namespace && r.Name == object.Name
		})
		if listed || isDefaultCR(object, m) {
			found = append(found, m)
		}
	}
	switch named := slices.IndexFunc(found, func(m *v1beta2.Manifest) bool { return nameOf(m) == object.OwnedBy }); {
	case len(found) == 0:
		return nil, fmt.Errorf("%s: is in no Manifest's inventory: no module brought it, or it was not installed to the end yet", object)
	case named >= 0:
		return found[named], nil
	case len(found) == 1:
		return found[0], nil
	}
	names := make([]string, 0, len(found))
	for _, m := range found {
		names = append(names, nameOf(m))
	}
	return nil, fmt.Errorf("%s: is in the inventory of the Manifests %s and its annotation %s names none of them", object, strings.Join(names, " and "), v1beta2.AnnotationOwnedBy)
}

// isDefaultCR reports whether the Manifest made the object as its default CR. One that was there before is not marked,
// and its user's alone.
func isDefaultCR(object Object, m *v1beta2.Manifest) bool {
	cr := m.Spec.Resource
	return cr != nil && object.OwnedBy == nameOf(m) && cr.GroupVersionKind().GroupKind() == schema.GroupKind{Group: object.Group, Kind: object.Kind} &&
		cr.GetName() == object.Name && (object.Namespace == "" || cmp.Or(cr.GetNamespace(), m.Namespace) == object.Namespace)
}

// sameContent compares what the Manifest is installed from, and its version, with what the bundle says. Somebody else
// with access to the cluster could have written another.
func sameContent(m *v1beta2.Manifest, said bundle.Manifest) error {
	if m.Spec.Version != said.Spec.Version {
		return fmt.Errorf("spec.version is %q, the bundle's %q", m.Spec.Version, said.Spec.Version)
	}
	have, err := sources(m.Spec)
	if err != nil {
		return err
	}
	want, err := sources(said.Spec)
	if err != nil {
		return err
	}
	if !slices.Equal(have, want) {
		return fmt.Errorf("it is installed from %v, the bundle names %v", have, want)
	}
	for _, d := range have {
		if !slices.ContainsFunc(said.Content, func(c bundle.Content) bool { return c.Digest == d }) {
			return fmt.Errorf("it is installed from %s, which is not among the bundle's content", d)
		}
	}
	return nil
}

// sources are the digests of what a Manifest is installed from.
func sources(spec v1beta2.ManifestSpec) ([]digest.Digest, error) {
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
