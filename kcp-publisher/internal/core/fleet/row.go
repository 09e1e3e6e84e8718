package fleet

import (
	"cmp"
	"strconv"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Row contains the cells of a Kyma in the API server's table format. A cell is empty if the Kyma does not have the
// value.
type Row struct {
	Namespace, Name string
	// Runtime, State, HealthyUntil and Running are fields of the Kyma's status.
	Runtime, State, HealthyUntil, Running string
	// Skip is the value of the label that suspends publishing. Deleted is the deletion timestamp.
	Skip, Deleted string
	// Channel, Published, InForce, Agent and Kubernetes are displayed and do not affect the health.
	Channel, Published, InForce, Agent, Kubernetes string
}

// Healthy returns the runtime of a row and true if the runtime is healthy: HealthyUntil is in the future, and the Kyma
// is not suspended or being deleted. For all other rows, the caller must read the complete Kyma.
func (r Row) Healthy(now time.Time) (Runtime, bool) {
	until, err := time.Parse(time.RFC3339, r.HealthyUntil)
	if err != nil || !now.Before(until) || r.State != string(v1beta2.StateReady) || r.Runtime == "" || r.Skip != "" ||
		r.Deleted != "" {
		return Runtime{}, false
	}
	return Runtime{ID: line(r.Runtime), Namespace: r.Namespace, Kyma: r.Name, State: v1beta2.StateReady,
		Health: Healthy, Reporting: true}, true
}

// Listed returns the same runtime as Healthy, with its modules, channel, bundle sequences and versions. It returns
// false if the row does not contain these details, for example because an older publisher wrote the status.
func (r Row) Listed(now time.Time) (Runtime, bool) {
	runtime, healthy := r.Healthy(now)
	if !healthy || r.Channel == "" {
		return Runtime{}, false
	}
	sequence, modules, ok := readRunning(r.Running)
	if !ok || sequence != r.Published { // an older publisher published a bundle without updating Running
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

// MayHold reports whether a rollout can hold back a version from a runtime that was read from a Row. If so, the caller
// must read the complete Kyma.
func (r Rollouts) MayHold(runtime *Runtime) bool {
	for i := range runtime.Modules {
		if m := &runtime.Modules[i]; r.holders.MayHold(m.Name, m.Version) {
			return true
		}
	}
	return false
}
