package objects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestManifestNamesTheKymasOfItsRuntime(t *testing.T) {
	kyma := trust.Kyma{Namespace: "kcp-system", Name: "one", UID: "1"}
	for name, c := range map[string]struct {
		predicate bundle.Predicate
		want      string
	}{
		"its Kyma": {bundle.Predicate{Kyma: &kyma}, "kcp-system/one"},
		"and those before it": {
			bundle.Predicate{Kyma: &kyma, FormerKymas: []trust.Kyma{{Namespace: "other", Name: "two"}}},
			"kcp-system/one,other/two",
		},
		"a Kyma in a file":                  {bundle.Predicate{Kyma: &trust.Kyma{Name: "one"}}, "kcp-system/one"},
		"a publisher that names only a UID": {bundle.Predicate{KymaUID: "1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bundle.Bundle{}
			b.Statement.Predicate = c.predicate
			want := bundle.Manifest{Annotations: map[string]string{"team": "a"}}
			got := annotated(want, b)
			require.Equal(t, c.want, got[v1beta2.AnnotationKymas])
			require.Equal(t, "a", got["team"])
			require.NotContains(t, want.Annotations, v1beta2.AnnotationKymas)
		})
	}
}
