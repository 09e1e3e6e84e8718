package admission

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestPromotionOfARejectedVersionWarns(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := fleet.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	rejected := &fleet.Rollout{
		Spec: fleet.RolloutSpec{Module: "keda", Channel: "regular", Revision: 3, From: "1.0.0", To: "1.1.0"},
	}
	rejected.Namespace, rejected.Name = "kcp-system", "keda-regular-3"
	rejected.Status.State, rejected.Status.Message = fleet.RolloutRolledBack, "wave canaries failed"
	elsewhere := rejected.DeepCopy()
	elsewhere.Namespace, elsewhere.Name = "other", "keda-regular-9"
	webhook := promotions{fake.NewClientBuilder().WithScheme(scheme).WithObjects(rejected, elsewhere).Build()}
	meta := func(versions ...string) (raw runtime.RawExtension) {
		if len(versions) == 0 {
			return raw
		}
		m := v1beta2.ModuleReleaseMeta{Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "keda"}}
		for i, version := range versions {
			channel := []string{"regular", "fast"}[i]
			m.Spec.Channels = append(m.Spec.Channels, v1beta2.ChannelVersion{Channel: channel, Version: version})
		}
		raw.Raw, _ = json.Marshal(m)
		return raw
	}
	const warning = "version 1.1.0 of module keda in channel regular: " +
		"rollout keda-regular-3 rolled it back: wave canaries failed"
	const elsewhereWarning = "version 1.1.0 of module keda in channel fast: " +
		"rollout keda-regular-3 in channel regular rolled it back: wave canaries failed"
	for name, c := range map[string]struct {
		before, after runtime.RawExtension
		want          string
	}{
		"promotion of the rejected version":    {meta("1.0.0"), meta("1.1.0"), warning},
		"new object with the rejected version": {meta(), meta("1.1.0"), warning},
		"promotion to a different version":     {meta("1.0.0"), meta("1.2.0"), ""},
		"channel keeps the version":            {meta("1.1.0"), meta("1.1.0", "1.2.0"), ""},
		"rejected version in another channel":  {meta("1.0.0"), meta("1.0.0", "1.1.0"), elsewhereWarning},
	} {
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: "kcp-system", Name: "keda", Object: c.after, OldObject: c.before,
		}}
		response := webhook.Handle(t.Context(), request)
		if got := strings.Join(response.Warnings, "; "); !response.Allowed || got != c.want {
			t.Errorf("%s: allowed %t, warnings %q, want %q", name, response.Allowed, got, c.want)
		}
	}
}
