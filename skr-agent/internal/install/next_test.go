package install

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestManifestFactsDetermineTheNextStep(t *testing.T) {
	now := time.Unix(1e9, 0)
	done := memo{checkedGeneration: 2, checkedAt: now}
	requested := &v1beta2.Manifest{Spec: v1beta2.ManifestSpec{Version: "2.0.0"}}
	digest := record.RequestedVersion(requested).Digest
	change := object.Keys{guard.Key{Kind: "ConfigMap", Name: "a"}: {}}
	for name, c := range map[string]struct {
		applied int64
		known   memo
		changed object.Keys
		note    string
		want    step
	}{
		"Manifest was never applied":       {0, memo{}, nil, "", stepApply},
		"older generation applied":         {1, done, nil, "", stepApply},
		"applied before the agent started": {2, memo{}, nil, "", stepApply},
		"resync is due": {2, memo{checkedGeneration: 2, checkedAt: now.Add(-time.Hour)}, nil, "",
			stepApply},
		"object waits for deletion": {
			2, memo{checkedGeneration: 2, checkedAt: now.Add(-time.Minute), heldReason: "x", heldFor: time.Minute}, nil,
			"", stepApply,
		},
		"object with data is kept": {
			2, memo{checkedGeneration: 2, checkedAt: now.Add(-time.Second), heldReason: "x", heldFor: time.Minute}, nil,
			"", stepCheck,
		},
		"object waits for a takeover": {
			2, memo{checkedGeneration: 2, checkedAt: now.Add(-time.Second), handingOver: "x"}, nil, "", stepApply,
		},
		"object changed":                       {2, done, change, "", stepCorrect},
		"no object changed":                    {2, done, nil, "", stepCheck},
		"record contains this version":         {2, done, nil, `{"version": "2.0.0", "digest": "` + digest + `"}`, stepCheck},
		"record contains other image rules":    {2, done, nil, `{"version": "2.0.0", "digest": "sha256:x"}`, stepApply},
		"record contains the previous version": {2, done, nil, `{"version": "1.5.0"}`, stepApply},
		"record contains a started apply": {
			2, done, nil, `{"version": "2.0.0", "digest": "` + digest + `", "begun": "sha256:x"}`, stepApply,
		},
		"record cannot be written": {
			2, memo{checkedGeneration: 2, checkedAt: now, recordFailed: true}, nil, `{"version": "1.5.0"}`, stepCheck,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := requested.DeepCopy()
			m.Generation = 2
			m.Annotations = map[string]string{v1beta2.AnnotationRecord: `{"record":{"applied":` + c.note + `}}`}
			if c.applied > 0 {
				m.Status.Conditions = []metav1.Condition{
					{Type: v1beta2.ConditionInstallation, Status: metav1.ConditionTrue, ObservedGeneration: c.applied},
				}
			}
			require.Equal(t, c.want, nextStep(m, c.known, c.changed, now, time.Hour))
		})
	}
}

func TestCorrectionsSlowDownAgainstAnotherWriter(t *testing.T) {
	var known memo
	now := time.Unix(1e9, 0)
	fought, other := guard.Key{Kind: "ConfigMap", Name: "fought"}, guard.Key{Kind: "ConfigMap", Name: "other"}
	due := func(k guard.Key) bool {
		due, later, wait := known.corrections.split(object.Keys{k: {}}, now)
		require.Equal(t, wait > 0, later.Has(k))
		require.NotEqual(t, due.Has(k), later.Has(k))
		return due.Has(k)
	}
	corrections := 0
	for end := now.Add(time.Hour); now.Before(end); now = now.Add(100 * time.Millisecond) {
		if due(fought) {
			known.corrections.count([]guard.Key{fought}, now)
			corrections++
		}
		require.True(t, due(other), "another object must be corrected at once")
	}
	require.Less(t, corrections, 30)
	require.Greater(t, corrections, 10)
	now = now.Add(time.Hour)
	known.corrections.count([]guard.Key{fought}, now)
	require.True(t, due(fought), "an hour without changes must reset the delay")
	now = now.Add(time.Hour)
	known.corrections.count([]guard.Key{other}, now)
	require.Len(t, known.corrections, 1, "ended series must be dropped")
}

func TestReadyTimeoutStartsAgainAfterAWarning(t *testing.T) {
	start := time.Unix(1e9, 0)
	now := start
	pc := &pacer{now: func() time.Time { return now }, lookInterval: 15 * time.Second, readyTimeout: 10 * time.Minute}
	m, known := &v1beta2.Manifest{}, &memo{}
	m.Generation = 1
	for _, c := range []struct {
		after       time.Duration
		state, want v1beta2.State
	}{
		{0, v1beta2.StateProcessing, v1beta2.StateProcessing},
		{11 * time.Minute, v1beta2.StateProcessing, v1beta2.StateError},
		{time.Hour, v1beta2.StateWarning, v1beta2.StateWarning},
		{2 * time.Hour, v1beta2.StateProcessing, v1beta2.StateProcessing},
		{2*time.Hour + 10*time.Minute, v1beta2.StateProcessing, v1beta2.StateProcessing},
		{2*time.Hour + 11*time.Minute, v1beta2.StateProcessing, v1beta2.StateError},
	} {
		now = start.Add(c.after)
		out := pc.notReady(m, known, outcome.Outcome{State: c.state}, 0)
		require.Equal(t, c.want, out.State, "after %s", c.after)
		require.LessOrEqual(t, out.Again, pc.lookInterval)
	}
	require.Equal(t, 6, known.checks, "a warning must not reset the delay between checks")
}

func TestStatusTimesChangeOnlyWithValues(t *testing.T) {
	m := &v1beta2.Manifest{}
	out := outcome.Outcome{
		State: v1beta2.StateReady, Ready: outcome.Finding{OK: true, Reason: "Ready", Message: "all objects are ready"},
	}
	m.Status = outcome.StatusOf(m, out, time.Unix(1e9, 0))
	require.Equal(t, m.Status, outcome.StatusOf(m, out, time.Unix(2e9, 0)))
	out.Ready.Message = "else"
	later := outcome.StatusOf(m, out, time.Unix(2e9, 0))
	require.Equal(t, int64(2e9), later.LastOperation.LastUpdateTime.Unix())
	require.Equal(t, int64(1e9), later.Conditions[0].LastTransitionTime.Unix())
}

func TestOwnerOfModuleInNamespaceHasValidLabel(t *testing.T) {
	m := &v1beta2.Manifest{}
	m.Name, m.Labels = "team-keda", map[string]string{v1beta2.LabelModuleName: "team-keda"}
	m.Annotations = map[string]string{v1beta2.AnnotationModule: "team/keda"}
	require.NotContains(t, (&planner{}).owner(m).Module, "/", "the module label must not contain a slash")
}
