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
	// maxOverridesBytes limits the length of overrides in the format of helm --set. A short text can define a list
	// with a large index, which needs much memory.
	maxOverridesBytes = 64 << 10
	// maxValuesBytes limits the size of values in YAML. The largest known values.yaml is 300 KiB.
	maxValuesBytes = 1 << 20
	// maxExpandedBytes limits the size of values after aliases are expanded.
	maxExpandedBytes = 4 << 20
)

// configValues returns the Helm values in a module's config layer. The layer has the format of a chart's values.yaml,
// or Kyma's older format, which contains only the field configs:
//
//	configs:
//	- name: my-chart                 # ignored if it is the only entry
//	  overrides: "a.b=1,c=two"       # in the format of helm --set
//	  clientConfig: "Namespace=kyma-system,CreateNamespace=true"
//
// In clientConfig, only Namespace affects rendering. It must be the module's namespace. The other fields configured the
// Helm client's connection to the cluster and are ignored.
//
// Source: kyma-project/module-manager, getConfigAndOverridesForInstall; lifecycle-manager's internal/manifest/v1beta1.
func (in Input) configValues(layer []byte, chart string) (map[string]any, error) {
	if err := checkExpansion(layer); err != nil {
		return nil, fmt.Errorf("config layer: %w", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(layer, &values); err != nil {
		return nil, fmt.Errorf("config layer is not a mapping of values: %w", err)
	}
	if entries, older := values["configs"].([]any); older && len(values) == 1 {
		overrides, err := in.overrideValues(entries, chart)
		if err != nil {
			return nil, fmt.Errorf("config layer: %w", err)
		}
		values = overrides
	}
	if values == nil {
		values = map[string]any{}
	}
	// Replace placeholders only after parsing, so that a runtime's value cannot add other Helm values.
	if err := in.Substitute.Substitute(values); err != nil {
		return nil, fmt.Errorf("config layer: %w", err)
	}
	return values, nil
}

func (in Input) overrideValues(entries []any, chart string) (map[string]any, error) {
	var names []string
	var mine map[string]any
	for i, e := range entries {
		entry, _ := e.(map[string]any)
		name, ok := entry["name"].(string)
		if !ok {
			return nil, fmt.Errorf("configs[%d] has no name", i)
		}
		for key, value := range entry {
			if _, ok := value.(string); !ok || !slices.Contains([]string{"name", "clientConfig", "overrides"}, key) {
				return nil,
					fmt.Errorf("configs[%d].%s is not supported: set only name, clientConfig and overrides, as strings",
						i, key)
			}
		}
		names = append(names, name)
		if len(entries) == 1 || name == in.Release || name == chart {
			if mine != nil {
				return nil, fmt.Errorf("configs: two entries match chart %s or module %s: remove one", chart,
					in.Release)
			}
			mine = entry
		}
	}
	if mine == nil {
		return nil,
			fmt.Errorf("configs: none of the names %s matches chart %s or module %s", strings.Join(names, ", "), chart,
				in.Release)
	}
	client, err := parseSettings(mine["clientConfig"])
	if err != nil {
		return nil, fmt.Errorf("clientConfig: %w", err)
	}
	if wanted, isSet := client["Namespace"]; isSet && wanted != in.Namespace {
		return nil,
			fmt.Errorf("clientConfig: Namespace is %v, but the module is installed in %s: set this namespace", wanted,
				in.Namespace)
	}
	overrides, err := parseSettings(mine["overrides"])
	if err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	return overrides, nil
}

func parseSettings(text any) (map[string]any, error) {
	line, _ := text.(string)
	if len(line) > maxOverridesBytes {
		return nil, fmt.Errorf("the text is %d bytes, must be at most %d", len(line), maxOverridesBytes)
	}
	return strvals.Parse(line)
}

// checkExpansion returns an error for values that are too large after their aliases are expanded.
func checkExpansion(data []byte) error {
	if len(data) > maxValuesBytes {
		return fmt.Errorf("the values are %d bytes, must be at most %d", len(data), maxValuesBytes)
	}
	var document goyaml.Node
	if err := goyaml.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if expandedSize(&document, map[*goyaml.Node]int{}) > maxExpandedBytes {
		return errors.New("the aliases expand to too many bytes: replace them with their values")
	}
	return nil
}

// expandedSize returns the approximate size in bytes of a YAML node after its aliases are expanded, or
// maxExpandedBytes+1 for a larger node. The map known is a cache of sizes.
func expandedSize(n *goyaml.Node, known map[*goyaml.Node]int) int {
	const tooMuch = maxExpandedBytes + 1
	if n.Kind == goyaml.AliasNode {
		return expandedSize(n.Alias, known)
	}
	if weight, ok := known[n]; ok {
		return weight
	}
	known[n] = tooMuch
	weight := len(n.Value) + 8
	for _, child := range n.Content {
		if weight += expandedSize(child, known); weight >= tooMuch {
			return tooMuch
		}
	}
	known[n] = weight
	return weight
}
