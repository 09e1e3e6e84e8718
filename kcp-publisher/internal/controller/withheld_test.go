package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

func TestModuleTemplateOmittedFromTheCatalogEmitsOneEvent(t *testing.T) {
	snapshot := func(padding int) *catalog.Snapshot {
		s, err := catalog.New([]v1beta2.ModuleTemplate{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kcp-system", Name: "keda-1.0.0",
			Annotations: map[string]string{"padding": strings.Repeat("x", padding)},
		}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	recorder := events.NewFakeRecorder(10)
	c := &Catalog{Events: recorder}
	small, large := snapshot(0), snapshot(1<<20)
	c.reportWithheld(t.Context(), nil, small)
	c.reportWithheld(t.Context(), small, large)
	c.reportWithheld(t.Context(), large, large)
	if n := len(recorder.Events); n != 1 {
		t.Fatalf("got %d Events, want one", n)
	}
	if event := <-recorder.Events; !strings.Contains(event, v1beta2.ReasonLeftOut) ||
		!strings.Contains(event, "ModuleTemplate kcp-system/keda-1.0.0: the object has 1048653 bytes") {
		t.Errorf("got Event %q, want one with the ModuleTemplate and its size", event)
	}
}
