package fleet

import (
	"cmp"
	"strconv"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Row contains the columns of one Kyma if Kymas are listed as a table, as kubectl get does. Missing values are empty.
type Row struct {
	Namespace, Name string
	// Runtime, State, HealthyUntil and Running contain fields of the Kyma's status.
	Runtime, State, HealthyUntil, Running string
	// ReportTime is the time of the last report by the runtime's clock. It is empty for a CRD without this column.
	ReportTime string
	// Skip is the value of the label that suspends the Kyma. Deleted is the Kyma's deletion timestamp.
	Skip, Deleted                                  string
	Channel, Published, InForce, Agent, Kubernetes string
}

// Healthy returns the runtime and true if the row shows that the runtime is healthy. Otherwise, the row does not
// contain enough data to evaluate the health, and the caller must read the Kyma.
func (r Row) Healthy(now time.Time) (Runtime, bool) {
	until, err := time.Parse(time.RFC3339, r.HealthyUntil)
	if err != nil || !now.Before(until) || r.State != string(v1beta2.StateReady) || r.Runtime == "" || r.Skip != "" ||
		r.Deleted != "" {
		return Runtime{}, false
	}
	return Runtime{ID: cleanLine(r.Runtime), Namespace: r.Namespace, Kyma: r.Name, State: v1beta2.StateReady,
		Health: Healthy, Reporting: true}, true
}

// RuntimeWithModules returns the same as Healthy, but with the modules and versions of the runtime. It returns false if
// the runtime is not healthy or the row does not contain the modules.
func (r Row) RuntimeWithModules(now time.Time) (Runtime, bool) {
	runtime, healthy := r.Healthy(now)
	if !healthy || r.Channel == "" {
		return Runtime{}, false
	}
	sequence, modules, ok := readRunning(r.Running)
	if !ok || sequence != r.Published { // a publisher of an older release does not update Running
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
	runtime.Channel, runtime.Modules, runtime.Published, runtime.InForce = cleanLine(r.Channel), modules, published,
		inForce
	runtime.Agent, runtime.Kubernetes = cleanLine(r.Agent), cleanLine(r.Kubernetes)
	return runtime, true
}

// MayHold reports whether a rollout may delay a newer version of one of the runtime's modules. The result true is not
// certain, because it also depends on the Kyma's labels.
func (r Rollouts) MayHold(runtime *Runtime) bool {
	for i := range runtime.Modules {
		if m := &runtime.Modules[i]; r.holders.MayHold(m.Name, m.Version) {
			return true
		}
	}
	return false
}
