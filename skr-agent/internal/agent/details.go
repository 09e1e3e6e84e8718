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
	// detailsInterval is the time between two reads of a module whose state has not changed: each can send a report.
	detailsInterval = 5 * time.Minute
	// detailsTimeout limits the time for details in one round, and maxInspected the modules.
	detailsTimeout = 15 * time.Second
	maxInspected   = 5
)

// inspected are the last details of a module.
type inspected struct {
	of      string // the state that they are about
	at      time.Time
	details *bundle.ModuleDetails
}

// inspect returns the module details that the applied bundle requests in its settings, by Manifest name. Only signed
// settings can request details.
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

// after returns the details after another read. Equal details keep their time, so that they cause no report.
func (k inspected) after(of string, now time.Time, details *bundle.ModuleDetails) inspected {
	if k.details != nil {
		same := *details
		if same.Taken = k.details.Taken; k.of == of && reflect.DeepEqual(same, *k.details) {
			details = k.details
		}
	}
	return inspected{of, now, details}
}
