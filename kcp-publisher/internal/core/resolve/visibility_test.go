package resolve

import (
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// removingWorld returns usualWorld with a ModuleReleaseMeta that removes the module if it omits the runtime's channel.
func removingWorld() *world {
	w := usualWorld()
	w.metas[0].Annotations = map[string]string{v1beta2.AnnotationMissingChannel: v1beta2.MissingChannelRemove}
	return w
}

const removed = "; its installed objects are removed"

func TestModuleIsOfferedOnlyToAllowedKymas(t *testing.T) {
	for name, c := range map[string]resolveCase{
		"A channel that moves to a beta version removes nothing": {
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
		"A version that becomes beta is removed from other Kymas": {
			world: usualWorld(), then: func(w *world) {
				for i := range w.templates {
					labelledTemplate(v1beta2.LabelBeta, v1beta2.True)(&w.templates[i])
				}
			},
			want: []string{
				"Error ModuleNotOffered: module keda: version 1.0.0: module template not allowed: not offered to " +
					"this runtime: ModuleTemplate kcp-system/keda-1.0.0: it is labeled " +
					"operator.kyma-project.io/beta=true and the Kyma is not" + removed,
			}},
		"A channel without the module removes nothing": {
			world: usualWorld(), then: func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels = s.Channels[1:] })
			},
			want: []string{"keda@1.0.0 regular",
				`Warning ChannelMissing: module keda: channel "regular" has no version: add one to ModuleReleaseMeta ` +
					"kcp-system/keda spec.channels"}},
		"A channel without the module removes it on request": {
			world: removingWorld(), then: func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels = s.Channels[1:] })
			},
			want: []string{`Error ModuleNotOffered: module keda: channel "regular" does not contain the module` + removed}},
		"A removal from a channel does not affect pinned versions": {
			world: removingWorld().askNothingBut("keda", pinned("1.0.0")), then: func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels = s.Channels[1:] })
			},
			want: []string{"keda@1.0.0"}},
		"A Kyma that changes to a channel without the module keeps it": {
			world: removingWorld(), then: func(w *world) { w.channel("unknown") },
			want: []string{"keda@1.0.0 regular",
				`Warning ModuleNotOffered: module keda: channel "unknown" does not contain the module`}},
		"A ModuleReleaseMeta that is recreated removes nothing": {
			world: usualWorld().older("keda", "keda", "regular", "0.9.0", labelledTemplate(v1beta2.LabelBeta, v1beta2.True)),
			then:  func(w *world) { w.metas = nil },
			want: []string{
				"keda@1.0.0 regular",
				"Warning ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is labeled operator.kyma-project.io/beta=true and the Kyma is not",
			}},
		"A second ModuleReleaseMeta for the module removes nothing": {
			world: usualWorld(), then: func(w *world) {
				again := *w.metas[0].DeepCopy()
				again.Name, again.Spec.Beta = "a-copy", true
				w.metas = append(w.metas, again)
			},
			want: []string{
				"keda@1.0.0 regular",
				"Warning CatalogInvalid: module keda has two ModuleReleaseMetas: remove kcp-system/a-copy or " +
					"kcp-system/keda, or correct its spec.moduleName",
			}},
		"A pinned version is hidden like its module": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }).
				askNothingBut("keda", pinned("1.0.0")),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is a beta module and the Kyma is not labeled operator.kyma-project.io/beta=true" + removed,
			}},
		"A beta ModuleTemplate with a channel is hidden from other Kymas": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelBeta, v1beta2.True)).ask("keda"),
			want: []string{
				"Warning ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is labeled operator.kyma-project.io/beta=true and the Kyma is not",
			}},
		"A beta ModuleTemplate with a channel is offered to a beta Kyma": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelBeta, v1beta2.True)).ask("keda").labeled(v1beta2.LabelBeta),
			want: []string{"keda@1.0.0 regular"}},
		"A beta module is hidden from other Kymas": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is a beta module and the Kyma is not labeled operator.kyma-project.io/beta=true" + removed,
			}},
		"A beta module is offered to a beta Kyma": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }).labeled(v1beta2.LabelBeta),
			want:  []string{"keda@1.0.0 regular"}},
		"An internal module is hidden from other Kymas": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Internal = true }).
				labeled(v1beta2.LabelBeta),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is an internal module and the Kyma is not labeled operator.kyma-project.io/internal=true" +
					removed,
			}},
		"An internal module is offered to an internal Kyma": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Internal = true }).
				labeled(v1beta2.LabelInternal), want: []string{"keda@1.0.0 regular"}},
		"A kymaSelector hides the module from other Kymas": {
			world: usualWorld().edit(selecting("team", "blue")),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: its " +
					"kymaSelector does not select the Kyma" + removed,
			}},
		"An empty kymaSelector selects no Kyma": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.KymaSelector = &metav1.LabelSelector{} }).
				labeled("team"),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: its " +
					"kymaSelector does not select the Kyma" + removed,
			}},
		"A beta version is hidden from other Kymas": {
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
		"A pinned internal version is hidden from other Kymas": {
			world: newWorld().template("keda", "1.0.0", labelledTemplate(v1beta2.LabelInternal, v1beta2.True)).
				meta("keda").ask("keda", pinned("1.0.0")),
			want: []string{
				"Error ModuleNotOffered: module keda: version 1.0.0: module template not allowed: not offered to " +
					"this runtime: ModuleTemplate kcp-system/keda-1.0.0: it is labeled " +
					"operator.kyma-project.io/internal=true and the Kyma is not" + removed,
			}},
		"A restricted module is offered to Kymas that its kymaSelector selects": {
			world: usualWorld().edit(selecting("team", v1beta2.True)).restricted("keda").labeled("team"),
			want:  []string{"keda@1.0.0 regular"}},
		"A restricted module without a kymaSelector is hidden from all Kymas": {
			world: usualWorld().restricted("keda"),
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is restricted and its ModuleReleaseMeta has no kymaSelector" + removed,
			}},
		"A restricted module without a ModuleReleaseMeta is hidden from all Kymas": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelModuleName, "keda")).ask("keda").restricted("keda"),
			want: []string{
				"Warning ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is restricted and has no ModuleReleaseMeta whose kymaSelector selects the Kyma",
			}},
		"A module is offered to Kymas that its kymaSelector selects": {
			world: usualWorld().edit(selecting("team", v1beta2.True)).labeled("team"), want: []string{"keda@1.0.0 regular"}},
		"An invalid kymaSelector selects no Kyma": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) {
				s.KymaSelector = &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Likes"}},
				}
			}),
			want: []string{
				`Warning CatalogInvalid: module keda: ModuleReleaseMeta kcp-system/keda spec.kymaSelector: "Likes" is not a valid label selector operator`,
			}},
		"An invalid kymaSelector removes nothing": {
			world: usualWorld(), then: func(w *world) {
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
			world: usualWorld(), then: func(w *world) {
				w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }).askNothingBut("keda", unmanaged)
			},
			want: []string{"keda@1.0.0 regular unmanaged"}},
		"An installed module that is no longer offered is removed": {
			world: usualWorld(), then: func(w *world) { w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }) },
			want: []string{
				"Error ModuleNotOffered: module keda: module template not allowed: not offered to this runtime: it " +
					"is a beta module and the Kyma is not labeled operator.kyma-project.io/beta=true" + removed,
			}},
	} {
		t.Run(name, c.check)
	}
}

// The publisher must not keep a hidden module's version as the module's minimum version. A later request can then
// install an older version.
func TestHiddenModuleIsRemoved(t *testing.T) {
	w := usualWorld().channel("fast").published(t)
	w.request.Versions = map[string]string{"keda": "1.1.0"}
	w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.KymaSelector = &metav1.LabelSelector{} })
	result := w.resolve(t)
	if len(result.RequestedNames) != 0 || len(result.Versions) != 0 || len(result.State.Manifests) != 0 {
		t.Errorf("got asked modules %v and versions %v, want none", result.RequestedNames, result.Versions)
	}
	if gone := RemovedNames([]string{"keda"}, result.RequestedNames, nil); !slices.Equal(gone, []string{"keda"}) {
		t.Errorf("got removals %v, want keda", gone)
	}
	if again := w.resolve(t); !reflect.DeepEqual(again, result) {
		t.Error("the message differs between two calls, which causes another bundle")
	}
}

func selecting(label, value string) func(*v1beta2.ModuleReleaseMetaSpec) {
	return func(s *v1beta2.ModuleReleaseMetaSpec) {
		s.KymaSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: value}}
	}
}
