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
	// detailsTimeout limits the time of one call of the method inspect. maxInspected limits the number of modules that
	// it reads.
	detailsTimeout = 15 * time.Second
	maxInspected   = 5
)

// inspected contains the details of a module from their last read.
type inspected struct {
	of      string // the module's state when the details were read
	at      time.Time
	details *bundle.ModuleDetails
}

// inspect returns the details of modules by the name of their Manifest. Only the signed settings of a bundle can
// request details.
func (a *Agent) inspect(ctx context.Context, manifests []v1beta2.Manifest) map[string]*bundle.ModuleDetails {
	wanted := settingsOf(a.Puller.Current()).Details
	if len(wanted) == 0 || a.Inspect == nil {
		a.details = nil
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
	defer cancel()
	next, all, now, reads := map[string]inspected{}, map[string]*bundle.ModuleDetails{}, a.Now(), 0
	for i := range manifests {
		m := &manifests[i]
		if m.Status.State == v1beta2.StateReady && !slices.Contains(wanted, bundle.DetailObjects) {
			continue
		}
		known := a.details[m.Name]
		of := fmt.Sprint(m.UID, m.Generation, m.Status.State, m.DeletionTimestamp.IsZero(), wanted)
		if (known.of != of || now.Sub(known.at) >= detailsInterval) && reads < maxInspected && ctx.Err() == nil {
			reads++
			known = known.after(of, now, a.Inspect(ctx, m, wanted))
		}
		if known.details != nil {
			next[m.Name], all[m.Name] = known, known.details
		}
	}
	a.details = next
	return all
}

// after returns the value after another read of the details. If the details did not change, they keep the time of the
// earlier read, so that the new time does not cause a report.
func (k inspected) after(of string, now time.Time, details *bundle.ModuleDetails) inspected {
	if k.details != nil {
		same := *details
		if same.Taken = k.details.Taken; k.of == of && reflect.DeepEqual(same, *k.details) {
			details = k.details
		}
	}
	return inspected{of, now, details}
}
