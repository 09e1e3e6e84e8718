package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// Request returns what a Kyma's runtime asks for: what the Kyma says, and what leaves it by the newest report, nil without one. The
// error is of the Kyma's annotations, and means that nothing may be published.
func (r Rules) Request(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) (resolve.Request, error) {
	request := asked(kyma)
	request.Settings, request.Watchers = r.Settings, r.Watchers
	var err error
	if request.Maintenance, err = r.Maintenance.Schedule(kyma); err != nil && !request.Deleting {
		return request, err
	}
	if autonomy, own := kyma.Annotations[v1beta2.AnnotationAutonomy]; own {
		request.Settings.Autonomy = autonomy
	}
	if image, own := kyma.Annotations[v1beta2.AnnotationAgentImage]; own {
		request.Settings.Agent = image
	}
	if err := request.Settings.Check(); err != nil {
		return request, fmt.Errorf("annotations: %w", err)
	}
	request.NoCatalog = kyma.Labels[v1beta2.LabelSync] == v1beta2.False || kyma.Annotations[v1beta2.AnnotationSyncCatalog] == v1beta2.False
	request.NoModuleCopy = kyma.Annotations[v1beta2.AnnotationNoModuleCopy] == v1beta2.True
	request.Leaving = leaving(request.Asked, report)
	request.Versions = known(request.Asked, kyma.Status.Runtime, report)
	return request, nil
}

// known returns the versions that a runtime has: those that it was given by what the control plane remembers, and what it says itself of
// other modules that are asked for: it may have them from before the control plane knew it, or lost its memory.
func known(asked v1beta2.KymaSpec, status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) map[string]string {
	versions := map[string]string{}
	if report != nil {
		for _, m := range report.Modules {
			if m.Version != "" && slices.ContainsFunc(asked.Modules, func(module v1beta2.Module) bool { return module.Name == m.Name }) {
				versions[m.Name] = m.Version
			}
		}
	}
	if status != nil && status.Published != nil {
		maps.Copy(versions, status.Published.Versions)
	}
	if len(versions) == 0 {
		return nil
	}
	return versions
}

// asked returns the part of a request that says which modules a Kyma is to have.
func asked(kyma *v1beta2.Kyma) resolve.Request {
	request := resolve.Request{Labels: kyma.Labels, Seed: kyma.Spec, Asked: kyma.Spec, Deleting: !kyma.DeletionTimestamp.IsZero()}
	request.ControlPlane = kyma.Labels[v1beta2.LabelControlPlane] == v1beta2.True
	if r := kyma.Status.Runtime; r != nil && r.Requested != nil && kyma.Labels[v1beta2.LabelSync] != v1beta2.False {
		request.Asked = r.Requested.Spec
	}
	return request
}

// leaving returns the modules that a runtime has and does not ask for any more.
func leaving(asked v1beta2.KymaSpec, report *bundle.AcceptedReport) (all []v1beta2.Module) {
	if report == nil {
		return nil
	}
	for _, m := range report.Modules {
		if m.Channel != "" && !slices.ContainsFunc(asked.Modules, func(module v1beta2.Module) bool { return module.Name == m.Name }) {
			all = append(all, v1beta2.Module{Name: m.Name, Channel: m.Channel, Managed: true})
		}
	}
	return all
}
