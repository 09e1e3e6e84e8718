package inventory

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// ReportedRuntimes returns the runtimes of the Kymas. Each Runtime contains the module versions in its last report.
func ReportedRuntimes(kymas []v1beta2.Kyma) []Runtime {
	all := make([]Runtime, 0, len(kymas))
	for i := range kymas {
		kyma := &kymas[i]
		r := Runtime{ID: plan.RuntimeID(kyma)}
		if status := kyma.Status.Runtime; status != nil && status.Observed != nil {
			r.Reported, r.Bundle = status.Observed.Time.Time, status.Observed.Digest
			r.Kubernetes = status.Observed.KubernetesVersion
			for _, m := range kyma.Status.Modules {
				if m.Version != "" {
					r.Modules = append(r.Modules, Module{Name: m.Name, Version: m.Version})
				}
			}
		}
		all = append(all, r)
	}
	return all
}

// ListedRuntime converts a runtime that was read from a row of the API server's table. The result does not contain a
// bundle. reported is the time of the runtime's last report.
func ListedRuntime(r *fleet.Runtime, reported time.Time) Runtime {
	listed := Runtime{ID: r.ID, Reported: reported, Kubernetes: r.Kubernetes}
	for _, m := range r.Modules {
		if m.Version != "" {
			listed.Modules = append(listed.Modules, Module{Name: m.Name, Version: m.Version})
		}
	}
	return listed
}

// PublishedRuntimes returns the runtimes of the Kymas. Each Runtime contains the digest of its latest published bundle
// and its reported Kubernetes version, but no modules. The digest is empty if no Kyma of the runtime contains one.
func PublishedRuntimes(kymas []v1beta2.Kyma) []Runtime {
	all, isRecorded := make([]Runtime, 0, len(kymas)), map[string]bool{}
	for i := range kymas {
		r := Runtime{ID: plan.RuntimeID(&kymas[i])}
		if status := kymas[i].Status.Runtime; status != nil && status.Published != nil {
			r.Bundle, isRecorded[r.ID] = status.Published.Digest, true
			if status.Observed != nil {
				r.Kubernetes = status.Observed.KubernetesVersion
			}
		}
		all = append(all, r)
	}
	return slices.DeleteFunc(all, func(r Runtime) bool { return r.Bundle == "" && isRecorded[r.ID] })
}
