package chaos

import (
	"time"
)

// record returns sim-5's status with report 6 about bundle 10.
func record(change func(*Record)) Record {
	r := Record{
		Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: "k", Report: 6, State: "Ready",
		Ready: []string{"scaler"},
	}
	change(&r)
	return r
}

// reportsState passes the checker sim-5's report 6 with module scaler's state.
func reportsState(c *Checker, state string) {
	c.Reported(1, reportWith(6, 10, func(r *Reported) {
		r.States = map[string]string{"scaler": state}
		if state == "Ready" {
			r.Ready = map[string]string{"scaler": "1.0.0"}
		}
	}))
}

// statusGuarantees contains the promises about reports, statuses and rollouts.
var statusGuarantees = map[string]guarantee{
	"a version that cannot run is never Ready": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(2, push("sim-0", 11, "1.2.0"))
			c.Reported(3, Reported{
				Runtime: "sim-0", Sequence: 6, Epoch: 1, Observed: 11, Ready: map[string]string{"scaler": "1.2.0"},
				States: map[string]string{"scaler": "Ready"},
			})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(2, push("sim-0", 11, "1.2.0"))
			c.Reported(3, Reported{
				Runtime: "sim-0", Sequence: 6, Epoch: 1, Observed: 11, States: map[string]string{"scaler": "Error"},
			})
		},
		invariant: Statuses, message: "report 6 from sim-0 has scaler 1.2.0 as Ready, but this version cannot run",
	},
	"only a report that contains no bundle clears the observed bundle": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Restoring("sim-5")(1)
			c.Recorded(2, record(func(*Record) {}))
			c.Recorded(time.Hour, record(func(r *Record) { r.Observed = 0 }))
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			c.Restoring("sim-5")(1)
			c.Reported(2, reportWith(6, 0, func(*Reported) {})) // the agent lost its state
			c.Recorded(3, record(func(r *Record) { r.Report = 5 }))
			c.Recorded(time.Hour, record(func(r *Record) { r.Observed, r.Ready = 0, nil }))
		},
		invariant: Statuses, message: "the status of sim-5 shows observed bundle 0 after bundle 10",
	},
	"a report has only installed versions": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Present(time.Minute, "sim-5", map[string]string{"scaler": "1.0.0"})
			c.Reported(3*time.Minute, reportWith(6, 11, func(r *Reported) { r.Ready = map[string]string{"scaler": "1.1.0"} }))
			c.Present(3*time.Minute+1, "sim-5", map[string]string{"scaler": "1.0.0"})
			c.Present(4*time.Minute, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Present(time.Minute, "sim-5", map[string]string{"scaler": "1.0.0"})
			c.Reported(3*time.Minute, reportWith(6, 11, func(r *Reported) { r.Ready = map[string]string{"scaler": "1.1.0"} }))
			c.Present(3*time.Minute+1, "sim-5", map[string]string{"scaler": "1.1.0"})
			c.Present(4*time.Minute, "sim-5", map[string]string{"scaler": "1.1.0"})
		},
		invariant: Statuses, message: `report 6 from sim-5 has scaler 1.1.0 as Ready, but the runtime has "1.0.0"`,
	},
	"a canary proves only a version from its bundles": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Reported(1, Reported{
				Runtime: "sim-0", Sequence: 6, Epoch: 1, Observed: 10, Ready: map[string]string{"scaler": "1.1.0"},
			})
		},
		kept:      func(c *Checker, _ func(string, int64, string) Push) { canaryReady(c, "1.1.0") },
		invariant: Signed, message: "report 6 from sim-0 has scaler 1.1.0 as Ready, but no signed bundle has it",
	},
	"a report names a pushed bundle": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(2, push("sim-5", 11, "1.0.0"))
			c.Reported(3, reportWith(6, 11, func(r *Reported) { r.Digest = "another" }))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			p := push("sim-5", 11, "1.0.0")
			c.Pushed(2, p)
			c.Reported(3, reportWith(6, 11, func(r *Reported) { r.Digest = p.Digest }))
		},
		invariant: Signed, message: "report 6 from sim-5 has bundle 11 with digest another",
	},
	"a report about a different digest does not count as applied": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			reportsState(c, "Ready")
			c.Recorded(2, record(func(r *Record) { r.ObservedEpoch, r.ObservedDigest = 1, "another" }))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			reportsState(c, "Ready")
			c.Recorded(2, record(func(r *Record) { r.ObservedEpoch, r.ObservedDigest = 1, push("sim-5", 10, "").Digest }))
		},
		invariant: Statuses, message: "observed bundle 10 with digest another, but this bundle was never pushed",
	},
	"a report about an older bundle does not count as applied": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-5", 11, "1.0.0"))
			reportsState(c, "Ready")
			c.Recorded(2, record(func(r *Record) { r.Published, r.Observed = 11, 11 }))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-5", 11, "1.0.0"))
			reportsState(c, "Ready")
			c.Recorded(2, record(func(r *Record) { r.Published, r.State = 11, "Processing" }))
		},
		invariant: Statuses, message: "observed bundle 11, but report 6 has bundle 10",
	},
	"a module that the report lacks is not Ready": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Reported(1, reportWith(6, 10, func(r *Reported) { r.States = map[string]string{} }))
			c.Recorded(2, record(func(*Record) {}))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Reported(1, reportWith(6, 10, func(r *Reported) { r.States = map[string]string{} }))
			c.Recorded(2, record(func(r *Record) { r.Ready, r.State = nil, "Processing" }))
			c.Pushed(3, push("sim-5", 11, "1.0.0"))
			c.Recorded(4, record(func(*Record) {})) // a publisher could not read bundle 11 yet
		},
		invariant: Statuses, message: "shows scaler as Ready, but report 6 does not have the module",
	},
	"a Kyma with a failed module is not Ready": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			reportsState(c, "Error")
			c.Recorded(2, record(func(r *Record) { r.Ready = nil }))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			reportsState(c, "Error")
			c.Recorded(2, record(func(r *Record) { r.Ready, r.State = nil, "Error" }))
			c.Asked(3, "sim-5", "mailer")
			p := push("sim-5", 11, "1.0.0")
			p.Versions["mailer"], p.Mandatory = "1.0.0", map[string]bool{"mailer": true}
			c.Pushed(4, p)
			c.Reported(5, reportWith(7, 11, func(r *Reported) {
				r.States = map[string]string{"scaler": "Ready", "mailer": "Error"}
			}))
			c.Recorded(6, record(func(r *Record) { r.Published, r.Observed, r.Report = 11, 11, 7 }))
		},
		invariant: Statuses, message: "the Kyma of sim-5 is Ready, but report 6 has scaler in state Error",
	},
	"a rollout counts only runtimes that reported its version": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Rollouts(3, []ObservedRollout{{Rollout: "scaler-regular-1", To: "1.1.0", State: "Succeeded", Updated: 3}})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Reported(3, reportWith(6, 11, func(r *Reported) { r.Ready = map[string]string{"scaler": "1.1.0"} }))
			c.Rollouts(4, []ObservedRollout{{Rollout: "scaler-regular-1", To: "1.1.0", State: "Succeeded", Updated: 3}})
		},
		invariant: Statuses, message: "counts 3 runtimes with scaler 1.1.0, but only 2 reported it as Ready",
	},
	"a replaced key does not return after several replacements": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			for n, key := range []string{"k", "stolen", "k"} {
				c.Recorded(time.Duration(n), record(func(r *Record) { r.Key, r.Report = key, 5 }))
			}
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			for n, key := range []string{"k", "second", "third"} {
				c.Recorded(time.Duration(n), record(func(r *Record) { r.Key, r.Report = key, 5 }))
			}
		},
		invariant: Statuses, message: "has key k again",
	},
}
