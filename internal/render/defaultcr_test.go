package render

import (
	"strings"
	"testing"
)

func TestDefaultCRMustBeExactlyOneObject(t *testing.T) {
	const keda = "apiVersion: operator.kyma-project.io/v1alpha1\nkind: Keda\nmetadata: {name: default}\n"
	for name, c := range map[string]struct{ content, want string }{
		"one object":                 {keda, ""},
		"tar with one file":          {string(archive(t, yamlFile("default-cr.yaml", keda))), ""},
		"two objects":                {keda + "---\n" + strings.ReplaceAll(keda, "default}", "other}"), "2 objects"},
		"comment without an object":  {"# none\n", "no objects"},
		"content that is too large":  {strings.Repeat("#", MaxDefaultCRBytes+1), "must be at most 1048576"},
		"object without a kind":      {"apiVersion: v1\nmetadata: {name: x}\n", "kind"},
		"duplicate key in an object": {keda + "kind: Secret\n", "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := DefaultCR([]byte(c.content))
			if c.want == "" && (err != nil || object.GetKind() != "Keda") {
				t.Errorf("got %v, %v, want the Keda", object, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}
