package agent

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// firstDetailsDelay is the delay between the first two reads of a failing module's details. The cause of a failure
	// often appears some time after the module's state has changed. For example, a Pod reports only after some seconds
	// that its image cannot be pulled. Each further delay is twice as long.
	firstDetailsDelay = 15 * time.Second
	// detailsInterval is the maximum time between two reads of a module's details. Each read can cause a report.
	detailsInterval = 5 * time.Minute
	// detailsTimeout limits the duration of one call to inspectModules. maxInspected limits the number of modules that
	// one call reads.
	detailsTimeout = 15 * time.Second
	maxInspected   = 5
)

// inspectedDetails contains the last read details of a module.
type inspectedDetails struct {
	state   string // the module's state when the details were read
	readAt  time.Time
	delay   time.Duration // time until the next read if the module is not ready and its state does not change
	details *bundle.ModuleDetails
}

// dueAt returns the time of the next read if the module's state does not change.
func (k inspectedDetails) dueAt(isReady bool) time.Time {
	if isReady {
		return k.readAt.Add(detailsInterval)
	}
	return k.readAt.Add(k.delay)
}

// inspectModules returns the details of modules, with the Manifest's name as the key. It also returns the delay until
// the agent must read details again, or zero if no further read is necessary. Only a bundle's signed settings can
// request details.
func (a *Agent) inspectModules(
	ctx context.Context, manifests []v1beta2.Manifest,
) (all map[string]*bundle.ModuleDetails, delay time.Duration) {
	wanted := bundleSettings(a.Puller.Current()).Details
	if len(wanted) == 0 || a.Inspect == nil {
		a.details = nil
		return nil, 0
	}
	ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
	defer cancel()
	next, now, reads := map[string]inspectedDetails{}, a.Now(), 0
	all = map[string]*bundle.ModuleDetails{}
	for i := range manifests {
		m := &manifests[i]
		isReady := m.Status.State == v1beta2.StateReady
		if isReady && !slices.Contains(wanted, bundle.DetailObjects) {
			continue
		}
		known := a.details[m.Name]
		of := fmt.Sprint(m.UID, m.Generation, m.Status.State, m.DeletionTimestamp.IsZero(), wanted)
		isDue := known.state != of || !now.Before(known.dueAt(isReady))
		if isDue && reads < maxInspected && ctx.Err() == nil {
			reads++
			known = known.update(of, now, a.Inspect(ctx, m, wanted))
		}
		if known.details == nil {
			continue
		}
		next[m.Name], all[m.Name] = known, known.details
		if until := known.dueAt(isReady).Sub(now); !isReady && (delay == 0 || until < delay) {
			delay = max(until, time.Second)
		}
	}
	a.details = next
	return all, delay
}

// update replaces the details with newly read ones. If only the read time changed, update keeps the earlier time, so
// that the new time does not cause a report.
func (k inspectedDetails) update(state string, now time.Time, details *bundle.ModuleDetails) inspectedDetails {
	delay := firstDetailsDelay
	if k.state == state {
		delay = min(2*k.delay, detailsInterval)
	}
	if k.details != nil {
		same := *details
		if same.Taken = k.details.Taken; k.state == state && reflect.DeepEqual(same, *k.details) {
			details = k.details
		}
	}
	return inspectedDetails{state, now, delay, details}
}
