package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// placedObject is an object with its place in the content for errors, such as "operator.yaml, document 3".
type placedObject struct {
	place  string
	object *unstructured.Unstructured
	// documentBytes is the JSON size of the document that contains the object.
	documentBytes int
}

// documents parses a file with YAML documents or consecutive JSON objects. Like kubectl, it selects the format by the
// content, not by the file name.
func documents(f file) ([]placedObject, error) {
	if bytes.HasPrefix(f.data, []byte("\xff\xfe")) || bytes.HasPrefix(f.data, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%s is encoded in UTF-16: save it in UTF-8", f.name)
	}
	if err := checkFormat(f.data); err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	if isJSON(f) {
		return jsonDocuments(f)
	}
	var found []placedObject
	stream := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.data)))
	for i := 1; ; i++ {
		text, err := stream.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		place := fmt.Sprintf("%s, document %d", f.name, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: write --- on a line of its own", place, err)
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
func document(place string, text []byte) ([]placedObject, error) {
	if len(text) > maxDocumentBytes {
		return nil,
			fmt.Errorf("%s: %d bytes, must be at most %d: split lists into documents with lines of ---", place, len(text),
				maxDocumentBytes)
	}
	if trimmed := bytes.TrimSpace(text); isJSONStream(trimmed) { // JSON can contain tabs, which YAML does not allow
		if json.Valid(trimmed) {
			return jsonDocument(place, trimmed)
		}
		return jsonDocuments(file{place, trimmed})
	}
	if err := checkSeparators(place, text); err != nil {
		return nil, err
	}
	trees, err := strict.ParseYAML(text, strict.Limits{Nodes: maxDocumentNodes, ExpandedBytes: maxExpanded})
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
	if strict.HasMergeKey(trees[0]) {
		toJSON = yaml.YAMLToJSON // the strict decoder refuses a key that overrides a merged key
	}
	encoded, err := toJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return decodeDocument(place, encoded)
}

const byteOrderMark = "\xef\xbb\xbf"

// isJSON reports whether a file contains JSON objects. It returns true for a .json file with damaged JSON, so that the
// error describes JSON, but not for a .json file with YAML.
func isJSON(f file) bool {
	return isJSONStream(f.data) || strings.ToLower(path.Ext(f.name)) == extensionJSON && startsWithBrace(f.data) &&
		!bytes.Contains(f.data, []byte("\n---"))
}

func startsWithBrace(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(data, []byte(byteOrderMark))), []byte("{"))
}

// isJSONStream reports whether data consists of consecutive JSON values and starts with an object.
func isJSONStream(data []byte) bool {
	if !startsWithBrace(data) {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte(byteOrderMark))))
	for {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// jsonDocuments parses a file with consecutive JSON objects.
func jsonDocuments(f file) ([]placedObject, error) {
	var found []placedObject
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(f.data, []byte(byteOrderMark))))
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
				fmt.Errorf("%s: %d bytes, must be at most %d: split the list into several objects", place, len(text),
					maxDocumentBytes)
		}
		more, err := jsonDocument(place, text)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
}

func jsonDocument(place string, text []byte) ([]placedObject, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s is not encoded in UTF-8: save the file in UTF-8", place)
	}
	if err := checkSeparators(place, text); err != nil {
		return nil, err
	}
	if err := strict.CheckJSON(text, strict.MaxJSONDepth); err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return decodeDocument(place, text)
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
		return fmt.Errorf("%s: more than %d values: split lists into several documents", place, maxSeparators)
	}
	return nil
}

// decodeDocument decodes a JSON document and returns its object, or the items of its list.
func decodeDocument(place string, encoded []byte) ([]placedObject, error) {
	var decoded any
	if err := utiljson.Unmarshal(encoded, &decoded); err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	content, isObject := decoded.(map[string]any)
	if !isObject {
		if _, isList := decoded.([]any); isList {
			return nil, fmt.Errorf("%s is a list and not an object: put the list into the field items of a List", place)
		}
		return nil, fmt.Errorf("%s is the value %.40q and not an object: write each field as NAME: VALUE, with a space "+
			"after the colon", place, fmt.Sprint(decoded))
	}
	return flatten(nil, placedObject{place, &unstructured.Unstructured{Object: content}, len(encoded)})
}

// flatten appends the object p, or its items if p is a list, to found. Items in a typed list such as RoleList can omit
// apiVersion and kind.
func flatten(found []placedObject, p placedObject) ([]placedObject, error) {
	value, listed := p.object.Object["items"]
	kind, isList := strings.CutSuffix(p.object.GetKind(), "List")
	if isList && kind == "" && p.object.GetAPIVersion() == "v1" && !listed {
		return found, nil // an empty List
	}
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
		if kind != "" && content["kind"] == nil {
			content["apiVersion"], content["kind"] = p.object.GetAPIVersion(), kind
		}
		var err error
		if found, err = flatten(found,
			placedObject{place, &unstructured.Unstructured{Object: content}, p.documentBytes}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Name returns an object's kind, namespace and name for messages.
func Name(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}
