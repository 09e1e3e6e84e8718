package ocm

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
)

func nodeTree(n *yaml.Node) (any, error) {
	switch n.Kind {
	case 0:
		return nil, nil
	case yaml.DocumentNode:
		return nodeTree(n.Content[0])
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			value, err := nodeTree(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			object[n.Content[i].Value] = value
		}
		return object, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			value, err := nodeTree(item)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.ScalarNode:
		return nodeScalar(n)
	}
	return nil, fmt.Errorf("line %d is not a mapping, list or scalar", n.Line)
}

func nodeScalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			// Keep the text of the number, because the versions 1.10 and 1.1 are different.
			return json.Number(n.Value), nil
		}
		if strings.Trim(n.Value, "0123456789") == "" {
			return n.Value, nil // a number with leading zeros becomes a string
		}
		var number float64
		if err := n.Decode(&number); err != nil {
			return nil, plainError(err)
		}
		if math.IsInf(number, 0) || math.IsNaN(number) {
			return nil, fmt.Errorf("line %d: %s is not a JSON number", n.Line, n.Value)
		}
		return number, nil
	}
	return n.Value, nil
}
