package render

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
)

const (
	// maxOverridesBytes bounds Helm's --set strings, whose grammar builds lists up to an index that is given.
	maxOverridesBytes = 64 << 10
	// maxValuesBytes bounds values as they are written; the largest charts known have 300 KiB.
	maxValuesBytes = 1 << 20
	// maxExpandedBytes bounds them with their aliases written out, by about how long that would be.
	maxExpandedBytes = 4 << 20
)

// configured reads a module's config layer. It is a mapping of values, as in a chart's values.yaml, or Kyma's older
// form, which contains only configs:
//
//	configs:
//	- name: my-chart                 # ignored if it is the only entry
//	  overrides: "a.b=1,c=two"       # as of helm --set
//	  clientConfig: "Namespace=kyma-system,CreateNamespace=true"
//
// Of clientConfig, only Namespace affects rendering, and it must be the namespace of the module. The other fields
// configured the Helm client's connection to the cluster.
//
// Source: kyma-project/module-manager, getConfigAndOverridesForInstall; lifecycle-manager's internal/manifest/v1beta1.
func (in Input) configured(layer []byte, chart string) (map[string]any, error) {
	if err := checkExpansion(layer); err != nil {
		return nil, fmt.Errorf("config layer: %w", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(layer, &values); err != nil {
		return nil, fmt.Errorf("config layer: is not a mapping of values: %w", err)
	}
	if entries, older := values["configs"].([]any); older && len(values) == 1 {
		overrides, err := in.overrides(entries, chart)
		if err != nil {
			return nil, fmt.Errorf("config layer: %w", err)
		}
		values = overrides
	}
	if values == nil {
		values = map[string]any{}
	}
	// The values replace text in parsed strings only, also in overrides, so they cannot add others.
	if err := in.Substitute.Substitute(values); err != nil {
		return nil, fmt.Errorf("config layer: %w", err)
	}
	return values, nil
}

func (in Input) overrides(entries []any, chart string) (map[string]any, error) {
	var names []string
	var mine map[string]any
	for i, e := range entries {
		entry, _ := e.(map[string]any)
		name, ok := entry["name"].(string)
		if !ok {
			return nil, fmt.Errorf("configs[%d]: has no name", i)
		}
		for key, value := range entry {
			if _, ok := value.(string); !ok || !slices.Contains([]string{"name", "clientConfig", "overrides"}, key) {
				return nil,
					fmt.Errorf("configs[%d]: %s is not known here: use name, clientConfig and overrides, all strings",
						i, key)
			}
		}
		names = append(names, name)
		if len(entries) == 1 || name == in.Release || name == chart {
			if mine != nil {
				return nil, fmt.Errorf("configs: two entries are meant for chart %s of module %s", chart, in.Release)
			}
			mine = entry
		}
	}
	if mine == nil {
		return nil,
			fmt.Errorf("configs: none of %s is chart %s or module %s", strings.Join(names, ", "), chart, in.Release)
	}
	client, err := settings(mine["clientConfig"])
	if err != nil {
		return nil, fmt.Errorf("clientConfig: %w", err)
	}
	if wanted, isSet := client["Namespace"]; isSet && wanted != in.Namespace {
		return nil,
			fmt.Errorf("clientConfig: namespace %v is not %s, where the module goes: set it there", wanted,
				in.Namespace)
	}
	overrides, err := settings(mine["overrides"])
	if err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	return overrides, nil
}

func settings(text any) (map[string]any, error) {
	line, _ := text.(string)
	if len(line) > maxOverridesBytes {
		return nil, fmt.Errorf("%d bytes, at most %d", len(line), maxOverridesBytes)
	}
	return strvals.Parse(line)
}

// checkExpansion refuses YAML that is larger than a document may be once its aliases are written out. Charts do use
// aliases in their values, so that they are not refused as such.
func checkExpansion(data []byte) error {
	if len(data) > maxValuesBytes {
		return fmt.Errorf("%d bytes, at most %d", len(data), maxValuesBytes)
	}
	var document goyaml.Node
	if err := goyaml.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if weigh(&document, map[*goyaml.Node]int{}) > maxExpandedBytes {
		return errors.New("aliases make it grow without end: write the values out")
	}
	return nil
}

// weigh returns about how many bytes a document has with its aliases written out, or more than allowed. A node under
// way weighs too much already, for it contains itself.
func weigh(n *goyaml.Node, known map[*goyaml.Node]int) int {
	const tooMuch = maxExpandedBytes + 1
	if n.Kind == goyaml.AliasNode {
		return weigh(n.Alias, known)
	}
	if weight, ok := known[n]; ok {
		return weight
	}
	known[n] = tooMuch
	weight := len(n.Value) + 8
	for _, child := range n.Content {
		if weight += weigh(child, known); weight >= tooMuch {
			return tooMuch
		}
	}
	known[n] = weight
	return weight
}
