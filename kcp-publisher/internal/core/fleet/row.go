package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Row contains one Kyma's columns in the API server's table, as in `kubectl get`. Missing values are empty.
type Row struct {
	Namespace, Name string
	// Runtime, State, HealthyUntil and Running contain fields of the Kyma's status.
	Runtime, State, HealthyUntil, Running string
	// ReportTime is the time of the last report, according to the runtime's clock. It is empty for a CRD without this
	// column.
	ReportTime string
	// Skip is the value of the label that suspends the Kyma. Deleted is the Kyma's deletion timestamp.
	Skip, Deleted                                  string
	Channel, Published, InForce, Agent, Kubernetes string
}

// Healthy returns the runtime and true if the row proves that the runtime is healthy. Otherwise, the row does not
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

// RuntimeWithModules is like Healthy, but the result includes the runtime's modules and versions. It returns false if
// the runtime is not healthy or the row does not contain the modules.
func (r Row) RuntimeWithModules(now time.Time) (Runtime, bool) {
	runtime, healthy := r.Healthy(now)
	if !healthy || r.Channel == "" {
		return Runtime{}, false
	}
	sequence, modules, ok := readRunning(r.Running)
	if !ok || sequence != r.Published { // publishers from older releases do not update Running
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

// MayHold reports whether a rollout may delay a newer version of one of the runtime's modules. The actual decision also
// depends on the Kyma's labels.
func (r Rollouts) MayHold(runtime *Runtime) bool {
	for i := range runtime.Modules {
		if m := &runtime.Modules[i]; r.holders.MayHold(m.Name, m.Version) {
			return true
		}
	}
	return false
}

// HealthyUntil returns the time until which a runtime counts as healthy if its Kyma does not change. It returns zero if
// the runtime is not healthy now.
func HealthyUntil(kyma *v1beta2.Kyma, now time.Time) time.Time {
	if r := kyma.Status.Runtime; r == nil || r.ID != plan.RuntimeID(kyma) || kyma.Status.State != v1beta2.StateReady ||
		!kyma.DeletionTimestamp.IsZero() {
		return time.Time{}
	}
	healthy := func(at time.Time) bool {
		r := Judge(kyma, Rollouts{}, at)
		return r.Health == Healthy && r.Cause == nil && r.Reporting
	}
	if !healthy(now) {
		return time.Time{}
	}
	changes := healthChangeTimes(kyma)
	slices.SortFunc(changes, time.Time.Compare)
	for _, at := range changes {
		if !at.Before(now) && !healthy(at.Add(time.Second)) {
			return at
		}
	}
	return time.Time{} // cannot happen: without a new report, every runtime becomes silent
}

// healthChangeTimes returns the times at which a runtime's health can change although its Kyma does not change.
func healthChangeTimes(kyma *v1beta2.Kyma) []time.Time {
	changes := []time.Time{plan.OutdatedAfter(kyma)}
	if published := kyma.Status.Runtime.Published; published != nil {
		changes = append(changes, published.Time.Add(applyTimeout))
		if c := published.Certificate; c != nil {
			changes = append(changes, c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore.Time)/certificateShare),
				c.NotAfter.Time)
		}
	}
	return changes
}

// maxRunning limits the length of status.runtime.running in bytes, because the API server returns this field as a
// column in lists of Kymas. About 45 modules fit.
const maxRunning = 1 << 10

// RunningModules returns the modules of a healthy runtime in the format of status.runtime.running. It returns "" if the
// runtime is unhealthy or the text would be longer than maxRunning.
func RunningModules(kyma *v1beta2.Kyma) string {
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return ""
	}
	published := kyma.Status.Runtime.Published
	var all strings.Builder
	all.WriteString(strconv.FormatInt(published.Sequence, 10))
	separator := ":"
	k := kymaState{kyma: kyma, status: kyma.Status.Modules}
	for _, m := range k.runtimeModules() {
		if m.Name == "" || !isPlain(m.Name+m.Version) || strings.ContainsAny(m.Name+m.Version, ",=") {
			return ""
		}
		all.WriteString(separator + m.Name + "=" + m.Version)
		separator = ","
		switch {
		case m.State == v1beta2.StateUnmanaged:
			all.WriteString("=" + string(m.State))
		case m.State != v1beta2.StateReady || m.Version != published.Versions[m.Name]:
			return ""
		}
		if all.Len() > maxRunning {
			return ""
		}
	}
	return all.String()
}

func readRunning(text string) (sequence string, modules []RuntimeModule, ok bool) {
	sequence, list, some := strings.Cut(text, ":")
	if !some {
		return sequence, nil, sequence != ""
	}
	modules = make([]RuntimeModule, 0, strings.Count(list, ",")+1)
	for one := range strings.SplitSeq(list, ",") {
		name, version, has := strings.Cut(one, "=")
		version, state, named := strings.Cut(version, "=")
		m := RuntimeModule{Name: cleanLine(name), Version: cleanLine(version), State: v1beta2.StateReady}
		if named {
			m.State = v1beta2.State(state)
		}
		if name == "" || !has || m.State != v1beta2.StateReady && m.State != v1beta2.StateUnmanaged {
			return "", nil, false
		}
		modules = append(modules, m)
	}
	return sequence, modules, true
}
