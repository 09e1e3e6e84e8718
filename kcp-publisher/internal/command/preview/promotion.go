package preview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/forecast"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

// ReleaseMeta returns the ModuleReleaseMeta of a module.
func (c Objects) ReleaseMeta(module string) (v1beta2.ModuleReleaseMeta, error) {
	var found []v1beta2.ModuleReleaseMeta
	var known []string
	for _, m := range c.Metas {
		known = append(known, m.Spec.ModuleName)
		if m.Spec.ModuleName == module {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		return v1beta2.ModuleReleaseMeta{}, NoReleaseMeta(module, known)
	case 1:
		return found[0], nil
	}
	return v1beta2.ModuleReleaseMeta{}, fmt.Errorf("module %s has two ModuleReleaseMetas: remove %s or %s", module,
		found[0].Name, found[1].Name)
}

// PromotionEffect forecasts the effect of a changed ModuleReleaseMeta.
func (c Objects) PromotionEffect(
	meta v1beta2.ModuleReleaseMeta, namespace string, now time.Time,
) (Difference, error) {
	d := Difference{Objects: []ObjectChange{{Action: "change", Kind: "ModuleReleaseMeta", Name: meta.Name}}}
	was, err := c.Forecast(plan.Rules{}, now)
	if err != nil {
		return d, err
	}
	is, err := c.AfterCommit(source.Objects{Metas: []v1beta2.ModuleReleaseMeta{meta}}, nil, namespace,
		now).Forecast(plan.Rules{}, now)
	if err != nil {
		return d, err
	}
	d.Forecast, err = forecast.New(was, is, plan.RuntimeID, now)
	return d, err
}

// NoReleaseMeta returns the error for a module without a ModuleReleaseMeta, with the closest known module.
func NoReleaseMeta(module string, known []string) error {
	closest := cli.ClosestNames(module, known)
	name, _, hasVersion := strings.Cut(module, "@")
	switch {
	case hasVersion && slices.Contains(known, name):
		closest = ": name the module without a version: " + name
	case closest == "":
		closest = ": create one with spec.moduleName " + module + " and the version of each channel in spec.channels"
	}
	return fmt.Errorf("module %s: no ModuleReleaseMeta found%s", module, closest)
}
