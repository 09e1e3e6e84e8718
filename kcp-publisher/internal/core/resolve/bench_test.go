package resolve

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

func BenchmarkResolve10000Kymas20Modules(b *testing.B) {
	const kymas, modules = 10_000, 20
	var templates []v1beta2.ModuleTemplate
	var metas []v1beta2.ModuleReleaseMeta
	contents := map[ComponentRef]Content{}
	var asked []v1beta2.Module
	for i := range modules {
		name := "module-" + strings.Repeat(string(rune('a'+i)), 3)
		component := "kyma-pull.dev/module/" + name
		for _, version := range []string{"1.0.0", "1.1.0"} {
			templates = append(templates, v1beta2.ModuleTemplate{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: name + "-" + version},
				Spec: v1beta2.ModuleTemplateSpec{
					ModuleName: name, Version: version, Descriptor: runtime.RawExtension{Raw: []byte("{}")},
				},
			})
			contents[ComponentRef{Component: component, Version: version}] = Content{
				Install: part("raw-manifest", v1beta2.OCIDir, "application/x-tar", name+version),
			}
		}
		metas = append(metas, v1beta2.ModuleReleaseMeta{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: name},
			Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: name, OcmComponentName: component,
				Channels: []v1beta2.ChannelVersion{
					{Channel: "regular", Version: "1.0.0"}, {Channel: "fast", Version: "1.1.0"},
				}},
		})
		asked = append(asked, v1beta2.Module{Name: name, Managed: true})
	}
	snapshot, err := catalog.New(templates, metas)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for i := range kymas {
			wish := v1beta2.KymaSpec{Channel: "regular", Modules: append([]v1beta2.Module(nil), asked...)}
			wish.Modules[i%modules].Channel = "fast"
			wish.Modules[(i/modules)%modules].CustomResourcePolicy = v1beta2.PolicyIgnore
			wish.Modules[(i/modules/modules)%modules].RemoteModuleTemplateRef = fmt.Sprint("manager-",
				i/modules/modules)
			request := Request{Labels: map[string]string{"purpose": fmt.Sprint(i)}, Seed: wish, Requested: wish}
			result := Resolve(request, snapshot, contents)
			if len(result.State.Manifests) != modules {
				b.Fatalf("got %d manifests", len(result.State.Manifests))
			}
			if _, err := bundle.NewDocuments(result.State, result.Catalog); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*kymas), "ns/kyma")
}
