package install

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestUnsignedRecordOfAppliedVersionIsIgnored(t *testing.T) {
	own := &Installer{Options: Options{Signer: signer(t)}}
	noted := func(by *Installer, name string, change ...func(*v1beta2.AppliedVersion)) *v1beta2.Manifest {
		m := &v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name, Annotations: map[string]string{}},
			Spec:       v1beta2.ManifestSpec{Version: "2.0.0"},
		}
		was := m.DeepCopy()
		was.Spec.Version, was.Spec.Install.Source = "1.0.0", runtime.RawExtension{Raw: []byte(`{}`)}
		version := was.RequestedVersion()
		for _, f := range change {
			f(&version)
		}
		text, err := json.Marshal(version)
		require.NoError(t, err)
		signature, err := by.sign(m, string(text))
		require.NoError(t, err)
		m.Annotations[v1beta2.AnnotationApplied], m.Annotations[v1beta2.AnnotationAppliedSignature] = string(text),
			signature
		return m
	}
	was := own.lastApplied(noted(own, "a"))
	require.NotNil(t, was)
	require.Equal(t, "1.0.0", was.Spec.Version)

	forged := noted(own, "a")
	forged.Annotations[v1beta2.AnnotationApplied] = strings.Replace(forged.Annotations[v1beta2.AnnotationApplied],
		"1.0.0", "0.9.0", 1)
	unsigned := noted(own, "a")
	delete(unsigned.Annotations, v1beta2.AnnotationAppliedSignature)
	elsewhere := noted(own, "a")
	elsewhere.Name = "b"
	for name, m := range map[string]*v1beta2.Manifest{
		"changed record": forged, "record without a signature": unsigned, "record of another Manifest": elsewhere,
		"record signed with another key":       noted(&Installer{Options: Options{Signer: signer(t)}}, "a"),
		"apply of another version has started": noted(own, "a", func(v *v1beta2.AppliedVersion) { v.Begun = "x" }),
		"record without images": noted(own, "a",
			func(v *v1beta2.AppliedVersion) { v.ImagesLeftOut = true }),
	} {
		require.Nil(t, own.lastApplied(m), name)
	}
	require.Nil(t, (&Installer{}).lastApplied(noted(own, "a")), "installer without a signer")
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
	require.NotNil(t, w.manifest("sample").Applied())

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
		text := m.Annotations[v1beta2.AnnotationApplied]
		m.Annotations[v1beta2.AnnotationApplied] = strings.Replace(text,
			digest.FromString(sampleCRD+sampleRest).String(), digest.FromString(forged).String(), 1)
		require.NotEqual(t, text, m.Annotations[v1beta2.AnnotationApplied])
	})
	w.state("sample", v1beta2.StateError, "nothing of version 1.2.0 was applied: ")
	require.Equal(t, "value", data())

	t.Log("a partially applied upgrade is not reverted")
	w.wants("sample", sampleCRD+sampleRest, version("1.0.0"))
	w.eventually("version 1.0.0 is recorded again", func() bool {
		m := w.manifest("sample")
		return installed(m) && isLastApplied(m)
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
	require.Equal(t, "1.0.0", w.manifest("sample").RunningVersion())
	w.state("crowded", v1beta2.StateReady, "")
	require.Nil(t, w.manifest("crowded").Applied())
}

const crowdedV1 = `
apiVersion: v1
kind: ConfigMap
metadata: {name: crowded, namespace: kyma-system}
`
