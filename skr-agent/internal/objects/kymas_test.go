package objects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestManifestAnnotationListsKymas(t *testing.T) {
	kyma := trust.Kyma{Namespace: "kcp-system", Name: "one", UID: "1"}
	for name, c := range map[string]struct {
		predicate bundle.Predicate
		want      string
	}{
		"current Kyma": {bundle.Predicate{Kyma: &kyma}, "kcp-system/one"},
		"current and former Kymas": {
			bundle.Predicate{Kyma: &kyma, FormerKymas: []trust.Kyma{{Namespace: "other", Name: "two"}}},
			"kcp-system/one,other/two",
		},
		"Kyma from a file without a namespace": {bundle.Predicate{Kyma: &trust.Kyma{Name: "one"}}, "kcp-system/one"},
		"older publisher with UID only":        {bundle.Predicate{KymaUID: "1"}, ""},
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
