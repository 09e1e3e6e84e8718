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
	// detailsInterval is the minimum time between two reads of a module's details if the module did not change. Each
	// read can cause a report.
	detailsInterval = 5 * time.Minute
	// detailsTimeout limits the time of one call of inspectModules. maxInspected limits the number of modules that it
	// reads.
	detailsTimeout = 15 * time.Second
	maxInspected   = 5
)

// inspectedDetails contains the details of a module from their last read.
type inspectedDetails struct {
	state   string // the module's state when the details were read
	readAt  time.Time
	details *bundle.ModuleDetails
}

// inspectModules returns the details of modules by the name of their Manifest. Only the signed settings of a bundle can
// request details.
func (a *Agent) inspectModules(ctx context.Context, manifests []v1beta2.Manifest) map[string]*bundle.ModuleDetails {
	wanted := bundleSettings(a.Puller.Current()).Details
	if len(wanted) == 0 || a.Inspect == nil {
		a.details = nil
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
	defer cancel()
	next, all, now, reads := map[string]inspectedDetails{}, map[string]*bundle.ModuleDetails{}, a.Now(), 0
	for i := range manifests {
		m := &manifests[i]
		if m.Status.State == v1beta2.StateReady && !slices.Contains(wanted, bundle.DetailObjects) {
			continue
		}
		known := a.details[m.Name]
		of := fmt.Sprint(m.UID, m.Generation, m.Status.State, m.DeletionTimestamp.IsZero(), wanted)
		if (known.state != of || now.Sub(known.readAt) >= detailsInterval) && reads < maxInspected && ctx.Err() == nil {
			reads++
			known = known.update(of, now, a.Inspect(ctx, m, wanted))
		}
		if known.details != nil {
			next[m.Name], all[m.Name] = known, known.details
		}
	}
	a.details = next
	return all
}

// update replaces the details with newly read ones. If only the time of the read differs, update keeps the earlier
// time, so that the new time does not cause a report.
func (k inspectedDetails) update(state string, now time.Time, details *bundle.ModuleDetails) inspectedDetails {
	if k.details != nil {
		same := *details
		if same.Taken = k.details.Taken; k.state == state && reflect.DeepEqual(same, *k.details) {
			details = k.details
		}
	}
	return inspectedDetails{state, now, details}
}
