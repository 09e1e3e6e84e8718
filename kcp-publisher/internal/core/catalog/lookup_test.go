package catalog_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

func template(name string, change func(*v1beta2.ModuleTemplate)) v1beta2.ModuleTemplate {
	t := v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: name, Labels: map[string]string{}},
	}
	t.Spec.Descriptor = runtime.RawExtension{Raw: []byte("{}")}
	change(&t)
	return t
}

func versioned(module, version string) v1beta2.ModuleTemplate {
	return template(module+"-"+version, func(t *v1beta2.ModuleTemplate) {
		t.Spec.ModuleName, t.Spec.Version = module, version
	})
}

// older returns a ModuleTemplate in the format from before ModuleReleaseMetas existed. Its channel is in spec.channel.
func older(name, channel, component, version string, labels map[string]string) v1beta2.ModuleTemplate {
	return template(name, func(t *v1beta2.ModuleTemplate) {
		t.Labels, t.Spec.Channel = labels, channel
		t.Spec.Descriptor.Raw = fmt.Appendf(nil, `{"meta":{"schemaVersion":"v2"},"component":{"name":%q,"version":%q}}`,
			component, version)
	})
}

func offered(module string, change func(*v1beta2.ModuleReleaseMeta)) v1beta2.ModuleReleaseMeta {
	m := v1beta2.ModuleReleaseMeta{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: module}}
	m.Spec.ModuleName, m.Spec.OcmComponentName = module, "kyma-project.io/module/"+module
	m.Spec.Channels = []v1beta2.ChannelVersion{
		{Channel: "regular", Version: "1.7.0"}, {Channel: "fast", Version: "1.8.0"},
	}
	if change != nil {
		change(&m)
	}
	return m
}

func snapshot(t *testing.T, templates []v1beta2.ModuleTemplate, metas ...v1beta2.ModuleReleaseMeta) *catalog.Snapshot {
	t.Helper()
	s, err := catalog.New(templates, metas)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChannelSelectsItsModuleTemplate(t *testing.T) {
	keda := []v1beta2.ModuleTemplate{versioned("keda", "1.7.0"), versioned("keda", "1.8.0")}
	label := map[string]string{v1beta2.LabelModuleName: "keda"}
	const component = "kyma-project.io/module/keda"
	inline := []v1beta2.ModuleTemplate{
		older("keda-regular", "regular", component, "0.7.0", label),
		older("keda-fast", "fast", component, "0.8.0", label),
	}
	for name, c := range map[string]struct {
		templates       []v1beta2.ModuleTemplate
		metas           []v1beta2.ModuleReleaseMeta
		module, channel string
		want            string // template, component and version
	}{
		"module in the regular channel": {
			keda, []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, "keda", "regular",
			"keda-1.7.0 " + component + " 1.7.0",
		},
		"module in the fast channel": {
			keda, []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, "keda", "fast",
			"keda-1.8.0 " + component + " 1.8.0",
		},
		"template with an unconventional name": {
			[]v1beta2.ModuleTemplate{
				template("strange", func(t *v1beta2.ModuleTemplate) {
					t.Spec.ModuleName, t.Spec.Version = "keda", "1.7.0"
				}),
			}, []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, "keda", "regular", "strange " + component + " 1.7.0",
		},
		"template identified only by its name": {
			[]v1beta2.ModuleTemplate{template("keda-1.7.0", func(*v1beta2.ModuleTemplate) {})},
			[]v1beta2.ModuleReleaseMeta{offered("keda", nil)}, "keda", "regular", "keda-1.7.0 " + component + " 1.7.0",
		},
		"component name from the descriptor": {
			[]v1beta2.ModuleTemplate{older("keda-1.7.0", "", component, "1.7.0", label)},
			[]v1beta2.ModuleReleaseMeta{
				offered("keda", func(m *v1beta2.ModuleReleaseMeta) { m.Spec.OcmComponentName = "" }),
			}, "keda", "regular", "keda-1.7.0 " + component + " 1.7.0",
		},
		"ModuleReleaseMeta takes precedence over older templates": {
			append(inline, keda...), []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, "keda", "regular",
			"keda-1.7.0 " + component + " 1.7.0",
		},
		"module without a ModuleReleaseMeta, found by label": {
			inline, nil, "keda", "regular", "keda-regular " + component + " 0.7.0",
		},
		"module without a ModuleReleaseMeta, found by template name": {
			inline, nil, "keda-fast", "fast", "keda-fast " + component + " 0.8.0",
		},
		"module without a ModuleReleaseMeta, found by template namespace and name": {
			inline, nil, "kcp-system/keda-fast", "fast", "keda-fast " + component + " 0.8.0",
		},
		"module without a ModuleReleaseMeta, found by component name": {
			inline, nil, component, "fast", "keda-fast " + component + " 0.8.0",
		},
		"template with the name in its label and its metadata": {
			[]v1beta2.ModuleTemplate{older("keda", "fast", component, "0.8.0", label)}, nil, "keda", "fast",
			"keda " + component + " 0.8.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := snapshot(t, c.templates, c.metas...).Lookup(c.module, c.channel, nil)
			if err != nil {
				t.Fatal(err)
			}
			if text := got.Template.Name + " " + got.Component + " " + got.Version; text != c.want ||
				got.Module != c.module || got.Channel != c.channel {
				t.Errorf("got %s (module %s, channel %s), want %s", text, got.Module, got.Channel, c.want)
			}
		})
	}
}

func TestLookupErrorContainsReasonAndFix(t *testing.T) {
	const component = "kyma-project.io/module/keda"
	keda := []v1beta2.ModuleTemplate{versioned("keda", "1.7.0")}
	twin := template("keda-again", func(t *v1beta2.ModuleTemplate) {
		t.Spec.ModuleName, t.Spec.Version = "keda", "1.7.0"
	})
	beta := map[string]string{v1beta2.LabelBeta: v1beta2.True}
	for name, c := range map[string]struct {
		templates       []v1beta2.ModuleTemplate
		meta            func(*v1beta2.ModuleReleaseMeta)
		module, channel string
		reason          reason.Reason
		want            string
	}{
		"unknown module": {
			keda, nil, "serverless", "regular", reason.ModuleUnknown, "module serverless is unknown",
		},
		"empty module name": {keda, nil, "", "regular", reason.ModuleUnknown, "is unknown"},
		"channel without a version": {
			keda, func(*v1beta2.ModuleReleaseMeta) {}, "keda", "dev", reason.ChannelMissing,
			`module keda: channel "dev" has no version: add one to ModuleReleaseMeta kcp-system/keda spec.channels`,
		},
		"version without a template": {
			keda, func(*v1beta2.ModuleReleaseMeta) {}, "keda", "fast", reason.TemplateMissing,
			`module keda: version 1.8.0 in channel "fast" has no ModuleTemplate: add keda-1.8.0`,
		},
		"version with two templates": {
			append(keda, twin), func(*v1beta2.ModuleReleaseMeta) {}, "keda", "regular", reason.TemplateDoubled,
			"module keda: version 1.7.0 has two ModuleTemplates: remove kcp-system/keda-1.7.0 or kcp-system/keda-again",
		},
		"module without a component name": {
			keda, func(m *v1beta2.ModuleReleaseMeta) { m.Spec.OcmComponentName = "" }, "keda", "regular",
			reason.CatalogInvalid, "set ModuleReleaseMeta kcp-system/keda spec.ocmComponentName",
		},
		"beta module": {
			keda, func(m *v1beta2.ModuleReleaseMeta) { m.Spec.Beta = true }, "keda", "regular", reason.ModuleNotOffered,
			v1beta2.LabelBeta,
		},
		"internal module": {
			keda, func(m *v1beta2.ModuleReleaseMeta) { m.Spec.Internal = true }, "keda", "regular",
			reason.ModuleNotOffered, v1beta2.LabelInternal,
		},
		"kymaSelector that does not match": {keda, func(m *v1beta2.ModuleReleaseMeta) {
			m.Spec.KymaSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, "keda", "regular", reason.ModuleNotOffered, "kymaSelector"},
		"invalid kymaSelector": {keda, func(m *v1beta2.ModuleReleaseMeta) {
			m.Spec.KymaSelector = &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}},
			}
		}, "keda", "regular", reason.CatalogInvalid, "kymaSelector"},
		"mandatory module": {keda, func(m *v1beta2.ModuleReleaseMeta) {
			m.Spec.Channels, m.Spec.Mandatory = nil, &v1beta2.Mandatory{Version: "1.7.0"}
		}, "keda", "regular", reason.ModuleNotOffered, "is mandatory"},
		"older template for a different channel": {
			[]v1beta2.ModuleTemplate{older("keda", "fast", component, "0.8.0", nil)}, nil, "keda", "regular",
			reason.ChannelMissing, `module keda: channel "regular" has no version`,
		},
		"two older templates for the channel": {
			[]v1beta2.ModuleTemplate{older("keda", "fast", component, "0.8.0", nil),
				older("other", "fast", component, "0.9.0", map[string]string{v1beta2.LabelModuleName: "keda"})}, nil,
			"keda", "fast", reason.TemplateDoubled, "remove kcp-system/keda or kcp-system/other",
		},
		"older template of a beta module": {
			[]v1beta2.ModuleTemplate{older("keda", "fast", component, "0.8.0", beta)}, nil, "keda", "fast",
			reason.ModuleNotOffered, v1beta2.LabelBeta,
		},
		"invalid descriptor": {
			[]v1beta2.ModuleTemplate{older("keda", "fast", "not a component", "0.8.0", nil)}, nil, "keda", "fast",
			reason.CatalogInvalid, "ModuleTemplate kcp-system/keda spec.descriptor",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var metas []v1beta2.ModuleReleaseMeta
			if c.meta != nil {
				metas = append(metas, offered("keda", c.meta))
			}
			_, err := snapshot(t, c.templates, metas...).Lookup(c.module, c.channel, nil)
			if reason.Of(err) != c.reason || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s, %v, want %s, %q", reason.Of(err), err, c.reason, c.want)
			}
		})
	}
}

func TestHiddenModuleRequiresAllLabels(t *testing.T) {
	s := snapshot(t, []v1beta2.ModuleTemplate{versioned("keda", "1.7.0")},
		offered("keda", func(m *v1beta2.ModuleReleaseMeta) {
			m.Spec.Beta, m.Spec.Internal = true, true
			m.Spec.KymaSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}
		}))
	all := labels.Set{v1beta2.LabelBeta: "true", v1beta2.LabelInternal: "true", "region": "eu", "plan": "trial"}
	if _, err := s.Lookup("keda", "regular", all); err != nil {
		t.Errorf("lookup with all required labels failed: %v", err)
	}
	if visible := s.VisibleCatalog(all, nil); len(visible.ModuleReleaseMetas) != 1 || len(visible.ModuleTemplates) != 1 {
		t.Errorf("got visible catalog %+v, want one ModuleReleaseMeta and one ModuleTemplate", visible)
	}
	for missing := range all {
		fewer := labels.Set{}
		for key, value := range all {
			if key != missing {
				fewer[key] = value
			}
		}
		_, err := s.Lookup("keda", "regular", fewer)
		visible := s.VisibleCatalog(fewer, nil)
		if open := missing == "plan"; (err == nil) != open || (len(visible.ModuleTemplates) == 1) != open {
			t.Errorf("without label %s: got %v and %d visible templates", missing, err, len(visible.ModuleTemplates))
		}
		if _, relevant := s.RelevantLabels(all)[missing]; relevant == (missing == "plan") {
			t.Errorf("label %s: got relevant %t, want %t", missing, relevant, !relevant)
		}
	}
}

// shown returns the catalog that is visible to a Kyma with these labels, as text.
func shown(t *testing.T, s *catalog.Snapshot, labels map[string]string) string {
	t.Helper()
	visible := s.VisibleCatalog(labels, nil)
	var all []string
	for _, e := range visible.ModuleReleaseMetas {
		var spec v1beta2.ModuleReleaseMetaSpec
		if err := json.Unmarshal(e.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		for _, c := range spec.Channels {
			all = append(all, e.Name+"/"+c.Channel+"="+c.Version)
		}
	}
	for _, e := range visible.ModuleTemplates {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

func TestVisibleCatalogContainsOnlyUsableChannels(t *testing.T) {
	labeled := func(module, version, label, value string) v1beta2.ModuleTemplate {
		one := versioned(module, version)
		one.Labels = map[string]string{label: value}
		return one
	}
	beta := map[string]string{v1beta2.LabelBeta: v1beta2.True}
	noChannel := versioned("keda", "1.9.0")
	for name, c := range map[string]struct {
		templates  []v1beta2.ModuleTemplate
		metas      []v1beta2.ModuleReleaseMeta
		restricted []string
		labels     map[string]string
		want       string
	}{
		"channels and their templates, but no template without a channel": {templates: []v1beta2.ModuleTemplate{
			versioned("keda", "1.7.0"), versioned("keda", "1.8.0"), noChannel,
		},
			metas: []v1beta2.ModuleReleaseMeta{offered("keda", nil)},
			want:  "keda/regular=1.7.0 keda/fast=1.8.0 keda-1.7.0 keda-1.8.0"},
		"channel with a beta version is hidden": {templates: []v1beta2.ModuleTemplate{
			versioned("keda", "1.7.0"), labeled("keda", "1.8.0", v1beta2.LabelBeta, v1beta2.True),
		},
			metas: []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, want: "keda/regular=1.7.0 keda-1.7.0"},
		"channel with a beta version is visible to beta Kymas": {templates: []v1beta2.ModuleTemplate{
			versioned("keda", "1.7.0"), labeled("keda", "1.8.0", v1beta2.LabelBeta, v1beta2.True),
		},
			metas: []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, labels: beta,
			want: "keda/regular=1.7.0 keda/fast=1.8.0 keda-1.7.0 keda-1.8.0"},
		"channel whose version has no template is hidden": {
			templates: []v1beta2.ModuleTemplate{versioned("keda", "1.7.0")},
			metas:     []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, want: "keda/regular=1.7.0 keda-1.7.0"},
		"channel whose version is not synced is hidden": {templates: []v1beta2.ModuleTemplate{
			versioned("keda", "1.7.0"), labeled("keda", "1.8.0", v1beta2.LabelSync, v1beta2.False),
		},
			metas: []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, want: "keda/regular=1.7.0 keda-1.7.0"},
		"module with only hidden versions is hidden": {templates: []v1beta2.ModuleTemplate{
			labeled("keda", "1.7.0", v1beta2.LabelInternal, v1beta2.True),
		},
			metas: []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, labels: beta, want: ""},
		"module whose ModuleReleaseMeta is being deleted is hidden": {
			templates: []v1beta2.ModuleTemplate{versioned("keda", "1.7.0")},
			metas: []v1beta2.ModuleReleaseMeta{
				offered("keda", func(m *v1beta2.ModuleReleaseMeta) {
					m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				}),
			}, want: ""},
		"module without a ModuleReleaseMeta is hidden": {
			templates: []v1beta2.ModuleTemplate{versioned("keda", "1.7.0")}, want: "",
		},
		"older template with a channel is visible": {
			templates: []v1beta2.ModuleTemplate{older("keda-fast", "fast", "kyma-project.io/module/keda", "0.8.0",
				nil)}, want: "keda-fast",
		},
		"restricted module without a kymaSelector is hidden": {templates: []v1beta2.ModuleTemplate{
			versioned("keda", "1.7.0"),
			older("keda-fast", "fast", "x.example/keda", "0.8.0", map[string]string{v1beta2.LabelModuleName: "keda"}),
		},
			metas: []v1beta2.ModuleReleaseMeta{offered("keda", nil)}, restricted: []string{"keda"}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := catalog.New(c.templates, c.metas, c.restricted...)
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(t, s, c.labels); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestEqualCatalogsHaveEqualRevisions(t *testing.T) {
	a, b := versioned("keda", "1.7.0"), versioned("keda", "1.8.0")
	one := snapshot(t, []v1beta2.ModuleTemplate{a, b}, offered("keda", nil), offered("btp", nil))
	two := snapshot(t, []v1beta2.ModuleTemplate{b, a}, offered("btp", nil), offered("keda", nil))
	if one.Revision != two.Revision {
		t.Error("the revision depends on the order of the objects")
	}
	b.Spec.RequiresDowntime = true
	if three := snapshot(t, []v1beta2.ModuleTemplate{b, a}, offered("btp", nil),
		offered("keda", nil)); one.Revision == three.Revision {
		t.Error("the revision did not change with the catalog")
	}
	copied := offered("keda", func(m *v1beta2.ModuleReleaseMeta) { m.Name = "z-copy" })
	double := snapshot(t, []v1beta2.ModuleTemplate{a, b}, offered("keda", nil), copied)
	copied.Spec.Mandatory = &v1beta2.Mandatory{Version: "1.7.0"}
	for name, other := range map[string]*catalog.Snapshot{
		"one ModuleReleaseMeta":                snapshot(t, []v1beta2.ModuleTemplate{a, b}, offered("keda", nil)),
		"a second mandatory ModuleReleaseMeta": snapshot(t, []v1beta2.ModuleTemplate{a, b}, offered("keda", nil), copied),
	} {
		if double.Revision == other.Revision {
			t.Errorf("two ModuleReleaseMetas for a module and %s have the same revision", name)
		}
	}
}

// Thousands of Kymas can request a module without a ModuleReleaseMeta at the same time.
func BenchmarkLookupWithoutMeta(b *testing.B) {
	var templates []v1beta2.ModuleTemplate
	for i := range 1_000 {
		templates = append(templates,
			older(fmt.Sprint("module-", i), "regular", fmt.Sprint("kyma-project.io/module/m", i), "1.0.0", nil))
	}
	s, err := catalog.New(templates, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Lookup("module-999", "regular", nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestControlPlaneMetadataDoesNotChangeRevision(t *testing.T) {
	noted := versioned("keda", "1.7.0")
	noted.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": "{}", v1beta2.AnnotationGitCommit: "abc",
		v1beta2.AnnotationGitDigest: "def", v1beta2.AnnotationHoldPromotion: "the audit",
	}
	noted.Labels = maps.Clone(noted.Labels)
	metav1.SetMetaDataLabel(&noted.ObjectMeta, v1beta2.LabelHoldPromotion, "true")
	plain := snapshot(t, []v1beta2.ModuleTemplate{versioned("keda", "1.7.0")}, offered("keda", nil))
	other := snapshot(t, []v1beta2.ModuleTemplate{noted}, offered("keda", nil))
	if plain.Revision != other.Revision {
		t.Error("the revision depends on metadata that is not published")
	}
	noted.Annotations["doc.example/link"] = "https://example.com"
	if snapshot(t, []v1beta2.ModuleTemplate{noted}, offered("keda", nil)).Revision == plain.Revision {
		t.Error("the revision did not change with a published annotation")
	}
}

func TestCatalogHidesVersionsThatARolloutHolds(t *testing.T) {
	templates := []v1beta2.ModuleTemplate{versioned("keda", "1.7.0"), versioned("keda", "1.8.0")}
	promoted := offered("keda", func(m *v1beta2.ModuleReleaseMeta) { m.Spec.Channels[0].Version = "1.8.0" })
	before, after := snapshot(t, templates, offered("keda", nil)), snapshot(t, templates, promoted)
	held := func(version string) func(string, string) string {
		return func(module, channel string) string {
			if module == "keda" && channel == "regular" {
				return version
			}
			return ""
		}
	}
	if a, b := before.VisibleCatalog(nil, nil), after.VisibleCatalog(nil, held("1.7.0")); !reflect.DeepEqual(a, b) {
		t.Errorf("the visible catalog changed although the version is held: got %+v, want %+v", b, a)
	}
	if a, b := after.VisibleCatalog(nil, nil), after.VisibleCatalog(nil, held("")); !reflect.DeepEqual(a, b) ||
		reflect.DeepEqual(a, before.VisibleCatalog(nil, nil)) {
		t.Errorf("the new version is not visible although it is not held: %+v", b)
	}
	if a, b := after.VisibleCatalog(nil, nil), after.VisibleCatalog(nil, held("1.6.0")); !reflect.DeepEqual(a, b) {
		t.Errorf("a held version without a template hides the channel: got %+v, want %+v", b, a)
	}
}

// A module has a ModuleReleaseMeta, and ModuleTemplates with a channel from older versions of Kyma.
func TestModuleAliasesDoNotBypassItsVisibility(t *testing.T) {
	const component = "kyma-project.io/module/keda"
	label := map[string]string{v1beta2.LabelModuleName: "keda"}
	templates := []v1beta2.ModuleTemplate{
		versioned("keda", "1.7.0"), older("keda-regular", "regular", component, "0.7.0", label),
	}
	for name, hide := range map[string]func(*v1beta2.ModuleReleaseMeta){
		"beta":     func(m *v1beta2.ModuleReleaseMeta) { m.Spec.Beta = true },
		"internal": func(m *v1beta2.ModuleReleaseMeta) { m.Spec.Internal = true },
		"kymaSelector": func(m *v1beta2.ModuleReleaseMeta) {
			m.Spec.KymaSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		},
	} {
		s := snapshot(t, templates, offered("keda", hide))
		for _, module := range []string{"keda", "keda-regular", "kcp-system/keda-regular", component} {
			choice, err := s.Lookup(module, "regular", labels.Set{})
			if reason.Of(err) != reason.ModuleNotOffered {
				t.Errorf("%s, requested as %s: got %s %s, error %v, want an error", name, module, choice.Component,
					choice.Version, err)
			}
			if module != "keda" && catalog.IsHidden(err) {
				t.Errorf("%s, requested as %s: an installed module would be removed", name, module)
			}
		}
	}
	s := snapshot(t, templates, offered("keda", nil))
	if _, err := s.Lookup("keda-regular", "regular", labels.Set{}); err != nil {
		t.Errorf("module that the Kyma may use: %v", err)
	}
}
