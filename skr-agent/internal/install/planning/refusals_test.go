package planning

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestObjectIsRecreatedOncePerVersion(t *testing.T) {
	m := &v1beta2.Manifest{Spec: v1beta2.ManifestSpec{Version: "2.0.0"}}
	require.False(t, wasRecreated(m, "a"))
	require.NoError(t, record.Store{}.Set(m, record.Record{
		Recreated: &record.Recreated{Version: WantedDigest(m), Objects: []types.UID{"a", "b"}},
	}))
	require.False(t, wasRecreated(m, "b"), "object b must not count as recreated, because it still exists")
	require.True(t, wasRecreated(m, "c"))
	m.Spec.Version = "2.0.1"
	require.False(t, wasRecreated(m, "c"))
}

func ofKind(apiVersion, kind, recreate string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetName("x")
	if recreate != "" {
		o.SetAnnotations(map[string]string{v1beta2.AnnotationRecreate: recreate})
	}
	return o
}

func TestRefusedVersionReportsFix(t *testing.T) {
	m := &v1beta2.Manifest{Spec: v1beta2.ManifestSpec{Version: "2.0.0"}}
	m.Annotations = map[string]string{v1beta2.AnnotationRecord: `{"record":{"applied":{"version": "1.0.0"}}}`}
	fixed := Refusal{
		ofKind("apps/v1", "Deployment", ""),
		errors.New("Deployment x: spec.selector: field is immutable"),
		true,
		"",
	}
	data := Refusal{
		ofKind("v1", "PersistentVolumeClaim", "true"),
		errors.New("PersistentVolumeClaim x: spec: is immutable"),
		true,
		"",
	}
	allowed := Refusal{
		ofKind("batch/v1", "Job", "true"), errors.New("Job x: spec.template: field is immutable"), true, "",
	}
	wrong := Refusal{ofKind("v1", "Service", "true"), errors.New("Service x: spec.ports: required"), false, ""}

	recreate, problem := JudgeRefusals(m, []Refusal{allowed})
	require.Nil(t, problem)
	require.Len(t, recreate, 1)

	recreate, problem = JudgeRefusals(m, []Refusal{fixed, data, allowed})
	require.Empty(t, recreate, "no object must be recreated if another object is refused")
	require.Equal(t, v1beta2.ReasonImmutable, problem.Reason)
	for _, text := range []string{
		"nothing of version 2.0.0 was applied: Deployment x: spec.selector: field is immutable: can only be changed " +
			"by recreating it",
		`set the annotation kyma-pull.dev/recreate: "true" on it in the module's content, or on the ModuleTemplate`,
		`PersistentVolumeClaim x: spec: is immutable: can only be changed`,
		`kyma-pull.dev/recreate: "with-data" on it in the module's content`,
		"would be recreated: Job x",
	} {
		require.Contains(t, problem.Message, text)
	}

	recreate, problem = JudgeRefusals(m, []Refusal{allowed, wrong})
	require.Empty(t, recreate)
	require.Equal(t, v1beta2.ReasonApplyFailed, problem.Reason)
	require.Contains(t, problem.Message, "Service x: spec.ports: required; would be recreated: Job x")

	recreate, problem = JudgeRefusals(m, nil)
	require.Empty(t, recreate)
	require.Nil(t, problem)
}
