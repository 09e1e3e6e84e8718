package publish

import (
	"crypto"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// During a promotion, many runtimes have equal requests.
func BenchmarkResolveSharedRequest(b *testing.B) {
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	signer := trusttest.NewSigner(b)
	public, err := signer.PublicKey()
	must(err)
	data, err := trusttest.NewRoot(trusttest.NewSigner(b), []crypto.PublicKey{public}, noon.AddDate(1, 0, 0))
	must(err)
	root, err := trust.ParseRoot(data)
	must(err)
	source := components{store.NewMemory()}
	p, err := New(Options{
		Place: store.NewMemory(), Keys: Keys{Signer: signer, Root: root}, Validity: validity,
		Now: func() time.Time { return noon },
		Components: component.NewReader(component.Options{
			Sources: []component.Source{source}, Revalidate: time.Hour, RetryAfter: time.Hour,
		}),
	})
	must(err)
	var templates []v1beta2.ModuleTemplate
	var metas []v1beta2.ModuleReleaseMeta
	request := resolve.Request{Requested: v1beta2.KymaSpec{Channel: "regular"}, Versions: map[string]string{}}
	for i := range 20 {
		module := fmt.Sprintf("module-%02d", i)
		source.add(b, "example.com/"+module, "1.0.0", "kind: ConfigMap # "+module)
		templates = append(templates, v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: module + "-1.0.0"},
			Spec:       v1beta2.ModuleTemplateSpec{ModuleName: module, Version: "1.0.0"},
		})
		metas = append(metas, v1beta2.ModuleReleaseMeta{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: module},
			Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: module, OcmComponentName: "example.com/" + module,
				Channels: []v1beta2.ChannelVersion{{Channel: "regular", Version: "1.0.0"}}},
		})
		request.Requested.Modules = append(request.Requested.Modules, v1beta2.Module{
			Name: module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
		request.Versions[module] = "1.0.0"
	}
	request.Seed = request.Requested
	snapshot, err := catalog.New(templates, metas)
	must(err)
	records := make([]Record, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		resolved, err := p.resolveRequest(b.Context(), &records[i%1000], request, nil, snapshot)
		if err != nil || len(resolved.result.State.Manifests) != 20 {
			b.Fatalf("got %v and %d problems, want 20 Manifests", err, len(resolved.result.State.Problems))
		}
	}
}
