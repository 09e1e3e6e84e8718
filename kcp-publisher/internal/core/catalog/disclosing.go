package catalog

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/disclosure"
)

// findDisclosure checks the fields of an encoded catalog entry. It returns a finding if a field appears to contain a
// secret, and a problem if the entry cannot be decoded. It skips the fields in publicFields, which is a comma-separated
// list.
func findDisclosure(object string, data []byte, publicFields string) (finding, problem error) {
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decode %s: %w", object, err)
	}
	var public []string
	for field := range strings.SplitSeq(publicFields, ",") {
		if field = strings.TrimSpace(field); field != "" {
			public = append(public, field)
		}
	}
	for _, part := range []struct{ key, at string }{{"labels", "metadata.labels"},
		{"annotations", "metadata.annotations"}, {"spec", "spec"}} {
		if found, ok := disclosure.FindSecret(fields[part.key], part.at, public); ok {
			return fmt.Errorf(
				"%s %v: move it to a Secret in the runtime and reference the Secret, or list the field in annotation "+
					"%s if it is not a secret",
				object, found, v1beta2.AnnotationPublicFields), nil
		}
	}
	return nil, nil
}
