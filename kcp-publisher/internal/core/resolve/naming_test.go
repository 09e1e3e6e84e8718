package resolve

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestModuleRequestedByPathGetsValidManifestName(t *testing.T) {
	result := newWorld().older("keda-regular", "keda", "regular", "1.0.0").ask("kcp-system/keda-regular").resolve(t)
	if len(result.State.Manifests) != 1 {
		t.Fatalf("got problems %+v, want one manifest", result.State.Problems)
	}
	m := result.State.Manifests[0]
	if problems := validation.IsDNS1123Subdomain(m.Name); len(problems) > 0 {
		t.Errorf("invalid name %q: %v", m.Name, problems)
	}
	if problems := validation.IsValidLabelValue(m.Labels[v1beta2.LabelModuleName]); len(problems) > 0 {
		t.Errorf("invalid label %q: %v", m.Labels[v1beta2.LabelModuleName], problems)
	}
	if m.Module != "kcp-system/keda-regular" || m.Annotations[v1beta2.AnnotationModule] != m.Module {
		t.Errorf("got module %q and annotation %q, want kcp-system/keda-regular", m.Module,
			m.Annotations[v1beta2.AnnotationModule])
	}
}
