// Package render turns a module's content into the objects to install.
//
// In go the bytes of one blob, already verified, and how they are packed; out come the objects in a defined order: files by
// path, documents as they stand in the file. The package is pure. It promises that content which cannot be read whole gives an
// error that names file, document and object, and no objects at all. It decides nothing about a cluster: scope, namespaces
// and marks of ownership are the installer's.
package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

const (
	// MaxObjects bounds the objects of one module: ten times the largest known.
	MaxObjects = 2_000
	// MaxObjectBytes bounds an object as JSON; etcd takes 1.5 MiB.
	MaxObjectBytes = 1 << 20
	// maxDocuments leaves room for documents that hold nothing but a comment.
	maxDocuments = 2 * MaxObjects
)

// Render gives the objects that content holds. Content of type oci-dir is a tar; of type oci-ref it is YAML or a tar, each
// compressed or not, told apart by how it begins. Lists are taken apart. An object that appears twice is an error, for only one
// of both could be what was meant.
func Render(data []byte, packed v1beta2.ImageSpecType) ([]*unstructured.Unstructured, error) {
	switch packed {
	case v1beta2.OCIDir, v1beta2.OCIRef, "":
	default:
		return nil, fmt.Errorf("content of type %q cannot be installed: use %s or %s", packed, v1beta2.OCIDir, v1beta2.OCIRef)
	}
	files, err := unpack(data, packed == v1beta2.OCIDir)
	if err != nil {
		return nil, err
	}
	r := rendering{seen: map[identity]string{}}
	for _, f := range files {
		if err := r.file(f); err != nil {
			return nil, err
		}
	}
	if len(r.objects) == 0 {
		return nil, errors.New("content holds no objects")
	}
	return r.objects, nil
}

type identity struct {
	schema.GroupKind
	namespace, name string
}

// rendering collects objects; seen says where each came from.
type rendering struct {
	objects []*unstructured.Unstructured
	seen    map[identity]string
}

func (r *rendering) file(f file) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.data)))
	for i := 1; ; i++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		place := fmt.Sprintf("%s, document %d", f.name, i)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		if i > maxDocuments {
			return fmt.Errorf("%s: more than %d documents", f.name, maxDocuments)
		}
		if err := r.document(place, text); err != nil {
			return err
		}
	}
}

func (r *rendering) document(place string, text []byte) error {
	trees, err := strict.Documents(text, strict.Limits{})
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	switch len(trees) {
	case 0:
		return nil
	case 1:
	default:
		return fmt.Errorf("%s: several documents that no line of --- divides", place)
	}
	// The tree was only a check: what kubectl makes of YAML is what users expect, and it reads by YAML 1.1.
	encoded, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	var content map[string]any
	if err := utiljson.Unmarshal(encoded, &content); err != nil {
		return fmt.Errorf("%s: is not an object: %w", place, err)
	}
	return r.object(place, &unstructured.Unstructured{Object: content})
}

func (r *rendering) object(place string, object *unstructured.Unstructured) error {
	if object.IsList() {
		return r.list(place, object)
	}
	if err := wellFormed(object); err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	place += ", " + Name(object)
	encoded, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	if len(encoded) > MaxObjectBytes {
		return fmt.Errorf("%s: %d bytes, at most %d", place, len(encoded), MaxObjectBytes)
	}
	id := identity{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
	if earlier, twice := r.seen[id]; twice {
		return fmt.Errorf("%s: is already in %s", place, earlier)
	}
	if len(r.objects) == MaxObjects {
		return fmt.Errorf("%s: more than %d objects", place, MaxObjects)
	}
	r.seen[id] = place
	dropServerFields(object)
	r.objects = append(r.objects, object)
	return nil
}

func (r *rendering) list(place string, list *unstructured.Unstructured) error {
	items, _, err := unstructured.NestedSlice(list.Object, "items")
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	for i, item := range items {
		content, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("%s, items[%d]: is not an object", place, i)
		}
		if err := r.object(fmt.Sprintf("%s, items[%d]", place, i), &unstructured.Unstructured{Object: content}); err != nil {
			return err
		}
	}
	return nil
}

// wellFormed checks what everything after it relies on. The accessors of unstructured objects give "" for a field of a wrong
// type, so that such a field is found here as a missing one.
func wellFormed(object *unstructured.Unstructured) error {
	switch {
	case object.GetAPIVersion() == "":
		return errors.New("object without apiVersion")
	case object.GetKind() == "":
		return errors.New("object without kind")
	}
	if _, err := schema.ParseGroupVersion(object.GetAPIVersion()); err != nil {
		return fmt.Errorf("%s: %w", object.GetKind(), err)
	}
	if object.GetName() == "" {
		return fmt.Errorf("%s without metadata.name", object.GetKind())
	}
	for _, field := range []string{"labels", "annotations"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", field); !found || value == nil {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
			continue
		}
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", field); err != nil {
			return fmt.Errorf("%s: values of metadata.%s must be strings: put them in quotes", Name(object), field)
		}
	}
	return nil
}

// dropServerFields removes what only an API server writes. Exported objects carry it, and an apply with it is refused.
func dropServerFields(object *unstructured.Unstructured) {
	for _, field := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation", "selfLink"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
}

// Name says which object it is, the way messages for people do: kind, namespace and name.
func Name(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}
