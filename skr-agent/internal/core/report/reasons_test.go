package report

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

func TestModuleReasonDependsOnManifestContentAndWindow(t *testing.T) {
	for name, c := range map[string]struct {
		state     v1beta2.State
		condition string
		change    func(*Facts)
		want      reason.Reason
	}{
		"module is ready":            {v1beta2.StateReady, "Ready", nil, ""},
		"module is in error":         {v1beta2.StateError, v1beta2.ReasonForbidden, nil, reason.Forbidden},
		"unknown reason of Manifest": {v1beta2.StateError, "Later", nil, reason.Other},
		"upgrade waits": {
			v1beta2.StateReady, "Ready", func(f *Facts) { f.WaitingUpgrades = map[string]string{"keda": "x"} },
			reason.WindowMissing,
		},
		"module is in error and its upgrade waits": {
			v1beta2.StateError, v1beta2.ReasonTimeout, func(f *Facts) { f.WaitingUpgrades = map[string]string{"keda": "x"} },
			reason.Timeout,
		},
		"content is missing": {
			v1beta2.StateReady, "Ready", func(f *Facts) { f.ContentErrors = map[string]error{"keda": errors.New("403")} },
			reason.ContentMissing,
		},
		"Manifest was refused": {v1beta2.StateReady, "Ready", func(f *Facts) {
			f.ContentErrors = map[string]error{"keda": reason.Errorf(reason.ApplyFailed, "denied")}
		}, reason.ApplyFailed},
	} {
		m := v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Name: "keda", Labels: map[string]string{v1beta2.LabelModuleName: "keda"}},
		}
		m.Status.State = c.state
		m.Status.Conditions = []metav1.Condition{
			{Type: v1beta2.ConditionReady, Reason: c.condition, Message: "image pull is forbidden"},
		}
		facts := Facts{Manifests: []v1beta2.Manifest{m}, WaitReason: reason.WindowMissing}
		if c.change != nil {
			c.change(&facts)
		}
		if got := modules(facts); len(got) != 1 || got[0].Reason != c.want {
			t.Errorf("%s: got %+v, want %q", name, got, c.want)
		}
	}
}
