package resolve

import (
	"reflect"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func controlledBy(controller string) func(*v1beta2.Module) {
	return func(m *v1beta2.Module) { m.ControllerName = controller }
}

func TestControllerNameSelectsTemplates(t *testing.T) {
	provided := labelledTemplate(v1beta2.LabelControllerName, "blue")
	called := labelledTemplate(v1beta2.LabelModuleName, "keda")
	blue := func() *world {
		return newWorld().template("keda", "1.0.0", provided).template("keda", "1.1.0", provided).
			meta("keda", "regular=1.0.0", "fast=1.1.0")
	}
	const not = " does not have the controller name "
	const fix = ": set its label operator.kyma-project.io/controller-name, or correct spec.modules[].controller"
	for name, c := range map[string]resolveCase{
		"Request without a controller name accepts all templates": {
			world: blue().ask("keda"), want: []string{"keda@1.0.0 regular"},
		},
		"Request with the template's controller name": {
			world: blue().ask("keda", controlledBy("blue")), want: []string{"keda@1.0.0 regular"},
		},
		"Request with a different controller name": {
			world: blue().ask("keda", controlledBy("red")), want: []string{
				`Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/keda-1.0.0` + not + `"red"` + fix,
			}},
		"Request with a controller name, template without one": {
			world: newWorld().template("keda", "1.0.0").meta("keda", "regular=1.0.0").ask("keda", controlledBy("red")),
			want: []string{
				`Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/keda-1.0.0` + not + `"red"` + fix,
			}},
		"Installed module stays if the requested controller name changes": {
			world: blue().ask("keda"), then: func(w *world) { w.askNothingBut("keda", controlledBy("red")) },
			want: []string{
				"keda@1.0.0 regular", `Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/keda-1.0.0` +
					not + `"red"` + fix,
			}},
		"Lookup without ModuleReleaseMeta selects by controller name": {
			world: newWorld().older("a", "keda", "regular", "1.0.0", provided, called).
				older("b", "keda", "regular", "1.1.0", called).ask("keda", controlledBy("blue")),
			want: []string{"keda@1.0.0 regular"}},
		"Lookup without ModuleReleaseMeta refuses another controller name": {
			world: newWorld().older("a", "keda", "regular", "1.0.0", provided, called).ask("keda", controlledBy("red")),
			want:  []string{`Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/a` + not + `"red"` + fix}},
		"Mandatory module ignores controller names": {
			world: newWorld().template("keda", "1.0.0", provided).meta("keda").edit(mandatoryMeta("1.0.0")),
			want:  []string{"keda@1.0.0 mandatory"}},
	} {
		t.Run(name, c.check)
	}
	labels := blue().ask("keda").resolve(t).State.Manifests[0].Labels
	if labels[v1beta2.LabelControllerName] != "blue" {
		t.Errorf("got Manifest labels %v, want controller name blue", labels)
	}
}

func TestFollowedModulesIncludeModulesWithControllerName(t *testing.T) {
	w := usualWorld().askNothingBut("keda", controlledBy("red"))
	if got, want := FollowedChannels(w.request, w.snapshot(t)),
		[]FollowedChannel{{Module: "keda", Channel: "regular", Version: "1.0.0"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got followed modules %v, want %v", got, want)
	}
}
