package install

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestDriftIsCorrectedOnlyForSignedCompleteVersions(t *testing.T) {
	own, other := record.Store{Signer: signer(t)}, record.Store{Signer: signer(t)}
	recorded := func(by record.Store, change func(*record.AppliedVersion)) *v1beta2.Manifest {
		m := &v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "a"}, Spec: v1beta2.ManifestSpec{Version: "2.0.0"},
		}
		was := m.DeepCopy()
		was.Spec.Version, was.Spec.Install.Source = "1.0.0", runtime.RawExtension{Raw: []byte(`{}`)}
		version := record.RequestedVersion(was)
		change(&version)
		require.NoError(t, by.Set(m, record.Record{Applied: &version}))
		return m
	}
	asIs := func(*record.AppliedVersion) {}
	l := &ledger{records: own}
	was := l.lastApplied(recorded(own, asIs))
	require.NotNil(t, was)
	require.Equal(t, "1.0.0", was.Spec.Version)
	for name, m := range map[string]*v1beta2.Manifest{
		"record signed with another key":       recorded(other, asIs),
		"unsigned record":                      recorded(record.Store{}, asIs),
		"apply of another version has started": recorded(own, func(v *record.AppliedVersion) { v.InProgress = "x" }),
		"record without images":                recorded(own, func(v *record.AppliedVersion) { v.ImagesOmitted = true }),
	} {
		require.Nil(t, l.lastApplied(m), name)
	}
	require.Nil(t, (&ledger{}).lastApplied(recorded(own, asIs)), "installer without a signer")
}

func TestAppliedVersionIsCorrectedWhileUpgradeIsRefused(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	data := func() string {
		config := &corev1.ConfigMap{}
		require.True(t, w.exists(config, home, "sample-config"))
		return config.Data["key"]
	}
	wrong := func(value string) string { return strings.Replace(sampleRest, "key: value", value, 1) }

	t.Log("a module runs with a large default CR, and without space for the record")
	w.wants("crowded", crowdedV1, version("1.0.0"), func(m *v1beta2.Manifest) {
		m.Annotations = map[string]string{"tenant": strings.Repeat("a", 262_000)}
	})
	w.wants("sample", sampleCRD+sampleRest, version("1.0.0"), func(m *v1beta2.Manifest) {
		withDefaultCR(m)
		m.Spec.Resource.Object["spec"] = map[string]any{"size": strings.Repeat("a", 300<<10)}
	})
	w.runs(home, "sample-manager")
	w.state("sample", v1beta2.StateReady, "")
	require.NotNil(t, record.ReadUnverified(w.manifest("sample")).Applied)

	t.Log("an object that a tenant replaced during a failed upgrade is not overwritten")
	w.wants("sample", sampleCRD+wrong("key: 1"), version("1.1.0"))
	w.state("sample", v1beta2.StateError, "nothing of version 1.1.0 was applied: ")
	require.Equal(t, "value", data())
	theirs := &corev1.ConfigMap{}
	require.True(t, w.exists(theirs, home, "sample-config"))
	theirs.Labels, theirs.Annotations, theirs.ManagedFields = nil, nil, []metav1.ManagedFieldsEntry{{}}
	theirs.Data = map[string]string{"key": "theirs"}
	require.NoError(t, w.client.Update(ctx, theirs))
	w.state("sample", v1beta2.StateError, "nothing was applied: ConfigMap kyma-system/sample-config already exists")
	require.Equal(t, "theirs", data())
	require.NoError(t, w.client.Delete(ctx, theirs))
	w.eventually("the module's object is restored", func() bool {
		return w.exists(&corev1.ConfigMap{}, home, "sample-config") && data() == "value"
	})

	t.Log("a record that another client changed is ignored")
	forged := strings.Replace(sampleRest, "key: value", "key: forged", 1)
	require.NoError(t, w.content.Put(ctx, digest.FromString(forged), []byte(forged)))
	w.wants("sample", sampleCRD+wrong("key: 2"), version("1.2.0"), func(m *v1beta2.Manifest) {
		text := m.Annotations[v1beta2.AnnotationRecord]
		m.Annotations[v1beta2.AnnotationRecord] = strings.Replace(text,
			digest.FromString(sampleCRD+sampleRest).String(), digest.FromString(forged).String(), 1)
		require.NotEqual(t, text, m.Annotations[v1beta2.AnnotationRecord])
	})
	w.state("sample", v1beta2.StateError, "nothing of version 1.2.0 was applied: ")
	require.Equal(t, "value", data())

	t.Log("a partially applied upgrade is not reverted")
	w.wants("sample", sampleCRD+sampleRest, version("1.0.0"))
	w.eventually("version 1.0.0 is recorded again", func() bool {
		m := w.manifest("sample")
		return planning.Installed(m) && planning.IsLastApplied(m)
	})
	v2 := strings.Replace(sampleCRD, "type: object,", "type: object, description: second,", 1) + sampleRest + `
apiVersion: v1
kind: Namespace
metadata: {name: sample-fresh}
---
apiVersion: v1
kind: Service
metadata: {name: wrong, namespace: sample-fresh}
spec: {ports: [{port: 100000}]}
`
	w.wants("sample", v2, version("2.0.0"))
	w.state("sample", v1beta2.StateError,
		"version 2.0.0 is partially applied, and is not rolled back: Service sample-fresh/wrong")
	definition := ofKind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "")
	require.True(t, w.exists(definition, "", "samples.example.kyma-project.io"))
	text, err := definition.MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(text), "second")
	require.Equal(t, "1.0.0", record.RunningVersion(w.manifest("sample")))
	w.state("crowded", v1beta2.StateReady, "")
	require.Nil(t, record.ReadUnverified(w.manifest("crowded")).Applied)
}

const crowdedV1 = `
apiVersion: v1
kind: ConfigMap
metadata: {name: crowded, namespace: kyma-system}
`
