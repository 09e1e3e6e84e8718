package command

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/checks/probe"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/prove"
)

// checksUser is the ServiceAccount that runs a module's checks if the agent installs the module with its own
// permissions.
const checksUser = "system:serviceaccount:" + v1beta2.RuntimeNamespace + ":" + guard.AgentName + "-checks"

// newChecks returns the runner for module checks.
func newChecks(mgr ctrl.Manager, accounts guard.Accounts, changed func()) (*prove.Runner, error) {
	probers, err := newProbers(mgr.GetConfig(), mgr.GetRESTMapper(), accounts)
	if err != nil {
		return nil, err
	}
	return prove.New(prove.Options{
		Measure: func(ctx context.Context, t prove.Target, d checks.Definition, before string) checks.Measurement {
			subject := probe.Subject{Module: t.Module, Version: t.Version, Namespaces: t.Namespaces, Images: t.Images}
			return probers[t.User].Measure(ctx, subject, d, before)
		},
		ValueBefore: func(ctx context.Context, t prove.Target, d checks.Definition) string {
			return probers[t.User].MeasureBefore(ctx, d)
		},
		OnChange: changed, Now: time.Now,
	}), nil
}

// newProbers returns a prober for each account that installs modules. The map keys are user names. A prober has the
// permissions of the module's ServiceAccount, or of checksUser if the agent itself installs the module. It never has
// the agent's own permissions, because a RolloutPolicy, which is not part of a signed module, can define checks.
func newProbers(
	config *rest.Config, mapper meta.RESTMapper, accounts guard.Accounts,
) (map[string]*probe.Prober, error) {
	probers, memory := map[string]*probe.Prober{}, probe.NewMemory()
	for _, user := range accounts.AllUsers() {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: cmp.Or(user, checksUser)}
		prober, err := probe.New(probe.Options{
			Config: as, Mapper: mapper, Guard: guardJob, Mask: excerpt.Redact, Memory: memory,
		})
		if err != nil {
			return nil, err
		}
		probers[user] = prober
	}
	return probers, nil
}

// guardJob returns an error if a check's Job violates the rules for module objects.
func guardJob(job *unstructured.Unstructured) error {
	return guard.Check([]*unstructured.Unstructured{job}, v1beta2.RuntimeNamespace)
}
