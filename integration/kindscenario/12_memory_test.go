package kindscenario

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/kind"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// bulk returns a module with 1,000 objects and 1 MiB of YAML, which is larger than any known module.
func bulk() sample.Version {
	const objects = 1000
	var manifest strings.Builder
	for i := range objects {
		fmt.Fprintf(&manifest,
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: bulk-%d, namespace: kyma-system, labels: {app: "+
				"bulk}}\ndata: {text: %s}\n", i, strings.Repeat("x", 900))
	}
	return sample.Version{Module: "bulk", Version: "1.0.0", Manifest: manifest.String()}
}

func TestModuleWithThousandObjectsFitsMemoryLimits(t *testing.T) {
	suite.Long(t) // the short suite runs TestInstalledModuleHasRunningPods
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	memory(t, "at rest")
	restarts := restartsOf(t, r.API, v1beta2.RuntimeNamespace, "skr-agent") + restartsOf(t, stage.fleet.Control,
		sample.Namespace, "kcp-publisher")
	must(t, stage.fleet.Offer(ctx, bulk()))
	must(t, stage.fleet.Release(ctx, "bulk", bulk().Component(), sample.Channel("regular", "1.0.0")))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{Name: "bulk", Managed: true})
	}))
	must(t, r.UntilState(ctx, "bulk", "1.0.0", v1beta2.StateReady))
	installed := memory(t, "with 1,000 objects installed")
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[:len(spec.Modules)-1] }))
	must(t, r.UntilGone(ctx, "bulk"))
	if now := restartsOf(t, r.API, v1beta2.RuntimeNamespace, "skr-agent") + restartsOf(t, stage.fleet.Control,
		sample.Namespace, "kcp-publisher"); now != restarts {
		t.Errorf("containers restarted %d times, want %d", now, restarts)
	}
	for _, m := range installed {
		if m.Peak > m.Limit/2 {
			t.Errorf("memory limit is too low for a module of twice the size: %+v", m)
		}
	}
}

// memory logs and returns the memory usage of the agent in berlin and the publisher.
func memory(t *testing.T, when string) []kind.Memory {
	t.Helper()
	var all []kind.Memory
	for name, program := range map[string]fleet.Program{"agent": stage.berlin.Agent(),
		"publisher": stage.fleet.Publisher()} {
		found, err := stage.kind.Memory(t.Context(), program)
		must(t, err)
		for _, m := range found {
			t.Logf("%s %s: working set %d MiB, peak %d MiB, limit %d MiB", name, when, m.WorkingSet>>20, m.Peak>>20,
				m.Limit>>20)
			if m.Limit > 2<<30 {
				t.Errorf("the container of the %s has no memory limit", name)
			}
		}
		all = append(all, found...)
	}
	return all
}

func restartsOf(t *testing.T, api client.Client, namespace, program string) (restarts int32) {
	t.Helper()
	for _, p := range podsOf(t, api, namespace, program) {
		for _, c := range p.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
	}
	return restarts
}
