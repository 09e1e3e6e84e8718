package bundle

import (
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// OwnRequest contains the modules that a runtime's Kyma requests, without mandatory modules. Ignored has a Problem for
// each mandatory module in the request.
type OwnRequest struct {
	Modules []v1beta2.Module
	Ignored []Problem
}

// LimitRequest removes mandatory modules and duplicates from the modules in a runtime's Kyma. A runtime cannot
// configure a mandatory module.
func LimitRequest(modules []v1beta2.Module, mandatory func(module string) bool) OwnRequest {
	var own OwnRequest
	for _, m := range modules {
		switch {
		case !mandatory(m.Name):
			if !own.Contains(m.Name) {
				own.Modules = append(own.Modules, m)
			}
		case !slices.ContainsFunc(own.Ignored, func(p Problem) bool { return p.Module == m.Name }):
			own.Ignored = append(own.Ignored,
				Problem{Module: m.Name, Channel: m.Channel, State: v1beta2.StateWarning,
					Reason: reason.ModuleNotOffered, Message: fmt.Sprintf(
						"module %s is mandatory and installed without a request: remove it from spec.modules, which "+
							"has no "+
							"effect on it", m.Name)})
		}
	}
	return own
}

// Contains reports whether Modules contains the module.
func (r OwnRequest) Contains(module string) bool {
	return slices.ContainsFunc(r.Modules, func(m v1beta2.Module) bool { return m.Name == module })
}

// PolicyFor returns the policy that the runtime's Kyma sets for a module's default CR.
func (r OwnRequest) PolicyFor(module string) v1beta2.CustomResourcePolicy {
	for _, m := range r.Modules {
		if m.Name == module {
			return m.CustomResourcePolicy
		}
	}
	return v1beta2.PolicyCreateAndDelete
}

// IsMandatory reports whether the module is mandatory. Mandatory modules are installed without a request from the
// runtime.
func (m *Manifest) IsMandatory() bool { return m.Labels[v1beta2.LabelMandatoryModule] == v1beta2.True }
