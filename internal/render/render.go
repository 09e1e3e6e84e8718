// Package render converts a module's content to the objects to install.
//
// Its input is one verified blob. Its output is the objects in a defined order: files sorted by path, and documents
// in file order. The package is pure. For invalid content, it returns an error that contains the file, document and
// object. The installer sets scope, namespaces and ownership of the objects.
//
// Charts and overlays are programs of third parties, so the package guarantees two more properties. First, rendering
// the same Input always returns the same objects. Rendering reads only the Input, and refuses templates with random
// or time-dependent output. Second, charts and overlays run in a child process with limited time and memory
// (Confined), because Go cannot interrupt a template.
package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

const (
	// MaxObjects is the maximum number of objects of a module. The largest known module has about 200 objects.
	MaxObjects = 2_000
	// MaxObjectBytes is the maximum size of an object in JSON. It is the API server's limit for a request body.
	MaxObjectBytes = 3 << 20
	// maxDocumentBytes is the maximum size of a YAML document. An indented CRD can be 2.6 times as large in YAML as
	// in JSON.
	maxDocumentBytes = 8 << 20
	// maxSeparators limits the number of values in a document (see checkSeparators). Parsing needs up to 400 bytes of
	// memory for each value.
	maxSeparators = 500_000
	// maxDocumentNodes limits the number of YAML nodes in a document. maxExpanded limits their total size after
	// aliases are expanded.
	maxDocumentNodes = 400_000
	maxExpanded      = maxDocumentBytes
	// maxDocuments limits the number of documents. It exceeds MaxObjects, because some documents contain only
	// comments.
	maxDocuments = 2 * MaxObjects
)

// Input contains everything that rendering depends on. Equal inputs result in equal objects.
type Input struct {
	// Content is the blob with the module's content. The caller must have verified its digest.
	Content []byte
	// Packed is the content type of the blob, such as helm-chart. Empty means oci-ref.
	Packed v1beta2.ImageSpecType
	// Path is the folder of the kustomization in content of type kustomize. Empty means the top level. Ignored for
	// other content.
	Path string
	// Values is the module's config layer, or nil. Ignored except for charts.
	Values []byte
	// Substitute contains the runtime's values for the placeholders in Values.
	Substitute bundle.ModuleValues
	// Release is the name of the Helm release, which is the name of the module. Errors contain this name.
	Release string
	// Namespace is the release's namespace.
	Namespace string
	// Kubernetes describes the cluster. Only charts use it.
	Kubernetes Capabilities
}

// Capabilities describes the cluster, for charts that use .Capabilities.
type Capabilities struct {
	// Version is the API server's version, such as v1.36.3.
	Version string
	// APIVersions lists API versions and kinds, such as "apps/v1" and "apps/v1/Deployment".
	APIVersions []string
}

// Render returns the objects of a module's content. It splits lists into their items and returns an error for
// duplicate objects. in.Packed selects the format: YAML, a tar, a chart, or a tar with overlays.
//
// For YAML, the size of the content limits the time and memory for rendering. Charts and overlays are programs
// without such a limit, so use Confined for them.
func Render(in Input) (objects []*unstructured.Unstructured, err error) {
	if len(in.Content) > bundle.MaxLayerBytes {
		return nil, fmt.Errorf("content of %d bytes, must be at most %d", len(in.Content), bundle.MaxLayerBytes)
	}
	// Helm and kustomize can panic on unusual content.
	defer func() {
		if cause := recover(); cause != nil {
			objects, err = nil, in.named(fmt.Errorf("rendering panicked: %v", cause))
		}
	}()
	var found []placed
	switch in.Packed {
	case v1beta2.OCIDir, v1beta2.OCIRef, "":
		found, err = plain(in)
	case v1beta2.HelmChart:
		found, err = templated(in)
	case v1beta2.Kustomize:
		found, err = overlaid(in)
	default:
		err = fmt.Errorf("content type %q is not supported: use %s, %s, %s or %s",
			in.Packed, v1beta2.OCIDir, v1beta2.OCIRef, v1beta2.HelmChart, v1beta2.Kustomize)
	}
	if err != nil {
		return nil, err
	}
	if objects, err = collect(found); err != nil {
		return nil, in.named(err)
	}
	return objects, nil
}

// named adds "chart MODULE" or "kustomization MODULE" to an error. Errors about YAML content already contain the name
// of the file.
func (in Input) named(err error) error {
	switch in.Packed {
	case v1beta2.HelmChart:
		return fmt.Errorf("chart %s: %w", in.Release, err)
	case v1beta2.Kustomize:
		return fmt.Errorf("kustomization %s: %w", in.Release, err)
	}
	return err
}

func plain(in Input) ([]placed, error) {
	files, err := unpack(in.Content, in.Packed == v1beta2.OCIDir)
	if err != nil {
		return nil, err
	}
	var found []placed
	for _, f := range files {
		more, err := documents(f)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// placed is an object with its place in the content for errors, such as "operator.yaml, document 3".
type placed struct {
	place  string
	object *unstructured.Unstructured
	// within is the size in JSON of the document that contains the object.
	within int
}

func documents(f file) ([]placed, error) {
	if path.Ext(f.name) == extensionJSON {
		return jsonDocuments(f)
	}
	var found []placed
	stream := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.data)))
	for i := 1; ; i++ {
		text, err := stream.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		place := fmt.Sprintf("%s, document %d", f.name, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		if i > maxDocuments {
			return nil, fmt.Errorf("%s: more than %d documents", f.name, maxDocuments)
		}
		more, err := document(place, text)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
}

// document parses one document, which can be empty, an object, or a list of objects.
func document(place string, text []byte) ([]placed, error) {
	if len(text) > maxDocumentBytes {
		return nil,
			fmt.Errorf("%s: %d bytes, must be at most %d: divide lists with lines of ---", place, len(text),
				maxDocumentBytes)
	}
	if trimmed := bytes.TrimSpace(text); bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(trimmed) {
		return jsonDocument(place, trimmed) // JSON can contain tabs, which YAML does not allow
	}
	if err := checkSeparators(place, text); err != nil {
		return nil, err
	}
	trees, err := strict.Documents(text, strict.Limits{Nodes: maxDocumentNodes, ExpandedBytes: maxExpanded})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	switch len(trees) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, fmt.Errorf("%s: several documents without a line of --- between them", place)
	}
	// Use the parsed tree only for checks. Decode the text again as YAML 1.1, as kubectl does.
	toJSON := yaml.YAMLToJSONStrict
	if strict.Merges(trees[0]) {
		toJSON = yaml.YAMLToJSON // the strict decoder refuses a key that overrides a merged key
	}
	encoded, err := toJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return decoded(place, encoded)
}

// jsonDocuments parses a file of consecutive JSON objects.
func jsonDocuments(f file) ([]placed, error) {
	var found []placed
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(f.data, []byte("\xef\xbb\xbf"))))
	for i := 1; ; i++ {
		var text json.RawMessage
		err := decoder.Decode(&text)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		place := fmt.Sprintf("%s, document %d", f.name, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		if i > maxDocuments {
			return nil, fmt.Errorf("%s: more than %d documents", f.name, maxDocuments)
		}
		if len(text) > maxDocumentBytes {
			return nil,
				fmt.Errorf("%s: %d bytes, must be at most %d: divide the list into several objects", place, len(text),
					maxDocumentBytes)
		}
		more, err := jsonDocument(place, text)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
}

func jsonDocument(place string, text []byte) ([]placed, error) {
	if err := checkSeparators(place, text); err != nil {
		return nil, err
	}
	if err := strict.CheckJSON(text, strict.MaxJSONDepth); err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return decoded(place, text)
}

// checkSeparators returns an error if parsing a document could need too much memory. It counts the characters that
// can separate values.
func checkSeparators(place string, text []byte) error {
	count := 0
	for _, b := range text {
		switch b {
		case ',', '[', '{', ':', '-', '?':
			count++
		}
	}
	if count > maxSeparators {
		return fmt.Errorf("%s: more than %d values: divide lists into several documents", place, maxSeparators)
	}
	return nil
}

// decoded decodes a JSON document and returns its object, or the items of its list.
func decoded(place string, encoded []byte) ([]placed, error) {
	var content map[string]any
	if err := utiljson.Unmarshal(encoded, &content); err != nil {
		return nil, fmt.Errorf("%s is not an object: %w", place, err)
	}
	return flatten(nil, placed{place, &unstructured.Unstructured{Object: content}, len(encoded)})
}

// flatten appends the object p, or its items if p is a list, to found. Items of a typed list such as RoleList can
// omit apiVersion and kind.
func flatten(found []placed, p placed) ([]placed, error) {
	value, listed := p.object.Object["items"]
	kind, isList := strings.CutSuffix(p.object.GetKind(), "List")
	if !listed || !isList || p.object.GetName() != "" && kind != "" {
		return append(found, p), nil
	}
	items, ok := value.([]any)
	if !ok && value != nil {
		return nil, fmt.Errorf("%s: items must be a list of objects", p.place)
	}
	for i, item := range items {
		place := fmt.Sprintf("%s, items[%d]", p.place, i)
		content, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", place)
		}
		if kind != "" && content["apiVersion"] == nil && content["kind"] == nil {
			content["apiVersion"], content["kind"] = p.object.GetAPIVersion(), kind
		}
		var err error
		if found, err = flatten(found,
			placed{place, &unstructured.Unstructured{Object: content}, p.within}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

type identity struct {
	schema.GroupKind
	namespace, name string
}

// collect returns the objects of a module without the fields that API servers set. It returns an error for an
// invalid, duplicate or too large object.
func collect(found []placed) ([]*unstructured.Unstructured, error) {
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
		if f.within > MaxObjectBytes {
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
		if len(objects) == MaxObjects {
			return nil, fmt.Errorf("%s: more than %d objects", place, MaxObjects)
		}
		seen[id] = place
		dropServerFields(f.object)
		objects = append(objects, f.object)
	}
	return objects, nil
}

// wellFormed returns an error if an object lacks apiVersion, kind or name, or if a label or annotation is not a string.
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
		} else if entries, ok := value.(map[string]any); ok {
			// Charts write null for a value that is not set, and Helm installs them.
			maps.DeleteFunc(entries, func(_ string, entry any) bool { return entry == nil })
		}
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", field); err != nil {
			return fmt.Errorf("%s: values of metadata.%s must be strings: put them in quotes", Name(object), field)
		}
	}
	return nil
}

// dropServerFields removes the fields that only an API server writes. The API server refuses them in an apply
// request.
func dropServerFields(object *unstructured.Unstructured) {
	for _, field := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation",
		"selfLink"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
}

// Name returns an object's kind, namespace and name for messages.
func Name(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}
