package objects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// TestRuntimeKymaFollowsTheControlPlaneUntilTheFirstReport covers a Kyma in the control plane that changes after the
// agent created the runtime's Kyma and before the publisher reads the first report.
func TestRuntimeKymaFollowsTheControlPlaneUntilTheFirstReport(t *testing.T) {
	seeded := func(generation int64, names ...string) *bundle.Bundle {
		b := bundleOf()
		b.Statement.Predicate.KymaGeneration = generation
		for _, name := range names {
			b.State.Kyma.Spec.Modules = append(b.State.Kyma.Spec.Modules, v1beta2.Module{
				Name: name, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
			})
		}
		return b
	}
	names := func(w *world) (all []string) {
		kyma := &v1beta2.Kyma{}
		require.True(w, w.get(kyma, v1beta2.RuntimeKymaName))
		for _, m := range kyma.Spec.Modules {
			all = append(all, m.Name)
		}
		return all
	}
	w := newWorld(t)
	w.sync(seeded(0))
	w.sync(seeded(0, "keda"))
	require.Equal(t, []string{"keda"}, names(w), "the control plane added a module before the first report")
	w.sync(seeded(0, "keda", "nats"))
	require.Equal(t, []string{"keda", "nats"}, names(w), "the control plane added another module")
	writes := w.writes
	w.sync(seeded(0, "keda", "nats"))
	require.Equal(t, writes, w.writes, "an equal seed must cause no write")
	w.sync(seeded(3, "keda"))
	require.Equal(t, []string{"keda", "nats"}, names(w), "the bundle responds to a report")

	kyma := &v1beta2.Kyma{}
	require.True(t, w.get(kyma, v1beta2.RuntimeKymaName))
	kyma.Spec.Modules = kyma.Spec.Modules[:1]
	require.NoError(t, cluster.Update(t.Context(), kyma))
	w.sync(seeded(0, "nats"))
	require.Equal(t, []string{"keda"}, names(w), "the runtime's admin changed the spec")
}
