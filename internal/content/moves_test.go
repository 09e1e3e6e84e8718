package content

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestMoveAnnotationMustNameOneModule(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        Move
		problem     string
	}{
		"no annotation":      {nil, Move{}, ""},
		"move to a module":   {map[string]string{"kyma-pull.dev/moves-to": "b"}, Move{To: "b"}, ""},
		"move from a module": {map[string]string{"kyma-pull.dev/moves-from": "a"}, Move{From: "a"}, ""},
		"name with slash":    {map[string]string{"kyma-pull.dev/moves-to": "team/b"}, Move{To: "team/b"}, ""},
		"both annotations": {
			map[string]string{"kyma-pull.dev/moves-to": "b", "kyma-pull.dev/moves-from": "a"}, Move{},
			"ConfigMap x has the annotations kyma-pull.dev/moves-to and kyma-pull.dev/moves-from: remove one of them",
		},
		"empty name": {
			map[string]string{"kyma-pull.dev/moves-from": ""}, Move{},
			`ConfigMap x: annotation kyma-pull.dev/moves-from: "" is not a module name`,
		},
		"list of names": {
			map[string]string{"kyma-pull.dev/moves-to": "a, b"}, Move{}, `"a, b" is not a module name`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			o.SetName("x")
			o.SetAnnotations(c.annotations)
			_, err := Check(Input{Objects: []*unstructured.Unstructured{o.DeepCopy()}, Namespace: "kyma-system"})
			if c.problem != "" {
				require.ErrorContains(t, err, c.problem, "component create refuses the content that agents refuse")
				return
			}
			require.NoError(t, err)
			move, err := MoveOf(o)
			require.NoError(t, err)
			require.Equal(t, c.want, move)
		})
	}
}
