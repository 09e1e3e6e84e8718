package chaos

import (
	"time"
)

// keepsReporting passes one hour of reports and matching statuses to the checker. In the reports, sim-5 is Ready with
// bundle 10.
func keepsReporting(c *Checker, shown func(at time.Duration) []string) {
	for n := range int64(61) {
		at := time.Duration(n) * time.Minute
		c.Reported(at, reportWith(6+n, 10, func(r *Reported) {
			r.States, r.Ready = map[string]string{"scaler": "Ready"}, map[string]string{"scaler": "1.0.0"}
		}))
		c.Recorded(at, record(func(r *Record) { r.Report, r.Ready = 6+n, shown(at) }))
		c.Present(at, "sim-5", map[string]string{"scaler": "1.0.0"})
	}
}

// progressGuarantees contains the promises that changes take effect in time.
var progressGuarantees = map[string]guarantee{
	"an agent installs the bundle that it reports": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Reported(3, reportWith(6, 11, func(*Reported) {}))
			c.Present(time.Hour, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Reported(3, reportWith(6, 11, func(r *Reported) { r.Waiting = map[string]bool{"scaler": true} }))
			c.Present(time.Hour, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		invariant: Progress, message: `sim-5 follows bundle 11, but has scaler "1.0.0" instead of 1.1.0 for 1h`,
	},
	"a runtime reports its modules as Ready": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			reportsState(c, "Processing")
			c.Present(time.Hour, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			keepsReporting(c, func(time.Duration) []string { return []string{"scaler"} })
		},
		invariant: Progress, message: "sim-5 has not reported scaler as Ready for 1h",
	},
	"the control plane shows a Ready module": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			reportsState(c, "Ready")
			c.Recorded(time.Hour, record(func(r *Record) { r.Ready = nil }))
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			keepsReporting(c, func(at time.Duration) []string {
				if at > 30*time.Minute && at < 40*time.Minute {
					return nil // for example, while a commit is held
				}
				return []string{"scaler"}
			})
			c.Asked(time.Hour, "sim-5", "mailer")
			c.Reported(time.Hour+1, reportWith(100, 10, func(r *Reported) {
				r.States = map[string]string{"scaler": "Ready", "mailer": "Ready"}
			}))
			c.Recorded(time.Hour+2, record(func(r *Record) { r.Report = 99 }))
		},
		invariant: Progress, message: "the status of sim-5 does not show scaler as Ready",
	},
	"a requested module arrives in a bundle": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Asked(1, "sim-5", "mailer")
			c.Reported(1, reportWith(6, 10, func(r *Reported) {
				r.Generation, r.Requests = 2, []string{"scaler", "mailer"}
			}))
			c.Pushed(time.Hour, push("sim-5", 11, "1.0.0"))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Asked(time.Hour, "sim-5", "mailer")
			c.Pushed(time.Hour+1, push("sim-5", 11, "1.0.0"))
		},
		invariant: Progress, message: "no bundle for sim-5 contains the requested module mailer",
	},
	"a bundle keeps the requested modules": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			p := push("sim-5", 11, "1.0.0")
			p.Versions = map[string]string{}
			c.Pushed(time.Hour, p)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.RequestWithdrawn(1, "sim-5", "scaler")
			c.Reported(1, reportWith(6, 10, func(r *Reported) { r.Generation, r.Requests = 2, []string{} }))
			c.Asked(2, "sim-5", "scaler")
			p := push("sim-5", 11, "1.0.0")
			p.Versions, p.Generation = map[string]string{}, 2
			c.Pushed(3, p)
		},
		invariant: Kept, message: "bundle 11 for sim-5 does not contain the requested module scaler of bundle 10",
	},
	"modules of bundles that a revoked key signed can be missing": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.PublisherKeyRotated(time.Second)
			missing := push("sim-5", 11, "1.0.0")
			missing.Versions = nil
			c.Pushed(2*time.Second, missing)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.PublisherKeyRotated(time.Second)
			c.PublisherKeyRotated(2 * time.Second) // this rotation revokes the key of all bundles
			missing := push("sim-5", 11, "1.0.0")
			missing.Versions = nil
			c.Pushed(3*time.Second, missing)
		},
		invariant: Kept, message: "bundle 11 for sim-5 does not contain the requested module scaler of bundle 10",
	},
	"only modules that were mandatory are installed without a request": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			unasked := push("sim-5", 11, "1.0.0")
			unasked.Versions["mailer"] = "1.0.0"
			c.Pushed(1, unasked)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.MadeMandatory("mailer")
			unasked := push("sim-5", 11, "1.0.0")
			unasked.Versions["mailer"] = "1.0.0"
			c.Pushed(1, unasked)
		},
		invariant: Meant, message: "installs module mailer in sim-5, but it was never requested there",
	},
	"a rollout ends": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			passRolloutState(c, time.Hour, "Progressing")
			passRolloutState(c, 10*time.Hour, "Progressing")
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			passRolloutState(c, time.Minute, "Progressing")
			passRolloutState(c, 2*time.Minute, "Waiting") // an operator must approve the wave
			passRolloutState(c, 10*time.Hour, "Progressing")
			passRolloutState(c, 10*time.Hour+time.Minute, "Succeeded")
		},
		invariant: Progress, message: "rollout scaler-regular-1 to 1.1.0 is Progressing for",
	},
	"a rolled back rollout updates no more runtimes": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "RolledBack")
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 4, "RolledBack")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(1, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 2, "RolledBack")
			passRolloutState(c, 4, "RolledBack")
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is RolledBack",
	},
	"a shard follows an outdated plan only for a short time": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Divided()
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "RolledBack")
			c.Pushed(2*shardLag, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 3*shardLag, "RolledBack")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Divided()
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "RolledBack")
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 4, "RolledBack")
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is RolledBack",
	},
	"after a rollback, only a restored runtime keeps the rolled back version": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "RolledBack")
			c.Restoring("sim-4")(2)
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 4, "RolledBack")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "RolledBack")
			c.Restoring("sim-5")(2)
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 4, "RolledBack")
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is RolledBack",
	},
	"a superseded rollout updates no more runtimes": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			passRolloutState(c, 2, "Superseded")
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			passRolloutState(c, 4, "Superseded")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			both := []ObservedRollout{
				{Rollout: "scaler-regular-1", From: "1.0.0", To: "1.1.0", State: "Superseded"},
				{Rollout: "scaler-regular-2", From: "1.1.0", To: "1.2.0", State: "RolledBack"},
			}
			c.Rollouts(2, both)
			c.Pushed(3, push("sim-5", 11, "1.1.0"))
			c.Rollouts(4, both)
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is Superseded",
	},
	"a rollout without canaries updates no runtime": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			empty := []ObservedRollout{{Rollout: "scaler-regular-1", To: "1.1.0", State: "Progressing", Mistyped: true}}
			c.Rollouts(1, empty)
			c.Pushed(2, push("sim-0", 11, "1.1.0"))
			c.Rollouts(3, empty)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Rollouts(1, []ObservedRollout{
				{Rollout: "scaler-regular-1", To: "1.1.0", State: "Progressing", Mistyped: true},
			})
			c.Pushed(2, push("sim-0", 11, "1.1.0"))
			passRolloutState(c, 3, "Progressing") // an operator corrected the selector
		},
		invariant: Assigned, message: "the first wave of rollout scaler-regular-1 selects no runtime",
	},
	"a version of a module without rollouts needs a promotion": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Asked(0, "sim-5", "mailer")
			p := push("sim-5", 11, "1.0.0")
			p.Versions["mailer"] = "7.0.0"
			c.Pushed(2, p)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Asked(0, "sim-5", "mailer")
			p := push("sim-5", 11, "1.0.0")
			p.Versions["mailer"] = "1.0.0"
			c.Pushed(2, p)
		},
		invariant: Meant, message: "bundle 11 installs mailer 7.0.0 in sim-5, but no channel had that version",
	},
	"a restored control plane does not return runtimes to an older version": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Restoring("")(3)
			c.Pushed(4, push("sim-5", 12, "1.0.0"))
			c.Rollouts(5, nil)
			c.Rollouts(time.Minute, nil)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Restoring("")(3)
			c.Pushed(4, push("sim-5", 12, "1.1.0"))
			c.Rollouts(5, nil)
			c.Rollouts(time.Minute, nil)
		},
		invariant: Assigned, message: "returns sim-5 from scaler 1.1.0 to 1.0.0",
	},
}
