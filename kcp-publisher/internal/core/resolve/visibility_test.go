package resolve

import (
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// removed ends the problem of a module that is kept from the Kyma.
const removed = "; its installed objects are removed"

func TestModuleAccess(t *testing.T) {
	for name, c := range map[string]story{
		"A channel that moves to a beta version takes the version before from no Kyma": {
			world: newWorld().template("keda", "1.0.0").
				template("keda", "1.1.0", labelledTemplate(v1beta2.LabelBeta, v1beta2.True)).
				meta("keda", "regular=1.0.0").ask("keda"),
			then: func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "1.1.0" })
			},
			want: []string{"keda@1.0.0 regular",
				"Warning ModuleNotOffered: module keda: version 1.1.0: module template not allowed: not offered to " +
					"this runtime: ModuleTemplate kcp-system/keda-1.1.0: it is labeled " +
					"operator.kyma-project.io/beta=true and the Kyma is not"}},
		"A version that becomes beta is taken from everybody else": {
			world: usual(), then: func(w *world) {
				for i := range w.templates {
					labelledTemplate(v1beta2.LabelBeta, v1beta2.True)(&w.templates[i])
				}
			},
			want: []string{
				"Error ModuleNotOffered: module keda: version 1.0.0: module template not allowed: not offered to " +
					"this runtime: ModuleTemplate kcp-system/keda-1.0.0: it is labeled " +
					"operator.kyma-project.io/beta=true and the Kyma is not" + removed,
			}},
		"A ModuleReleaseMeta that is created again takes the module from no Kyma, with any older templates": {
			world: usual().older("keda", "keda", "regular", "0.9.0", labelledTemplate(v1beta2.LabelBeta, v1beta2.True)),
			then:  func(w *world) { w.metas = nil },
			want: []string{
				"keda@1.0.0 regular",
				"Warning ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is labeled operator.kyma-project.io/beta=true and the Kyma is not",
			}},
		"A second ModuleReleaseMeta of the module takes it from no Kyma": {
			world: usual(), then: func(w *world) {
				again := *w.metas[0].DeepCopy()
				again.Name, again.Spec.Beta = "a-copy", true
				w.metas = append(w.metas, again)
			},
			want: []string{
				"keda@1.0.0 regular",
				"Warning CatalogInvalid: module keda: has two ModuleReleaseMetas: remove kcp-system/a-copy or " +
					"kcp-system/keda, or correct its spec.moduleName",
			}},
		"A pinned version is hidden like its module": {
			world: usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }).
				askNothingBut("keda", pinned("1.0.0")),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is a beta module and the Kyma is not labeled operator.kyma-project.io/beta=true" + removed,
			}},
		"An older lookup does not show a beta module to everybody": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelBeta, v1beta2.True)).ask("keda"),
			want: []string{
				"Warning ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is labeled operator.kyma-project.io/beta=true and the Kyma is not",
			}},
		"An older lookup shows a beta module to a beta Kyma": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelBeta, v1beta2.True)).ask("keda").labeled(v1beta2.LabelBeta),
			want: []string{"keda@1.0.0 regular"}},
		"A beta module is not offered to everybody": {
			world: usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is a beta module and the Kyma is not labeled operator.kyma-project.io/beta=true" + removed,
			}},
		"A beta module is offered to a beta Kyma": {
			world: usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }).labeled(v1beta2.LabelBeta),
			want:  []string{"keda@1.0.0 regular"}},
		"An internal module is not offered to everybody": {
			world: usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Internal = true }).
				labeled(v1beta2.LabelBeta),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is an internal module and the Kyma is not labeled operator.kyma-project.io/internal=true" +
					removed,
			}},
		"An internal module is offered to an internal Kyma": {
			world: usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Internal = true }).
				labeled(v1beta2.LabelInternal), want: []string{"keda@1.0.0 regular"}},
		"A kymaSelector keeps others out": {
			world: usual().edit(selecting("team", "blue")),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: its " +
					"kymaSelector does not select the Kyma" + removed,
			}},
		"An empty kymaSelector selects no Kyma": {
			world: usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.KymaSelector = &metav1.LabelSelector{} }).
				labeled("team"),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: its " +
					"kymaSelector does not select the Kyma" + removed,
			}},
		"A beta version is not offered to everybody": {
			world: newWorld().template("keda", "1.0.0", labelledTemplate(v1beta2.LabelBeta, v1beta2.True)).
				meta("keda", "regular=1.0.0").ask("keda"),
			want: []string{
				"Error ModuleNotOffered: module keda: version 1.0.0: module template not allowed: not offered to " +
					"this runtime: ModuleTemplate kcp-system/keda-1.0.0: it is labeled " +
					"operator.kyma-project.io/beta=true and the Kyma is not" + removed,
			}},
		"A beta version is offered to a beta Kyma": {
			world: newWorld().template("keda", "1.0.0", labelledTemplate(v1beta2.LabelBeta, v1beta2.True)).
				meta("keda", "regular=1.0.0").ask("keda").labeled(v1beta2.LabelBeta),
			want: []string{"keda@1.0.0 regular"}},
		"A pinned internal version is not offered to everybody": {
			world: newWorld().template("keda", "1.0.0", labelledTemplate(v1beta2.LabelInternal, v1beta2.True)).
				meta("keda").ask("keda", pinned("1.0.0")),
			want: []string{
				"Error ModuleNotOffered: module keda: version 1.0.0: module template not allowed: not offered to " +
					"this runtime: ModuleTemplate kcp-system/keda-1.0.0: it is labeled " +
					"operator.kyma-project.io/internal=true and the Kyma is not" + removed,
			}},
		"A restricted module is for those whom its kymaSelector selects": {
			world: usual().edit(selecting("team", v1beta2.True)).restricted("keda").labeled("team"),
			want:  []string{"keda@1.0.0 regular"}},
		"A restricted module without a kymaSelector is for no Kyma": {
			world: usual().restricted("keda"),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is restricted and its ModuleReleaseMeta has no kymaSelector" + removed,
			}},
		"A restricted module is not found by the older lookups": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelModuleName, "keda")).ask("keda").restricted("keda"),
			want: []string{
				"Warning ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is restricted and has no ModuleReleaseMeta whose kymaSelector selects the Kyma",
			}},
		"A kymaSelector lets those in that it selects": {
			world: usual().edit(selecting("team", v1beta2.True)).labeled("team"), want: []string{"keda@1.0.0 regular"}},
		"A kymaSelector that cannot be read selects no Kyma": {
			world: usual().edit(func(s *v1beta2.ModuleReleaseMetaSpec) {
				s.KymaSelector = &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Likes"}},
				}
			}),
			want: []string{
				`Warning CatalogInvalid: module keda: ModuleReleaseMeta kcp-system/keda spec.kymaSelector: "Likes" is not a valid label selector operator`,
			}},
		"A kymaSelector that cannot be read takes the module from no Kyma": {
			world: usual(), then: func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) {
					s.KymaSelector = &metav1.LabelSelector{
						MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Likes"}},
					}
				})
			},
			want: []string{
				"keda@1.0.0 regular",
				`Warning CatalogInvalid: module keda: ModuleReleaseMeta kcp-system/keda spec.kymaSelector: "Likes" is not a valid label selector operator`,
			}},
		"An unmanaged module that is no longer offered stays unmanaged": {
			world: usual(), then: func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }).askNothingBut("keda", unmanaged)
			},
			want: []string{"keda@1.0.0 regular unmanaged"}},
		"A running module that is no longer offered is removed": {
			world: usual(), then: func(w *world) { w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }) },
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is a beta module and the Kyma is not labeled operator.kyma-project.io/beta=true" + removed,
			}},
	} {
		t.Run(name, c.check)
	}
}

// A module that is taken from a Kyma goes by a signed removal, and comes back in the version that its channel has then.
func TestModuleRemovedFromAKymaIsRemoved(t *testing.T) {
	w := usual().channel("fast").published(t)
	w.request.Versions = map[string]string{"keda": "1.1.0"}
	w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.KymaSelector = &metav1.LabelSelector{} })
	result := w.resolve(t)
	if len(result.Asked) != 0 || len(result.Versions) != 0 || len(result.State.Manifests) != 0 {
		t.Errorf("asked for is %v, remembered %v", result.Asked, result.Versions)
	}
	if gone := Removals([]string{"keda"}, result.Asked, nil); !slices.Equal(gone, []string{"keda"}) {
		t.Errorf("removed is %v", gone)
	}
	if again := w.resolve(t); !reflect.DeepEqual(again, result) {
		t.Error("its message differs between the first and the second time, which creates another bundle")
	}
}

func selecting(label, value string) func(*v1beta2.ModuleReleaseMetaSpec) {
	return func(s *v1beta2.ModuleReleaseMetaSpec) {
		s.KymaSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: value}}
	}
}
