package anywhere

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestModuleStaysUntilItsFinalizerLetsGo(t *testing.T) {
	scene(t)
	onKind(t, "the module's operator")
	ctx, r := t.Context(), stage.tokyo
	well(t, r)
	untilAnswered(t, r)
	user := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1beta2.RuntimeNamespace, Name: "user", Labels: map[string]string{samplemodule.LabelUses: samplemodule.DefaultCR},
	}}
	must(t, r.API.Create(ctx, user))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == samplemodule.Module })
	}))
	until(t, "the control plane names the finalizer that blocks", func() (bool, string) {
		kyma, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, m := range kyma.Status.Modules {
			if m.Name == samplemodule.Module {
				return m.State == v1beta2.StateDeleting && strings.Contains(m.Message, samplemodule.Finalizer), fmt.Sprintf("%+v", m)
			}
		}
		return false, fmt.Sprintf("%+v", kyma.Status.Modules)
	})
	if _, err := settings(ctx, r); err != nil {
		t.Errorf("the module's objects went before its CR: %v", err)
	}
	must(t, r.API.Delete(ctx, user))
	must(t, r.UntilGone(ctx, samplemodule.Module))
	add(t, r)
}
