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

// parser parses the documents in a module's content. Its limits apply to all files together, because a content can have
// thousands of documents.
type parser struct {
	found []placedObject
	// separators and encodedBytes are the totals of all parsed documents in JSON, after aliases are expanded.
	separators, encodedBytes int
}

// documents parses a file with YAML documents or consecutive JSON objects. Like kubectl, it selects the format by the
// content, not by the file name.
func (p *parser) documents(f file) error {
	if bytes.HasPrefix(f.data, []byte("\xff\xfe")) || bytes.HasPrefix(f.data, []byte("\xfe\xff")) {
		return fmt.Errorf("%s is encoded in UTF-16: save it in UTF-8", f.name)
	}
	if err := checkFormat(f.data); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if isJSON(f) {
		return p.jsonDocuments(f)
	}
	stream := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.data)))
	for i := 1; ; i++ {
		text, err := stream.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		place := fmt.Sprintf("%s, document %d", f.name, i)
		if err != nil {
			return fmt.Errorf("%s: %w: write --- on a line of its own", place, err)
		}
		if i > maxDocuments {
			return fmt.Errorf("%s: more than %d documents", f.name, maxDocuments)
		}
		if err := p.document(place, text); err != nil {
			return err
		}
	}
}

// document parses one document, which can be empty, an object, or a list of objects.
func (p *parser) document(place string, text []byte) error {
	if len(text) > maxDocumentBytes {
		return fmt.Errorf("%s: %d bytes, must be at most %d: split lists into documents with lines of ---", place,
			len(text), maxDocumentBytes)
	}
	if trimmed := bytes.TrimSpace(text); isJSONStream(trimmed) { // JSON can contain tabs, which YAML does not allow
		if json.Valid(trimmed) {
			return p.jsonDocument(place, trimmed)
		}
		return p.jsonDocuments(file{place, trimmed})
	}
	if err := checkSeparators(place, text); err != nil {
		return err
	}
	trees, err := strict.ParseYAML(text, strict.Limits{Nodes: maxDocumentNodes, ExpandedBytes: maxExpanded})
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	switch len(trees) {
	case 0:
		return nil
	case 1:
	default:
		return fmt.Errorf("%s: several documents without a line of --- between them", place)
	}
	// Use the parsed tree only for checks. Decode the text again as YAML 1.1, as kubectl does.
	toJSON := yaml.YAMLToJSONStrict
	if strict.HasMergeKey(trees[0]) {
		toJSON = yaml.YAMLToJSON // the strict decoder refuses a key that overrides a merged key
	}
	encoded, err := toJSON(text)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return p.decodeDocument(place, encoded)
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
func (p *parser) jsonDocuments(f file) error {
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(f.data, []byte(byteOrderMark))))
	for i := 1; ; i++ {
		var text json.RawMessage
		err := decoder.Decode(&text)
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
		if len(text) > maxDocumentBytes {
			return fmt.Errorf("%s: %d bytes, must be at most %d: split the list into several objects", place, len(text),
				maxDocumentBytes)
		}
		if err := p.jsonDocument(place, text); err != nil {
			return err
		}
	}
}

func (p *parser) jsonDocument(place string, text []byte) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("%s is not encoded in UTF-8: save the file in UTF-8", place)
	}
	if err := checkSeparators(place, text); err != nil {
		return err
	}
	if err := strict.CheckJSON(text, strict.MaxJSONDepth); err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return p.decodeDocument(place, text)
}

// checkSeparators returns an error if parsing a document could need too much memory.
func checkSeparators(place string, text []byte) error {
	if countSeparators(text) > maxSeparators {
		return fmt.Errorf("%s: more than %d values: split lists into several documents", place, maxSeparators)
	}
	return nil
}

// countSeparators counts the characters that can separate values.
func countSeparators(text []byte) int {
	count := 0
	for _, b := range text {
		switch b {
		case ',', '[', '{', ':', '-', '?':
			count++
		}
	}
	return count
}

// decodeDocument decodes a JSON document and adds its object, or the items of its list.
func (p *parser) decodeDocument(place string, encoded []byte) error {
	if p.encodedBytes += len(encoded); p.encodedBytes > MaxUnpackedBytes {
		return fmt.Errorf("%s: the documents have more than %d bytes in total after expanding aliases", place,
			MaxUnpackedBytes)
	}
	if p.separators += countSeparators(encoded); p.separators > maxTotalSeparators {
		return fmt.Errorf("%s: the documents have more than %d values in total", place, maxTotalSeparators)
	}
	var decoded any
	if err := utiljson.Unmarshal(encoded, &decoded); err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	content, isObject := decoded.(map[string]any)
	if !isObject {
		if _, isList := decoded.([]any); isList {
			return fmt.Errorf("%s is a list and not an object: put the list into the field items of a List", place)
		}
		return fmt.Errorf("%s is the value %.40q and not an object: write each field as NAME: VALUE, with a space "+
			"after the colon", place, fmt.Sprint(decoded))
	}
	return p.add(placedObject{place, &unstructured.Unstructured{Object: content}, len(encoded)})
}

// add adds the object o, or its items if o is a list. Items in a typed list such as RoleList can omit apiVersion and
// kind.
func (p *parser) add(o placedObject) error {
	value, listed := o.object.Object["items"]
	kind, isList := strings.CutSuffix(o.object.GetKind(), "List")
	if isList && kind == "" && o.object.GetAPIVersion() == "v1" && !listed {
		return nil // an empty List
	}
	if !listed || !isList || o.object.GetName() != "" && kind != "" {
		if len(p.found) == MaxObjects {
			return fmt.Errorf("%s: more than %d objects", o.place, MaxObjects)
		}
		p.found = append(p.found, o)
		return nil
	}
	items, ok := value.([]any)
	if !ok && value != nil {
		return fmt.Errorf("%s: items must be a list of objects", o.place)
	}
	for i, item := range items {
		place := fmt.Sprintf("%s, items[%d]", o.place, i)
		content, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is not an object", place)
		}
		if kind != "" && content["kind"] == nil {
			content["apiVersion"], content["kind"] = o.object.GetAPIVersion(), kind
		}
		if err := p.add(
			placedObject{place, &unstructured.Unstructured{Object: content}, o.documentBytes}); err != nil {
			return err
		}
	}
	return nil
}

// Name returns an object's kind, namespace and name for messages.
func Name(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}
