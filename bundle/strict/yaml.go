// Package strict decodes YAML and JSON from external sources, and refuses documents that are dangerous or that programs
// can interpret differently. It never expands YAML aliases, which could turn a kilobyte into gigabytes.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits restricts the size of a YAML stream. A field with the value 0 selects the default.
type Limits struct {
	// Depth limits the nesting of collections (default 64).
	Depth int
	// Nodes limits the number of YAML nodes in one document (default 200,000).
	Nodes int
	// Documents limits the number of documents (default 2,000).
	Documents int
	// ExpandedBytes limits the size of the scalars in a document, counting a scalar again for each alias. If it is 0,
	// anchors, aliases and merge keys are refused.
	ExpandedBytes int
}

func (l Limits) orDefaults() Limits {
	if l.Depth == 0 {
		l.Depth = 64
	}
	if l.Nodes == 0 {
		l.Nodes = 200_000
	}
	if l.Documents == 0 {
		l.Documents = 2_000
	}
	return l
}

// ParseYAML parses a YAML stream. It refuses duplicate keys, unusual tags and content beyond the limits, and skips
// empty documents. Errors name the document and line.
func ParseYAML(data []byte, limits Limits) ([]*yaml.Node, error) {
	limits = limits.orDefaults()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var documents []*yaml.Node
	for i := 1; ; i++ {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if i > limits.Documents {
			return nil, fmt.Errorf("more than %d documents", limits.Documents)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %s%s", i, strings.TrimPrefix(err.Error(), "yaml: "), syntaxHint(data))
		}
		if len(document.Content) == 0 {
			continue
		}
		w := yamlWalk{limits: limits}
		if err := w.visitNode(document.Content[0], 1); err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		// A mapping can have the tag !!null, so check a document before skipping it as empty.
		if document.Content[0].Tag != "!!null" {
			documents = append(documents, document.Content[0])
		}
	}
}

// syntaxHint returns a hint for two common causes of YAML syntax errors. One is a line that starts with a tab, which
// YAML does not accept as indentation. The other is a directive, which the decoder supports only in part.
func syntaxHint(data []byte) string {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		switch {
		case line[0] == '\t':
			return fmt.Sprintf(": line %d starts with a tab: indent with spaces", number)
		case bytes.HasPrefix(line, []byte("%YAML")), bytes.HasPrefix(line, []byte("%TAG")):
			return fmt.Sprintf(": line %d is the directive %s: remove this line", number, bytes.TrimSpace(line))
		}
	}
	return ""
}

// CheckYAML checks a stream like ParseYAML, but does not return the documents.
func CheckYAML(data []byte, limits Limits) error {
	_, err := ParseYAML(data, limits)
	return err
}

// acceptedTags lists the accepted YAML tags. Programs interpret other tags differently.
var acceptedTags = map[yaml.Kind][]string{
	yaml.ScalarNode:   {"!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp"},
	yaml.SequenceNode: {"!!seq"},
	yaml.MappingNode:  {"!!map"},
}

type yamlWalk struct {
	limits Limits
	nodes  int
	bytes  int
	path   []string // fields that lead to the current node
}

// field returns the path of a field in the current mapping.
func (w *yamlWalk) field(name string) string {
	return strings.Join(append(slices.Clone(w.path), name), ".")
}

func (w *yamlWalk) visitNode(n *yaml.Node, depth int) error {
	w.nodes++
	if w.limits.ExpandedBytes > 0 {
		if w.bytes += len(n.Value); w.bytes > w.limits.ExpandedBytes {
			return fmt.Errorf("line %d: more than %d bytes after expanding aliases", n.Line, w.limits.ExpandedBytes)
		}
		if n.Kind == yaml.AliasNode && w.nodes <= w.limits.Nodes {
			return w.visitNode(n.Alias, depth) // a cyclic alias exceeds the limit of nodes or depth
		}
	}
	if err := w.checkNode(n, depth); err != nil {
		return err
	}
	if n.Kind == yaml.MappingNode {
		return w.visitMapping(n, depth)
	}
	for _, child := range n.Content {
		if err := w.visitNode(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *yamlWalk) checkNode(n *yaml.Node, depth int) error {
	switch {
	case w.nodes > w.limits.Nodes:
		return fmt.Errorf("more than %d values", w.limits.Nodes)
	case depth > w.limits.Depth:
		return fmt.Errorf("line %d: nested deeper than %d levels", n.Line, w.limits.Depth)
	case n.Kind == yaml.AliasNode || n.Anchor != "" && w.limits.ExpandedBytes == 0:
		return fmt.Errorf("line %d: anchors and aliases are not accepted: replace them with their values", n.Line)
	case !slices.Contains(acceptedTags[n.Kind], n.Tag):
		return fmt.Errorf("line %d: tag %s is not accepted here", n.Line, n.Tag)
	case n.Tag == "!!float" && isNotFinite(n.Value):
		return fmt.Errorf("line %d: field %s: %s is not a number in JSON: put it in quotes", n.Line,
			strings.Join(w.path, "."), n.Value)
	}
	return nil
}

func (w *yamlWalk) visitMapping(n *yaml.Node, depth int) error {
	if err := w.checkKeys(n); err != nil {
		return err
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag != mergeTag || w.limits.ExpandedBytes == 0 { // checkKeys has checked the merge keys
			if err := w.visitNode(key, depth+1); err != nil {
				return err
			}
		}
		w.path = append(w.path, key.Value)
		if err := w.visitNode(value, depth+1); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	return nil
}

// isNotFinite reports whether a YAML float is infinite or not a number. JSON has no such values.
func isNotFinite(value string) bool {
	return slices.Contains([]string{".inf", ".nan"}, strings.ToLower(strings.TrimLeft(value, "+-")))
}

// checkKeys returns an error if the mapping has a duplicate key, a key that is not a scalar, or a merge key with an
// invalid value.
func (w *yamlWalk) checkKeys(n *yaml.Node) error {
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode && w.limits.ExpandedBytes > 0 {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: a key must be a string", key.Line)
		case key.Tag == "!!null":
			return fmt.Errorf("line %d: a key of field %s is null: put the key in quotes, or remove it", key.Line,
				w.field("<null>"))
		case key.Tag == mergeTag && w.limits.ExpandedBytes > 0:
			if err := w.checkMerge(n.Content[i+1], seen); err != nil {
				return err
			}
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: key %q appears twice", key.Line, key.Value)
		}
		seen[key.Value] = true
	}
	return nil
}

const mergeTag = "!!merge"

// HasMergeKey reports whether a document contains a merge key ("<<").
func HasMergeKey(n *yaml.Node) bool {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Tag == mergeTag || HasMergeKey(child) {
			return true
		}
	}
	return false
}

// checkMerge checks the value of a merge key. The map seen contains the keys that precede the merge key in the mapping.
// If the value contains one of these keys too, checkMerge returns an error, because decoders disagree about the entry
// that applies.
func (w *yamlWalk) checkMerge(value *yaml.Node, seen map[string]bool) error {
	merged := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode || value.Kind == yaml.AliasNode && value.Alias.Kind == yaml.SequenceNode {
		merged = resolved(value).Content
	}
	for _, n := range merged {
		line := n.Line
		if n = resolved(n); n.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: a merge key needs a mapping or a list of mappings", line)
		}
		if len(seen) == 0 {
			continue
		}
		if w.nodes += len(n.Content); w.nodes > w.limits.Nodes {
			return fmt.Errorf("more than %d values", w.limits.Nodes)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := resolved(n.Content[i]).Value; seen[key] {
				return fmt.Errorf("line %d: the merge key overrides field %s: put the merge key before this field", line,
					w.field(key))
			}
		}
	}
	return nil
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
