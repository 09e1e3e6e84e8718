package ingest

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestUnpublishedKymaIsNotReady(t *testing.T) {
	s := &scene{now: noon, facts: Facts{Generation: 1, SilenceTimeout: allowedSilence,
		PublishError: errors.New("no root")}}
	modules := meta.FindStatusCondition(s.status().Conditions, v1beta2.ConditionModules)
	if modules.Status != metav1.ConditionFalse || modules.Message != "no bundle is published yet" {
		t.Errorf("before the first bundle: got condition %+v, want Modules False", modules)
	}
	s.before.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{Sequence: 7}}
	s.before.Modules = []v1beta2.ModuleStatus{{Name: "keda", State: v1beta2.StateReady}}
	if modules := meta.FindStatusCondition(s.status().Conditions,
		v1beta2.ConditionModules); modules.Status != metav1.ConditionTrue {
		t.Errorf("with an earlier bundle: got condition %+v, want Modules True", modules)
	}
}
