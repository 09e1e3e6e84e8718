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
		"annotation with only a UID":           {bundle.Predicate{KymaUID: "1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bundle.Bundle{}
			b.Statement.Predicate = c.predicate
			want := bundle.Manifest{Annotations: map[string]string{"team": "a"}}
			got := completeManifest(want, b).Annotations
			require.Equal(t, c.want, got[v1beta2.AnnotationKymas])
			require.Equal(t, "a", got["team"])
			require.NotContains(t, want.Annotations, v1beta2.AnnotationKymas)
		})
	}
}

func TestBundleCannotChangeManifestIdentityOrRecords(t *testing.T) {
	want := bundle.Manifest{
		Name: "team-keda", Module: "team/keda", Component: "makers.example/keda",
		Labels: map[string]string{
			v1beta2.LabelModuleName: "other", v1beta2.LabelChannel: "fast", v1beta2.LabelSkipReconciliation: v1beta2.True,
		},
		Annotations: map[string]string{
			v1beta2.AnnotationModule: "team/other", v1beta2.AnnotationFQDN: "makers.example/other",
			v1beta2.AnnotationRecord: "{}", v1beta2.AnnotationUnmanaged: v1beta2.True, v1beta2.AnnotationImages: "{}",
			v1beta2.AnnotationRecreate: v1beta2.True, "example.org/team": "a",
		},
		Release: []bundle.Content{{Name: "release"}},
	}
	got := completeManifest(want, &bundle.Bundle{})
	require.Equal(t, map[string]string{v1beta2.LabelModuleName: "team-keda", v1beta2.LabelChannel: "fast"}, got.Labels)
	require.Equal(t, map[string]string{
		v1beta2.AnnotationModule: "team/keda", v1beta2.AnnotationFQDN: "makers.example/keda",
		v1beta2.AnnotationImages: `{"pinned":true}`, v1beta2.AnnotationRecreate: v1beta2.True, "example.org/team": "a",
	}, got.Annotations)
	require.Equal(t, "other", want.Labels[v1beta2.LabelModuleName], "completed must not change the bundle")
}
