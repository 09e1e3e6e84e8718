package chaos

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// withheldGuarantees contains the promises about suspended runtimes and revoked keys.
var withheldGuarantees = map[string]guarantee{
	"a suspended runtime gets no bundle": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Suspended(1, "sim-5")
			c.Pushed(time.Minute, push("sim-5", 11, "1.0.0"))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Suspended(1, "sim-5")
			c.Pushed(2, push("sim-5", 11, "1.0.0"))                      // decided before the suspension
			c.Pushed(time.Minute, push("sim-5", 11, "1.0.0"))            // the registry had lost it
			c.Pushed(time.Minute, issued(1, push("sim-5", 12, "1.0.0"))) // the registry was slow
			c.Resumed("sim-5")
			c.Pushed(2*time.Minute, push("sim-5", 13, "1.0.0"))
		},
		invariant: Withheld, message: "bundle 11 was pushed for sim-5, which is suspended",
	},
	"only a suspended runtime leaves its slot in a rollout": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(1, push("sim-5", 11, "1.1.0"))
			c.Pushed(1, push("sim-6", 11, "1.1.0"))
			c.Pushed(2, push("sim-7", 11, "1.1.0"))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(1, push("sim-5", 11, "1.1.0"))
			c.Pushed(1, push("sim-6", 11, "1.1.0"))
			c.Suspended(2, "sim-6")
			c.Pushed(2, push("sim-7", 11, "1.1.0"))
		},
		invariant: Budget, message: "3 runtimes have scaler 1.1.0 without a reported result",
	},
	"reports from a suspended runtime are not read": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Suspended(1, "sim-5")
			reportsState(c, "Ready")
			c.Recorded(time.Minute, record(func(*Record) {}))
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			c.Suspended(1, "sim-5")
			reportsState(c, "Ready")
			c.Resumed("sim-5")
			c.Recorded(time.Minute, record(func(*Record) {}))
		},
		invariant: Withheld, message: "has report 6, but the runtime is suspended",
	},
	"a revoked key gets no bundle": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, withKey("k", push("sim-5", 11, "1.0.0")))
			c.KeyRevoked(2, "sim-5", "k")
			c.Pushed(time.Minute, withKey("k", push("sim-5", 12, "1.0.0")))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, withKey("k", push("sim-5", 11, "1.0.0")))
			c.KeyRevoked(2, "sim-5", "k")
			c.Pushed(time.Minute, withKey(bundle.AudienceNone, push("sim-5", 12, "1.0.0")))
			c.Pushed(2*time.Minute, withKey("another", push("sim-5", 13, "1.0.0")))
		},
		invariant: Withheld, message: "bundle 12 was pushed for sim-5 with key k, which is revoked",
	},
	"a new key gets only the versions that the runtime had before": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, withKey("k", push("sim-5", 11, "1.0.0")))
			c.KeyRevoked(3, "sim-5", "k")
			c.Pushed(4, withKey(bundle.AudienceNone, push("sim-5", 12, "1.0.0")))
			passRolloutState(c, 5, "Superseded")
			c.Pushed(6, withKey("another", push("sim-5", 13, "1.1.0")))
			passRolloutState(c, 7, "Superseded")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, withKey("k", push("sim-5", 11, "1.0.0")))
			c.KeyRevoked(3, "sim-5", "k")
			c.Pushed(4, withKey(bundle.AudienceNone, push("sim-5", 12, "1.1.0"))) // before the rollout was superseded
			passRolloutState(c, 5, "Superseded")
			c.Pushed(6, withKey("another", push("sim-5", 13, "1.1.0")))
			passRolloutState(c, 7, "Superseded")
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is Superseded",
	},
	"only a restored control plane omits modules from a newer key's bundle": {
		broken: func(c *Checker, push func(string, int64, string) Push) { forgetModule(c, push, func() {}) },
		kept: func(c *Checker, push func(string, int64, string) Push) {
			forgetModule(c, push, func() { c.Restoring("")(4) })
		},
		invariant: Kept, message: "bundle 14 for sim-5 does not contain the requested module scaler of bundle 13",
	},
	"bundles for the runtime's current key are compared": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, withKey("new", push("sim-5", 11, "1.0.0")))
			c.Pushed(3, withKey("old", push("sim-5", 12, "1.0.0"))) // the control plane was restored
			c.Reported(3, reportWith(6, 11, func(*Reported) {}))
			passRolloutState(c, 4, "Superseded")
			c.Pushed(5, withKey("new", push("sim-5", 13, "1.1.0")))
			passRolloutState(c, 6, "Superseded")
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, withKey("new", push("sim-5", 11, "1.0.0")))
			c.Pushed(3, withKey("old", push("sim-5", 12, "1.0.0")))
			c.Pushed(4, withKey("new", push("sim-5", 13, "1.1.0"))) // before the rollout was superseded
			c.Reported(5, reportWith(6, 13, func(*Reported) {}))
			passRolloutState(c, 6, "Superseded")
			c.Pushed(7, withKey("new", push("sim-5", 14, "1.1.0")))
			c.Pushed(8, withKey(bundle.AudienceNone, push("sim-5", 15, "1.1.0")))
			passRolloutState(c, 9, "Superseded")
		},
		invariant: Assigned, message: "but rollout scaler-regular-1 is Superseded",
	},
	"only an agent with another key forgets its bundle": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.KeyRevoked(1, "sim-5", "k")
			c.Reported(2, reportWith(6, 0, func(*Reported) {}))
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.KeyRevoked(1, "sim-5", "k")
			c.KeyDeleted(2, "sim-5")
			c.Reported(3, reportWith(6, 0, func(*Reported) {}))
			c.Recorded(4, record(func(r *Record) { r.Key, r.Observed, r.State, r.Ready = "another", 0, "Processing", nil }))
			c.Pushed(5, withKey("another", push("sim-5", 11, "1.0.0")))
			c.Reported(6, reportWith(7, 11, func(*Reported) {}))
		},
		invariant: Sequences, message: "sim-5 follows bundle 0 after bundle 10",
	},
	"reports with a revoked key are refused": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.KeyRevoked(1, "sim-5", "k")
			reportsState(c, "Ready")
			c.Recorded(time.Minute, record(func(*Record) {}))
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			c.KeyRevoked(1, "sim-5", "k")
			reportsState(c, "Ready")
			c.Recorded(time.Minute, record(func(r *Record) { r.Key = "another" }))
		},
		invariant: Withheld, message: "has report 6 with key k, which is revoked",
	},
}

// forgetModule passes bundles for an old and a new key to the checker. After it calls lose, it passes a bundle for
// the old key, and then a bundle for the new key that does not contain the module.
func forgetModule(c *Checker, push func(string, int64, string) Push, lose func()) {
	next := func(sequence int64, key string) Push {
		return issued(time.Duration(sequence-9), withKey(key, push("sim-5", sequence, "1.0.0")))
	}
	c.Pushed(2, next(11, "old"))
	c.Pushed(3, next(12, "new"))
	lose()
	c.Pushed(4, next(13, "old"))
	missing := next(14, "new")
	missing.Versions = nil
	c.Pushed(5, missing)
}
