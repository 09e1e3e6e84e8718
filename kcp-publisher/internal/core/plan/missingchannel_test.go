package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

// A runtime that requests a channel that never existed keeps its module, so the request must not count as a removal.
func TestRequestForUnknownChannelIsNotARemoval(t *testing.T) {
	kyma := func(name, requested string, change func(*v1beta2.Kyma)) v1beta2.Kyma {
		k := enrolledKyma(name, "keda")
		k.Spec = v1beta2.KymaSpec{Channel: requested, Modules: []v1beta2.Module{{Name: "keda", Managed: true}}}
		k.Status.Modules = []v1beta2.ModuleStatus{{Name: "keda", Channel: "regular", Version: "1.0.0"}}
		if change != nil {
			change(&k)
		}
		return k
	}
	status := func(channel string, maintenance bool) func(*v1beta2.Kyma) {
		return func(k *v1beta2.Kyma) {
			k.Status.Modules[0].Channel, k.Status.Modules[0].Maintenance = channel, maintenance
		}
	}
	for name, c := range map[string]struct {
		kyma      v1beta2.Kyma
		offered   []string
		isRemoved bool
	}{
		"requested channel exists":    {kyma("one", "regular", nil), []string{"regular"}, false},
		"unknown channel of the Kyma": {kyma("one", "unknown", nil), []string{"regular"}, false},
		"unknown channel of the module": {
			kyma("one", "regular", func(k *v1beta2.Kyma) { k.Spec.Modules[0].Channel = "unknown" }),
			[]string{"regular"}, false,
		},
		"unknown channel after a pinned version": {kyma("one", "unknown", status("", false)), []string{"regular"}, false},
		"removed channel":                        {kyma("one", "regular", nil), []string{"fast"}, true},
		"unknown channel, and the channel in the bundle is removed": {
			kyma("one", "unknown", nil), []string{"fast"}, true,
		},
		"removed channel of a module without a status": {
			kyma("one", "regular", func(k *v1beta2.Kyma) { k.Status.Modules = nil }), []string{"fast"}, true,
		},
		"removed channel of a module that waits for its window": {
			kyma("one", "regular", status("fast", true)), []string{"fast"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := removingCatalog(t, c.offered...)
			got := PendingRemovals(&c.kyma, snapshot)
			if !c.isRemoved {
				require.Empty(t, got)
				return
			}
			require.Equal(t, []string{"keda"}, got)
		})
	}

	// Tenants' requests for unknown channels must not hold a removal that an operator requests.
	snapshot := removingCatalog(t, "fast")
	victim := kyma("victim", "regular", nil)
	pending := CollectPending(&victim, NewRemovals{Modules: PendingRemovals(&victim, snapshot)}, noon)
	for _, tenant := range []string{"a", "b", "c"} {
		k := kyma(tenant, "unknown", status("fast", false))
		pending = append(pending, CollectPending(&k, NewRemovals{Modules: PendingRemovals(&k, snapshot)}, noon)...)
	}
	require.Empty(t, removal.DefaultLimits.Decide(removal.Fleet{Runtimes: 4, Pending: pending}))
}

// removingCatalog offers keda 1.0.0 in these channels and removes it from all other channels.
func removingCatalog(t *testing.T, channels ...string) *catalog.Snapshot {
	t.Helper()
	offer := v1beta2.ModuleReleaseMeta{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kcp-system", Name: "keda",
			Annotations: map[string]string{v1beta2.AnnotationMissingChannel: v1beta2.MissingChannelRemove},
		},
		Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "keda", OcmComponentName: "example.org/keda"},
	}
	for _, channel := range channels {
		offer.Spec.Channels = append(offer.Spec.Channels,
			v1beta2.ChannelVersion{Channel: channel, Version: "1.0.0"})
	}
	template := v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda-1.0.0"},
		Spec: v1beta2.ModuleTemplateSpec{
			ModuleName: "keda", Version: "1.0.0", Descriptor: runtime.RawExtension{Raw: []byte("{}")},
		},
	}
	snapshot, err := catalog.New([]v1beta2.ModuleTemplate{template}, []v1beta2.ModuleReleaseMeta{offer})
	require.NoError(t, err)
	return snapshot
}
