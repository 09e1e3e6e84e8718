package ocm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

type labelDocument struct {
	Name    string    `yaml:"name"`
	Value   yaml.Node `yaml:"value"`
	Version string    `yaml:"version"`
	Signing bool      `yaml:"signing"`
	Merge   *struct {
		Algorithm string    `yaml:"algorithm"`
		Config    yaml.Node `yaml:"config"`
	} `yaml:"merge"`
}

func (l labelDocument) label() (Label, error) {
	if l.Name == "" {
		return Label{}, errors.New(".name is required")
	}
	value, err := nodeJSON(&l.Value)
	if err != nil {
		return Label{}, fmt.Errorf(".value: %w", err)
	}
	label := Label{Name: l.Name, Value: value, Version: l.Version, Signing: l.Signing}
	if l.Merge != nil {
		config, err := nodeJSON(&l.Merge.Config)
		if err != nil {
			return Label{}, fmt.Errorf(".merge.config: %w", err)
		}
		label.Merge = &Merge{Algorithm: l.Merge.Algorithm, Config: config}
	}
	return label, nil
}

func nodeJSON(n *yaml.Node) (json.RawMessage, error) {
	if n.Kind == 0 {
		return nil, nil
	}
	tree, err := nodeTree(n)
	if err != nil {
		return nil, err
	}
	return marshal(tree)
}

func newLabels(documents []labelDocument) ([]Label, error) {
	if len(documents) == 0 {
		return nil, nil
	}
	labels, err := convertAll(documents, maxElements, labelDocument.label)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(labels))
	for i, l := range labels {
		if seen[l.Name] {
			return nil, fmt.Errorf("[%d].name: %q appears twice", i, l.Name)
		}
		seen[l.Name] = true
	}
	return labels, nil
}

// parseProvider parses a component's provider, which can be a name, an object, or an object encoded as a string.
func parseProvider(node *yaml.Node) (Provider, error) {
	if node.Kind == 0 {
		return Provider{}, nil
	}
	if node.Kind == yaml.ScalarNode && strings.HasPrefix(strings.TrimSpace(node.Value), "{") &&
		json.Valid([]byte(node.Value)) {
		documents, err := strict.ParseYAML([]byte(node.Value), strict.Limits{Documents: 1})
		if err != nil {
			return Provider{}, err
		}
		node = documents[0]
	}
	if node.Kind != yaml.MappingNode {
		var name string
		err := node.Decode(&name)
		return Provider{Name: name}, plainError(err)
	}
	var document struct {
		Name   string          `yaml:"name"`
		Labels []labelDocument `yaml:"labels"`
	}
	if err := node.Decode(&document); err != nil {
		return Provider{}, plainError(err)
	}
	labels, err := newLabels(document.Labels)
	if err != nil {
		return Provider{}, fmt.Errorf("labels%w", err)
	}
	return Provider{Name: document.Name, Labels: labels}, nil
}
