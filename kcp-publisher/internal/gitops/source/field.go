package source

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// findField returns the node of a field, such as spec.modules[2].name. For a missing field, it returns the node of
// the innermost existing parent.
func findField(document *yaml.Node, path string) *yaml.Node {
	value := document
	if value.Kind == yaml.DocumentNode && len(value.Content) == 1 {
		value = value.Content[0]
	}
	at := value
	for path != "" {
		key, next, rest := resolveStep(value, path)
		if next == nil {
			break
		}
		at, value, path = key, next, rest
	}
	return at
}

// resolveStep resolves the first part of a path. It returns the nodes of the key and its value, and the rest of the
// path.
func resolveStep(value *yaml.Node, path string) (key, next *yaml.Node, rest string) {
	switch value.Kind {
	case yaml.SequenceNode:
		index, rest, found := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(index)
		if !found || err != nil || i < 0 || i >= len(value.Content) {
			return nil, nil, path
		}
		return value.Content[i], value.Content[i], strings.TrimPrefix(rest, ".")
	case yaml.MappingNode:
		// Keys can contain dots, so the longest matching key is used.
		longest := -1
		for i := 0; i+1 < len(value.Content); i += 2 {
			name := value.Content[i].Value
			for _, written := range []string{name, "[" + name + "]"} {
				after, fits := strings.CutPrefix(path, written)
				if fits && (after == "" || after[0] == '.' || after[0] == '[') &&
					(next == nil || len(written) > longest) {
					longest, key, next, rest = len(written), value.Content[i], value.Content[i+1],
						strings.TrimPrefix(after, ".")
				}
			}
		}
		return key, next, rest
	}
	return nil, nil, path
}
