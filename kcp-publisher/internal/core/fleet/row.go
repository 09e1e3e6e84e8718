package fleet

import (
	"cmp"
	"strconv"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Row is a row in a table of Kymas, as text. A cell is empty if the Kyma has no such value.
type Row struct {
	Namespace, Name string
	// Runtime, State, HealthyUntil and Running are fields of the status.
	Runtime, State, HealthyUntil, Running string
	// Skip is the label that suspends a runtime. Deleted is set if the Kyma is being deleted.
	Skip, Deleted string
	// Channel, Published, InForce, Agent and Kubernetes are displayed unchanged.
	Channel, Published, InForce, Agent, Kubernetes string
}

// Healthy returns the runtime of a row, and reports whether it is healthy: its HealthyUntil has not passed, and the
// Kyma is neither suspended nor deleted. The Kymas of all other runtimes must be read in full.
func (r Row) Healthy(now time.Time) (Runtime, bool) {
	until, err := time.Parse(time.RFC3339, r.HealthyUntil)
	if err != nil || !now.Before(until) || r.State != string(v1beta2.StateReady) || r.Runtime == "" || r.Skip != "" ||
		r.Deleted != "" {
		return Runtime{}, false
	}
	return Runtime{ID: line(r.Runtime), Namespace: r.Namespace, Kyma: r.Name, State: v1beta2.StateReady,
		Health: Healthy, Reporting: true}, true
}

// Listed is Healthy with the displayed details of a runtime: its modules, channel, bundles and versions. It reports
// false if the row lacks details, for example with an older publisher.
func (r Row) Listed(now time.Time) (Runtime, bool) {
	runtime, healthy := r.Healthy(now)
	if !healthy || r.Channel == "" {
		return Runtime{}, false
	}
	sequence, modules, ok := readRunning(r.Running)
	if !ok || sequence != r.Published { // an older publisher has published since and kept an unknown field
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

// MayHold reports whether a rollout may hold back a version from a healthy runtime that is only known by its row. That
// would be its cause.
func (r Rollouts) MayHold(runtime *Runtime) bool {
	for i := range runtime.Modules {
		if m := &runtime.Modules[i]; r.holders.MayHold(m.Name, m.Version) {
			return true
		}
	}
	return false
}
