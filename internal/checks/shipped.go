package checks

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// MaxShippedBytes is the maximum size of the file with checks in a module's content (bundle.ContentChecks).
const MaxShippedBytes = 256 << 10

// ParseShipped decodes the file with checks in a module's content (bundle.ContentChecks): one YAML document with the
// list "checks".
func ParseShipped(data []byte) ([]fleet.Check, error) {
	if len(data) > MaxShippedBytes {
		return nil, fmt.Errorf("content %s is %d bytes, must be at most %d", bundle.ContentChecks, len(data),
			MaxShippedBytes)
	}
	var document struct {
		Checks []fleet.Check `json:"checks"`
	}
	err := strict.CheckYAML(data, strict.Limits{Documents: 1, Nodes: 20_000})
	var text []byte
	if err == nil {
		text, err = yaml.YAMLToJSONStrict(data)
	}
	if err == nil {
		err = strict.JSON(text, &document, strict.MaxJSONDepth)
	}
	if err == nil && len(document.Checks) == 0 {
		err = errors.New(`field "checks" is required`)
	}
	if err == nil {
		err = bundle.ValidateChecks(document.Checks, true)
	}
	if err != nil {
		return nil, fmt.Errorf("content %s: %w", bundle.ContentChecks, err)
	}
	return document.Checks, nil
}
