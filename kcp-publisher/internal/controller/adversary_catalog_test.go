package controller

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// hostileTemplates returns the ModuleTemplates that the adversary can add to the catalog, one at a time.
func hostileTemplates() []v1beta2.ModuleTemplate {
	named := func(name, module, version string) v1beta2.ModuleTemplate {
		return v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: name},
			Spec:       v1beta2.ModuleTemplateSpec{ModuleName: module, Version: version},
		}
	}
	large, deep := named("large", "evil", "1.0.0"), named("deep", "evil", "1.0.0")
	large.Annotations = map[string]string{"padding": strings.Repeat("x", 1<<20)}
	nested := map[string]any{}
	for range 100 {
		nested = map[string]any{"a": nested}
	}
	deep.Spec.Data = &unstructured.Unstructured{Object: nested}
	labeled := named("labeled", "", "9.9.9")
	labeled.Labels = map[string]string{v1beta2.LabelModuleName: "keda"}
	old := named("keda", "evil", "")
	old.Spec.Channel = "regular"
	return []v1beta2.ModuleTemplate{
		large, deep, labeled, old, named("newer", "keda", "9.9.9"), named("same", "keda", "1.0.0"),
	}
}

// hostileMetas returns the ModuleReleaseMetas that the adversary can add to the catalog, one at a time.
func hostileMetas() []v1beta2.ModuleReleaseMeta {
	named := func(name, module string, channels ...v1beta2.ChannelVersion) v1beta2.ModuleReleaseMeta {
		return v1beta2.ModuleReleaseMeta{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: name},
			Spec: v1beta2.ModuleReleaseMetaSpec{
				ModuleName: module, OcmComponentName: kedaComponent, Channels: channels,
			},
		}
	}
	var many []v1beta2.ChannelVersion
	for i := range 40 {
		many = append(many, v1beta2.ChannelVersion{Channel: fmt.Sprint("c-", i), Version: "1.0.0"})
	}
	regular := func(version string) v1beta2.ChannelVersion {
		return v1beta2.ChannelVersion{Channel: "regular", Version: version}
	}
	return []v1beta2.ModuleReleaseMeta{
		named("evil", "evil", many...), named("evil", "evil", regular("9.9.9")),
		named("aaa", "keda", regular("1.3.0")), named("zzz", "keda", regular("1.3.0")),
	}
}

// addHostileCatalogs adds catalogs to s. Each catalog contains one hostile object. For each object, there is one
// catalog per promoted version.
func (s *sharedInput) addHostileCatalogs(
	templates []v1beta2.ModuleTemplate, metas []v1beta2.ModuleReleaseMeta, must func(error),
) {
	add := func(to *[][]*catalog.Snapshot, template []v1beta2.ModuleTemplate, meta []v1beta2.ModuleReleaseMeta) {
		var all []*catalog.Snapshot
		for _, own := range metas {
			snapshot, err := catalog.New(slices.Concat(templates, template),
				slices.Concat([]v1beta2.ModuleReleaseMeta{own}, meta))
			must(err)
			all = append(all, snapshot)
		}
		*to = append(*to, all)
	}
	for _, template := range hostileTemplates() {
		add(&s.withTemplate, []v1beta2.ModuleTemplate{template}, nil)
	}
	for _, meta := range hostileMetas() {
		add(&s.withMeta, nil, []v1beta2.ModuleReleaseMeta{meta})
	}
}

// catalog returns the catalog with the operator's objects and the adversary's object.
func (w *adversary) catalog() *catalog.Snapshot {
	if w.hostile != nil {
		return w.hostile[w.offered]
	}
	return w.catalogs[w.offered]
}

func (w *adversary) writeTemplate() {
	w.seen["a hostile template"]++
	w.hostile = one(w.random, w.withTemplate...)
}

func (w *adversary) writeMeta() {
	w.seen["a hostile meta"]++
	w.hostile = one(w.random, w.withMeta...)
}

// label replaces the labels of the victim's Kyma with one hostile label.
func (w *adversary) label() {
	w.seen["a hostile label"]++
	name := one(w.random, v1beta2.LabelRuntimeID, v1beta2.LabelBeta, v1beta2.LabelInternal, v1beta2.LabelSync)
	value := one(w.random, "mallory", "other", v1beta2.True, v1beta2.False)
	w.kymas["victim"].Labels = map[string]string{name: value}
}
