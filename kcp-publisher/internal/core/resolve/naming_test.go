package resolve

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestAModuleAskedForByAPathGetsAManifestThatTheAPITakes(t *testing.T) {
	result := newWorld().older("keda-regular", "keda", "regular", "1.0.0").ask("kcp-system/keda-regular").resolve(t)
	if len(result.State.Manifests) != 1 {
		t.Fatalf("%+v", result.State.Problems)
	}
	m := result.State.Manifests[0]
	if problems := validation.IsDNS1123Subdomain(m.Name); len(problems) > 0 {
		t.Errorf("name %q: %v", m.Name, problems)
	}
	if problems := validation.IsValidLabelValue(m.Labels[v1beta2.LabelModuleName]); len(problems) > 0 {
		t.Errorf("label %q: %v", m.Labels[v1beta2.LabelModuleName], problems)
	}
	if m.Module != "kcp-system/keda-regular" || m.Annotations[v1beta2.AnnotationModule] != m.Module {
		t.Errorf("module %q, annotation %q", m.Module, m.Annotations[v1beta2.AnnotationModule])
	}
}

func TestAModuleSaysWhatItWasCalledBefore(t *testing.T) {
	for former, c := range map[string]struct{ want, says string }{
		"":           {"", ""},
		"autoscaler": {"autoscaler", ""},
		"kcp/auto":   {"kcp-auto", ""},
		"keda":       {"", `ModuleTemplate keda-1.0.0: annotation kyma-pull.dev/renamed-from: "keda": is the module's own name`},
		"Not A Name": {"", "cannot be that of a Manifest"},
	} {
		result := newWorld().template("keda", "1.0.0", func(t *v1beta2.ModuleTemplate) {
			t.Annotations = map[string]string{v1beta2.AnnotationRenamedFrom: former}
		}).meta("keda", "regular=1.0.0").ask("keda").resolve(t)
		if c.says != "" {
			if len(result.State.Problems) != 1 || !strings.Contains(result.State.Problems[0].Message, c.says) {
				t.Errorf("%q: %+v", former, result.State.Problems)
			}
			continue
		}
		if len(result.State.Manifests) != 1 || result.State.Manifests[0].Annotations[v1beta2.AnnotationRenamedFrom] != c.want {
			t.Errorf("%q: %+v, %+v", former, result.State.Manifests, result.State.Problems)
		}
	}
}
