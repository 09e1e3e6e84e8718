package chaos

import (
	"slices"
	"testing"
	"time"
)

// The checker must report lost objects even after a restore or after the Manifest CRD was deleted.
func TestCheckerDetectsLossesAfterDisasters(t *testing.T) {
	violations := func(do func(*Checker)) []Invariant {
		c := NewChecker(scaler, 3)
		c.Promoted(scaler, FirstVersion, false)
		c.Promoted(scaler, VersionOf(1), false)
		c.Asked(0, "real-0", scaler)
		c.Pushed(1, Push{Runtime: "real-0", Digest: "a", Sequence: 1, Versions: map[string]string{scaler: FirstVersion}})
		c.Pushed(2, Push{Runtime: "real-0", Digest: "b", Sequence: 2, Versions: map[string]string{scaler: VersionOf(1)}})
		c.Reported(3, Reported{Runtime: "real-0", Sequence: 5, Observed: 2})
		c.Present(4, "real-0", map[string]string{scaler: VersionOf(1)})
		c.Objects(4, "real-0", scaler, map[string]string{"ConfigMap a": "1"})
		do(c)
		var found []Invariant
		for _, v := range c.Violations() {
			found = append(found, v.Invariant)
		}
		return found
	}
	restore := func(c *Checker) { c.Restoring("real-0")(6) }
	pushWithKey := func(c *Checker, sequence int64, key string, versions map[string]string) {
		at := time.Duration(2 * sequence)
		c.Pushed(at, Push{
			Runtime: "real-0", Digest: VersionOf(int(sequence)), Sequence: sequence, Versions: versions, Key: key, Issued: at,
		})
	}
	// losesModule publishes a bundle for an earlier key of the runtime, and then a bundle without modules.
	losesModule := func(c *Checker, disaster func()) {
		pushWithKey(c, 3, "new", map[string]string{scaler: VersionOf(1)})
		disaster()
		pushWithKey(c, 4, "old", map[string]string{})
		c.Reported(9, Reported{Runtime: "real-0", Sequence: 6, Observed: 3})
		pushWithKey(c, 5, "new", map[string]string{})
	}
	for name, test := range map[string]struct {
		do   func(*Checker)
		want []Invariant
	}{
		"a restored runtime returns to an earlier state": {
			func(c *Checker) {
				restore(c)
				c.Present(7, "real-0", map[string]string{scaler: FirstVersion})
				c.Objects(7, "real-0", scaler, map[string]string{"ConfigMap a": "0"})
				c.Reported(8, Reported{Runtime: "real-0", Sequence: 6, Observed: 1})
			}, nil,
		},
		"a restored runtime loses an object later": {
			func(c *Checker) {
				restore(c)
				c.Objects(7, "real-0", scaler, map[string]string{"ConfigMap a": "0"})
				c.Objects(8, "real-0", scaler, map[string]string{})
			}, []Invariant{Kept},
		},
		"a restored runtime loses a module later": {
			func(c *Checker) {
				restore(c)
				c.Present(7, "real-0", map[string]string{scaler: FirstVersion})
				c.Present(8, "real-0", map[string]string{})
			}, []Invariant{Kept, Kept},
		},
		"a restored runtime repeats the sequence of a report": {
			func(c *Checker) {
				restore(c)
				c.Reported(7, Reported{Runtime: "real-0", Sequence: 4, Observed: 2})
			}, []Invariant{Sequences},
		},
		"a restored runtime reports an earlier bundle long after the restore": {
			func(c *Checker) {
				restore(c)
				c.Reported(7+settleTime, Reported{Runtime: "real-0", Sequence: 6, Observed: 1})
			}, []Invariant{Sequences},
		},
		"a restored control plane removes a module": {
			func(c *Checker) {
				c.Restoring("")(6)
				c.Pushed(7, Push{Runtime: "real-0", Digest: "c", Sequence: 3, Removals: []string{scaler}})
			}, []Invariant{Kept},
		},
		"a restored control plane has neither the runtime's key nor its module": {
			func(c *Checker) { losesModule(c, func() { c.Restoring("")(7) }) }, nil,
		},
		"a control plane loses the runtime's key and its module": {
			func(c *Checker) { losesModule(c, func() {}) }, []Invariant{Kept, Kept},
		},
		"a restored control plane publishes an older sequence": {
			func(c *Checker) {
				c.Restoring("")(6)
				c.Pushed(7, Push{
					Runtime: "real-0", Digest: "c", Sequence: 1, Versions: map[string]string{scaler: VersionOf(1)},
				})
			}, []Invariant{Sequences},
		},
		"a control plane loses a Kyma after a restore": {
			func(c *Checker) {
				c.Restoring("")(6)
				c.Listed(7, []string{"real-0"})
				c.Listed(8, nil)
			}, []Invariant{Kept},
		},
		"Manifests are missing until the agent creates them again": {
			func(c *Checker) {
				c.CRDDeleted(5, "real-0")
				c.Present(6, "real-0", map[string]string{})
				c.Present(7, "real-0", map[string]string{scaler: VersionOf(1)})
			}, nil,
		},
		"Manifests stay missing": {
			func(c *Checker) {
				c.CRDDeleted(5, "real-0")
				c.Present(6+requestGrace, "real-0", map[string]string{})
			}, []Invariant{Kept, Kept},
		},
		"an object is deleted with the CRD of Manifests": {
			func(c *Checker) {
				c.CRDDeleted(5, "real-0")
				c.Objects(6, "real-0", scaler, map[string]string{"ConfigMap a": "2"})
			}, []Invariant{Kept},
		},
		"observations during a restore": {
			func(c *Checker) {
				done := c.Restoring("real-0")
				c.Present(6, "real-0", map[string]string{})
				c.Objects(6, "real-0", scaler, map[string]string{})
				done(7 * time.Nanosecond)
			}, nil,
		},
	} {
		if got := violations(test.do); !slices.Equal(got, test.want) {
			t.Errorf("%s: got violations of %q, want %q", name, got, test.want)
		}
	}
}
