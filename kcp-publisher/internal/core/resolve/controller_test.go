package resolve

import (
	"reflect"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func controlledBy(controller string) func(*v1beta2.Module) {
	return func(m *v1beta2.Module) { m.ControllerName = controller }
}

func TestTemplatesOfAControllerNameAreSelected(t *testing.T) {
	provided := labelledTemplate(v1beta2.LabelControllerName, "blue")
	called := labelledTemplate(v1beta2.LabelModuleName, "keda")
	blue := func() *world {
		return newWorld().template("keda", "1.0.0", provided).template("keda", "1.1.0", provided).
			meta("keda", "regular=1.0.0", "fast=1.1.0")
	}
	const not = " is not provided under the controller name "
	const fix = ": label it operator.kyma-project.io/controller-name, or correct spec.modules[].controller"
	for name, c := range map[string]story{
		"Without a controller name all templates count": {
			world: blue().ask("keda"), want: []string{"keda@1.0.0 regular"},
		},
		"A template of the controller counts": {
			world: blue().ask("keda", controlledBy("blue")), want: []string{"keda@1.0.0 regular"},
		},
		"A template of another controller does not": {
			world: blue().ask("keda", controlledBy("red")), want: []string{
				`Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/keda-1.0.0` + not + `"red"` + fix,
			}},
		"A template of no controller does not": {
			world: newWorld().template("keda", "1.0.0").meta("keda", "regular=1.0.0").ask("keda", controlledBy("red")),
			want: []string{
				`Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/keda-1.0.0` + not + `"red"` + fix,
			}},
		"An installed module stays when its controller name is another": {
			world: blue().ask("keda"), then: func(w *world) { w.askNothingBut("keda", controlledBy("red")) },
			want: []string{
				"keda@1.0.0 regular", `Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/keda-1.0.0` +
					not + `"red"` + fix,
			}},
		"The older lookups find the template of the controller": {
			world: newWorld().older("a", "keda", "regular", "1.0.0", provided, called).
				older("b", "keda", "regular", "1.1.0", called).ask("keda", controlledBy("blue")),
			want: []string{"keda@1.0.0 regular"}},
		"The older lookups find nothing of another controller": {
			world: newWorld().older("a", "keda", "regular", "1.0.0", provided, called).ask("keda", controlledBy("red")),
			want:  []string{`Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/a` + not + `"red"` + fix}},
		"A mandatory module asks for no controller": {
			world: newWorld().template("keda", "1.0.0", provided).meta("keda").edit(mandatoryMeta("1.0.0")),
			want:  []string{"keda@1.0.0 mandatory"}},
	} {
		t.Run(name, c.check)
	}
	labels := blue().ask("keda").resolve(t).State.Manifests[0].Labels
	if labels[v1beta2.LabelControllerName] != "blue" {
		t.Errorf("the Manifest has the labels %v", labels)
	}
}

func TestPromotionReachesEveryControllerName(t *testing.T) {
	w := usual().askNothingBut("keda", controlledBy("red"))
	if got, want := Follows(w.request, w.snapshot(t)),
		[]Follow{{Module: "keda", Channel: "regular", Version: "1.0.0"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}
