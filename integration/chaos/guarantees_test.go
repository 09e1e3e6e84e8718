package chaos

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// guarantees contains the promises about rollouts, windows, commits and keys.
var guarantees = map[string]guarantee{
	"canaries get a version first": {
		broken: func(c *Checker, push func(string, int64, string) Push) { c.Pushed(2, push("sim-5", 11, "1.1.0")) },
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
		},
		invariant: Assigned, message: "to sim-5 before a canary has reported it as Ready",
	},
	"silent canaries prove nothing": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-0", 11, "1.1.0"))
			canaryReady(c, "1.0.0") // the last report, before the canary became silent
			c.Pushed(time.Hour, push("sim-5", 11, "1.1.0"))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-0", 11, "1.1.0"))
			canaryReady(c, "1.1.0")
			c.Pushed(time.Hour, push("sim-5", 11, "1.1.0"))
		},
		invariant: Assigned, message: "to sim-5 before a canary has reported it as Ready",
	},
	"only a decision returns a runtime to an older version": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 3, "Succeeded")
			c.Pushed(4, push("sim-5", 12, "1.0.0"))
			passSucceededTwice(c, 5)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Pushed(4, push("sim-5", 12, "1.0.0"))
			passRolloutState(c, 5, "RollingBack")
			c.Pushed(6, push("sim-6", 11, "1.1.0"))
			c.TookBack("1.1.0")
			c.Pushed(7, push("sim-6", 12, "1.0.0"))
			passRolloutState(c, time.Hour, "RolledBack")
		},
		invariant: Assigned, message: "returns sim-5 from scaler 1.1.0 to 1.0.0",
	},
	"a runtime accepts older versions only with its own key": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, withKey("old", push("sim-5", 11, "1.1.0")))
			c.Pushed(3, withKey("new", push("sim-5", 12, "1.1.0")))
			c.Pushed(4, withKey("new", push("sim-5", 13, "1.0.0")))
			passSucceededTwice(c, 5)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, withKey("old", push("sim-5", 11, "1.1.0")))
			c.Pushed(3, withKey("new", push("sim-5", 12, "1.1.0")))
			c.Pushed(4, withKey("old", push("sim-5", 13, "1.0.0"))) // the control plane was restored from a backup
			c.Pushed(5, withKey("new", push("sim-5", 14, "1.1.0")))
			passSucceededTwice(c, 6)
		},
		invariant: Assigned, message: "returns sim-5 from scaler 1.1.0 to 1.0.0",
	},
	"a report proves a runtime's version": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Reported(3, reportWith(6, 11, func(*Reported) {}))
			c.Pushed(4, push("sim-5", 12, "1.0.0"))
			passSucceededTwice(c, 5)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Restoring("sim-5")(2)
			c.Reported(3, reportWith(6, 0, func(*Reported) {})) // the agent lost its state and its Manifests
			c.Pushed(4, push("sim-5", 12, "1.0.0"))
			passSucceededTwice(c, 5)
		},
		invariant: Assigned, message: "returns sim-5 from scaler 1.1.0 to 1.0.0",
	},
	"a runtime refuses an older version unless its newer bundle is lost": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			returnsAfter(c, push, func() { c.Restoring("")(3); c.BundlesLost(4) },
				bundle.Rollback{Module: "scaler", From: "1.1.0", To: "1.0.0"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			returnsAfter(c, push, func() { c.Restoring("")(3); c.BundlesLost(4) })
		},
		invariant: Assigned, message: "returns sim-5 from scaler 1.1.0 to 1.0.0",
	},
	"only a loss in both registry and control plane explains an older version": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.BundlesLost(1)
			returnsAfter(c, push, func() { c.Restoring("")(3) })
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			returnsAfter(c, push, func() { c.BundlesLost(3); c.Restoring("")(4) })
		},
		invariant: Assigned, message: "returns sim-5 from scaler 1.1.0 to 1.0.0",
	},
	"a closed maintenance window delays upgrades with downtime": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			p := push("sim-5", 11, "1.1.0")
			p.Downtime, p.Closed = map[string]bool{"scaler": true}, true
			c.Pushed(2, p)
			c.Reported(3, reportWith(6, 11, func(*Reported) {}))
			c.Present(4, "sim-5", map[string]string{"scaler": "1.0.0"})
			c.Present(5, "sim-5", map[string]string{"scaler": "1.1.0"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			p := push("sim-5", 11, "1.1.0")
			p.Downtime, p.Closed = map[string]bool{"scaler": true}, true
			c.Pushed(2, p)
			c.Reported(3, reportWith(6, 11, func(*Reported) {}))
			c.Present(4, "sim-5", map[string]string{"scaler": "1.0.0"})
			c.Pushed(5, push("sim-5", 12, "1.1.0")) // an operator opens the window
			c.Present(6, "sim-5", map[string]string{"scaler": "1.1.0"})
		},
		invariant: Assigned, message: "sim-5 upgraded scaler to 1.1.0",
	},
	"a paused rollout updates no more runtimes": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "Paused", "sim-6")
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 4, "Paused", "sim-6")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "Paused", "sim-6")
			c.Pushed(3, push("sim-6", 11, "1.1.0")) // the rollout allowed this version before the pause
			passRolloutState(c, 4, "Paused")
			c.Pushed(5, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 6, "Progressing") // a user resumed it
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is Paused",
	},
	"a slow registry does not excuse bundles that were issued after a pause": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "Paused")
			c.Pushed(4, issued(3, push("sim-5", 11, "1.1.0")))
			passRolloutState(c, 5, "Paused")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "Paused")
			c.Pushed(4, issued(1, push("sim-5", 11, "1.1.0")))
			passRolloutState(c, 5, "Paused")
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is Paused",
	},
	"a stopped rollout updates no more runtimes": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "Stopped")
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 4, "Stopped")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "Stopped")
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			c.Rollouts(4, []ObservedRollout{
				{Rollout: "scaler-regular-1", To: "1.1.0", State: "Stopped"},
				{Rollout: "scaler-regular-2", To: "1.1.0", State: "Progressing"}, // a user promoted it again
			})
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is Stopped",
	},
	"a runtime gets only versions from complete commits": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Incomplete("1.1.0")
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Incomplete("1.1.0")
			c.Pushed(1, push("sim-5", 11, "1.0.0")) // the publisher renewed the bundle
			c.Complete()
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 12, "1.1.0"))
		},
		invariant: Whole, message: "the commit of this version is incomplete",
	},
	"a runtime never gets a version from a reverted commit": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Incomplete("1.1.0")
			c.Reverted("1.1.0")
			c.Pushed(2, push("sim-0", 11, "1.1.0"))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Incomplete("1.0.0")
			c.Incomplete("1.1.0")
			c.Reverted("1.1.0")
			c.Pushed(2, push("sim-0", 11, "1.0.0"))
		},
		invariant: Whole, message: "the commit of this version is incomplete",
	},
	"a canceled removal removes nothing": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.RequestWithdrawn(1, "sim-5", "scaler")
			c.Asked(2, "sim-5", "scaler")
			c.Reported(3, reportWith(6, 10, func(r *Reported) { r.Generation, r.Requests = 3, []string{"scaler"} }))
			p := push("sim-5", 11, "1.0.0")
			p.Versions, p.Removals, p.Generation = nil, []string{"scaler"}, 3
			c.Pushed(4, p)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.RequestWithdrawn(1, "sim-5", "scaler")
			c.Reported(1, reportWith(6, 10, func(r *Reported) { r.Generation, r.Requests = 2, []string{} }))
			c.Asked(2, "sim-5", "scaler")
			c.Reported(3, reportWith(7, 10, func(r *Reported) { r.Generation, r.Requests = 3, []string{"scaler"} }))
			p := push("sim-5", 11, "1.0.0")
			p.Versions, p.Removals, p.Generation = nil, []string{"scaler"}, 2
			c.Pushed(4, p)
		},
		invariant: Kept, message: "generation 3 of the runtime's Kyma requests it",
	},
	"the control plane shows only reported modules as Ready": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Reported(1, reportWith(6, 10, func(r *Reported) { r.States = map[string]string{"scaler": "Error"} }))
			c.Recorded(2, Record{
				Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: "k", Report: 6,
				Ready: []string{"scaler"},
			})
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			c.Reported(1, reportWith(6, 10, func(r *Reported) { r.States = map[string]string{"scaler": "Ready"} }))
			c.Reported(2, reportWith(7, 10, func(r *Reported) { r.States = map[string]string{"scaler": "Error"} }))
			c.Recorded(3, Record{
				Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: "k", Report: 6,
				Ready: []string{"scaler"},
			})
		},
		invariant: Statuses, message: "shows scaler as Ready, but report 6 has Error",
	},
	"a replaced key never returns": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			for n, key := range []string{"stolen", "k"} {
				c.Recorded(time.Duration(n), Record{
					Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: key, Report: 6,
				})
			}
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			for n, key := range []string{"renewed", "renewed"} {
				c.Recorded(time.Duration(n), Record{
					Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: key, Report: 6,
				})
			}
		},
		invariant: Statuses, message: "has key k again",
	},
}
