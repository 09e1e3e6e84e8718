package command

import (
	"context"
	"time"

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

// newChecks returns the runner for the checks of modules. Each check has the permissions of the account that installs
// its module.
func newChecks(mgr ctrl.Manager, accounts guard.Accounts, changed func()) (*prove.Runner, error) {
	probers, memory := map[string]*probe.Prober{}, probe.NewMemory()
	for _, user := range accounts.AllUsers() {
		config := rest.CopyConfig(mgr.GetConfig())
		if user != "" {
			config.Impersonate = rest.ImpersonationConfig{UserName: user}
		}
		prober, err := probe.New(probe.Options{
			Config: config, Mapper: mgr.GetRESTMapper(), Guard: guardJob, Mask: excerpt.Redact, Memory: memory,
		})
		if err != nil {
			return nil, err
		}
		probers[user] = prober
	}
	return prove.New(prove.Options{
		Measure: func(ctx context.Context, t prove.Target, d checks.Definition, before string) checks.Measurement {
			return probers[t.User].Measure(ctx,
				probe.Subject{Module: t.Module, Version: t.Version, Namespaces: t.Namespaces}, d, before)
		},
		ValueBefore: func(ctx context.Context, t prove.Target, d checks.Definition) string {
			return probers[t.User].MeasureBefore(ctx, d)
		},
		OnChange: changed, Now: time.Now,
	}), nil
}

// guardJob returns an error if the Job of a check violates the rules for objects of modules.
func guardJob(job *unstructured.Unstructured) error {
	return guard.Check([]*unstructured.Unstructured{job}, v1beta2.RuntimeNamespace)
}
