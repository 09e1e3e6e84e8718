package fleet

import (
	"cmp"
	"strconv"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Row contains the cells of a Kyma in the API server's table. Missing values are empty.
type Row struct {
	Namespace, Name string
	// Runtime, State, HealthyUntil and Running are fields of the Kyma's status.
	Runtime, State, HealthyUntil, Running string
	// ReportTime is the time of the last report by the runtime's clock. It is empty for a CRD without this column.
	ReportTime string
	// Skip is the value of the suspension label. Deleted is the deletion timestamp.
	Skip, Deleted                                  string
	Channel, Published, InForce, Agent, Kubernetes string
}

// Healthy returns the runtime of a row, and true if the runtime is healthy. For other rows, the caller must read the
// Kyma.
func (r Row) Healthy(now time.Time) (Runtime, bool) {
	until, err := time.Parse(time.RFC3339, r.HealthyUntil)
	if err != nil || !now.Before(until) || r.State != string(v1beta2.StateReady) || r.Runtime == "" || r.Skip != "" ||
		r.Deleted != "" {
		return Runtime{}, false
	}
	return Runtime{ID: line(r.Runtime), Namespace: r.Namespace, Kyma: r.Name, State: v1beta2.StateReady,
		Health: Healthy, Reporting: true}, true
}

// Listed returns the same runtime as Healthy with its modules and versions. It returns false if the row does not
// contain these details.
func (r Row) Listed(now time.Time) (Runtime, bool) {
	runtime, healthy := r.Healthy(now)
	if !healthy || r.Channel == "" {
		return Runtime{}, false
	}
	sequence, modules, ok := readRunning(r.Running)
	if !ok || sequence != r.Published { // an older publisher does not update Running
		return Runtime{}, false
	}
	published, err := strconv.ParseInt(r.Published, 10, 64)
	if err != nil {
		return Runtime{}, false
	}
	inForce, err := strconv.ParseInt(cmp.Or(r.InForce, "0"), 10, 64)
	if err != nil {
		return Runtime{}, false
	}
	runtime.Channel, runtime.Modules, runtime.Published, runtime.InForce = line(r.Channel), modules, published, inForce
	runtime.Agent, runtime.Kubernetes = line(r.Agent), line(r.Kubernetes)
	return runtime, true
}

// MayHold reports whether a rollout can delay a version in the runtime. If so, the caller must read the Kyma.
func (r Rollouts) MayHold(runtime *Runtime) bool {
	for i := range runtime.Modules {
		if m := &runtime.Modules[i]; r.holders.MayHold(m.Name, m.Version) {
			return true
		}
	}
	return false
}
