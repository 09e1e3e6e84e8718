package controller

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// regardingRecorder records the name and UID of the object to which each Event refers.
type regardingRecorder struct {
	*events.FakeRecorder
	regarding []string
}

func (r *regardingRecorder) Eventf(
	regarding, related runtime.Object, eventType, reason, action, note string, args ...any,
) {
	if object, err := meta.Accessor(regarding); err == nil {
		r.regarding = append(r.regarding, object.GetNamespace()+"/"+object.GetName()+" "+string(object.GetUID()))
	}
	r.FakeRecorder.Eventf(regarding, related, eventType, reason, action, note, args...)
}

func TestModuleTemplateOmittedFromTheCatalogEmitsOneEvent(t *testing.T) {
	snapshot := func(padding int) *catalog.Snapshot {
		s, err := catalog.New([]v1beta2.ModuleTemplate{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kcp-system", Name: "keda-1.0.0", UID: "u1",
			Annotations: map[string]string{"padding": strings.Repeat("x", padding)},
		}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	recorder := &regardingRecorder{FakeRecorder: events.NewFakeRecorder(10)}
	c := &Catalog{Events: recorder}
	small, large := snapshot(0), snapshot(1<<20)
	c.reportWithheld(t.Context(), nil, small)
	c.reportWithheld(t.Context(), small, large)
	c.reportWithheld(t.Context(), large, large)
	if n := len(recorder.Events); n != 1 {
		t.Fatalf("got %d Events, want one", n)
	}
	if event := <-recorder.Events; !strings.Contains(event, v1beta2.ReasonLeftOut) ||
		!strings.Contains(event, "ModuleTemplate kcp-system/keda-1.0.0: the object is 1048653 bytes") {
		t.Errorf("got Event %q, want one with the ModuleTemplate and its size", event)
	}
	if got := recorder.regarding; len(got) != 1 || got[0] != "kcp-system/keda-1.0.0 u1" {
		t.Errorf("got Events about %q, want one with the UID of the ModuleTemplate", got)
	}
}
