// Package render converts a module's content to the objects to install.
//
// Its input is one verified blob. Its output is the objects in a defined order: files sorted by path, and documents
// in file order. The package is pure. For invalid content, it returns an error that contains the file, document and
// object. The installer sets the objects' scope, namespaces and ownership.
//
// Charts and overlays are third-party programs, so the package guarantees two more properties. First, rendering the
// same Input always returns the same objects. Rendering reads only the Input, and refuses templates with random or
// time-dependent output. Second, charts and overlays run in a child process with limited time and memory (Confined),
// because Go cannot interrupt a template.
package render

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// MaxObjects is the maximum number of objects per module. The largest known module has about 200 objects.
	MaxObjects = 2_000
	// MaxObjectBytes is the maximum size of an object in JSON. It is the API server's limit for a request body.
	MaxObjectBytes = 3 << 20
	// maxDocumentBytes is the maximum size of a YAML document. An indented CRD can be 2.6 times as large in YAML as
	// in JSON.
	maxDocumentBytes = 8 << 20
	// maxSeparators limits the number of values in a document (see checkSeparators). Parsing needs up to 400 bytes of
	// memory per value.
	maxSeparators = 500_000
	// maxTotalSeparators limits the number of values in all documents. Parsed objects use up to 200 bytes of memory per
	// value.
	maxTotalSeparators = 4 * maxSeparators
	// maxDocumentNodes limits the number of YAML nodes in a document. maxExpanded limits their total size after
	// aliases are expanded.
	maxDocumentNodes = 400_000
	maxExpanded      = maxDocumentBytes
	// maxDocuments limits the number of documents. It exceeds MaxObjects, because some documents contain only
	// comments.
	maxDocuments = 2 * MaxObjects
)

// Render returns the objects in a module's content. It splits lists into their items and returns an error for duplicate
// objects. in.Packed selects the format: YAML, a tar, a chart, or a tar with overlays.
//
// For YAML, the limits for documents, values and objects limit the time and memory for rendering. Charts and overlays
// are programs without such a limit, so use Confined for them.
func Render(in Input) ([]*unstructured.Unstructured, error) {
	return in.render(MaxUnpackedBytes)
}

// render is like Render, but maxBytes limits the unpacked size of YAML.
func (in Input) render(maxBytes int) (objects []*unstructured.Unstructured, err error) {
	if len(in.Content) > bundle.MaxLayerBytes {
		return nil, fmt.Errorf("content is %d bytes, must be at most %d", len(in.Content), bundle.MaxLayerBytes)
	}
	// Helm and kustomize can panic on unusual content.
	defer func() {
		if cause := recover(); cause != nil {
			objects, err = nil, in.wrapError(fmt.Errorf("rendering panicked: %v", cause))
		}
	}()
	var found []placedObject
	switch in.Packed {
	case v1beta2.OCIDir, v1beta2.OCIRef, "":
		found, err = renderPlain(in, maxBytes)
	case v1beta2.HelmChart:
		found, err = renderChart(in)
	case v1beta2.Kustomize:
		found, err = renderOverlay(in)
	default:
		err = fmt.Errorf("content type %q is not supported: use %s, %s, %s or %s",
			in.Packed, v1beta2.OCIDir, v1beta2.OCIRef, v1beta2.HelmChart, v1beta2.Kustomize)
	}
	if err != nil || in.TestHooks && len(found) == 0 {
		return nil, err
	}
	if objects, err = in.collect(found); err != nil {
		return nil, in.wrapError(err)
	}
	return objects, nil
}

func renderPlain(in Input, maxBytes int) ([]placedObject, error) {
	files, err := unpack(in.Content, in.Packed == v1beta2.OCIDir, maxBytes)
	if err != nil {
		return nil, err
	}
	var p parser
	for _, f := range files {
		if err := p.documents(f); err != nil {
			return nil, err
		}
	}
	return p.found, nil
}

type identity struct {
	schema.GroupKind
	namespace, name string
}

// collect returns a module's objects without the fields that API servers set. It returns an error for an invalid,
// duplicate or too large object.
func (in Input) collect(found []placedObject) ([]*unstructured.Unstructured, error) {
	if len(found) == 0 {
		return nil, errors.New("content has no objects")
	}
	objects := make([]*unstructured.Unstructured, 0, len(found))
	seen := make(map[identity]string, len(found))
	for _, f := range found {
		if err := wellFormed(f.object); err != nil {
			return nil, fmt.Errorf("%s: %w", f.place, err)
		}
		place := f.place + ", " + Name(f.object)
		if gvk := f.object.GroupVersionKind(); in.CheckKinds {
			if err := CheckInstallable(gvk); err != nil {
				return nil, fmt.Errorf("%s (%s): %w", place, gvk.GroupVersion(), err)
			}
		}
		if f.documentBytes > MaxObjectBytes {
			encoded, err := f.object.MarshalJSON()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", place, err)
			}
			if len(encoded) > MaxObjectBytes {
				return nil, fmt.Errorf("%s: %d bytes, must be at most %d", place, len(encoded), MaxObjectBytes)
			}
		}
		id := identity{f.object.GroupVersionKind().GroupKind(), f.object.GetNamespace(), f.object.GetName()}
		if earlier, twice := seen[id]; twice {
			return nil, fmt.Errorf("%s is already in %s", place, earlier)
		}
		seen[id] = place
		dropServerFields(f.object)
		objects = append(objects, f.object)
	}
	return objects, nil
}

// wellFormed returns an error if an object lacks apiVersion, kind or name, or if its name, its namespace, a label or an
// annotation is not a string.
func wellFormed(object *unstructured.Unstructured) error {
	if err := checkIdentityFields(object.Object); err != nil {
		return err
	}
	switch {
	case object.GetAPIVersion() == "":
		return errors.New("object without apiVersion")
	case object.GetKind() == "":
		return errors.New("object without kind")
	}
	if gv, err := schema.ParseGroupVersion(object.GetAPIVersion()); err != nil || gv.Version == "" {
		return fmt.Errorf("%s: apiVersion %q must be VERSION or GROUP/VERSION", object.GetKind(), object.GetAPIVersion())
	}
	for _, field := range []string{"name", "namespace"} {
		value, found, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", field)
		if _, isText := value.(string); found && value != nil && !isText {
			return fmt.Errorf("%s: metadata.%s must be a string: put it in quotes", object.GetKind(), field)
		}
	}
	switch {
	case object.GetName() == "" && object.GetGenerateName() != "":
		return fmt.Errorf("%s with metadata.generateName: set metadata.name instead", object.GetKind())
	case object.GetName() == "":
		return fmt.Errorf("%s without metadata.name", object.GetKind())
	}
	for _, field := range []string{"labels", "annotations"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", field); !found || value == nil {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
			continue
		} else if entries, ok := value.(map[string]any); ok {
			// Charts write null for a value that is not set, and Helm accepts null.
			maps.DeleteFunc(entries, func(_ string, entry any) bool { return entry == nil })
		}
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", field); err != nil {
			return fmt.Errorf("%s: values of metadata.%s must be strings: put them in quotes", Name(object), field)
		}
	}
	return nil
}

// dropServerFields removes the fields that only an API server writes. The API server rejects them in an apply request.
func dropServerFields(object *unstructured.Unstructured) {
	for _, field := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation",
		"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
}
