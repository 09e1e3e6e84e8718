package chaos

import (
	"time"
)

// removes returns a bundle for sim-5 that removes a module and contains no modules.
func removes(push func(string, int64, string) Push, sequence int64, module string) Push {
	p := push("sim-5", sequence, "1.0.0")
	p.Removals = []string{module}
	return p
}

// hadMailer announces that module mailer was installed in sim-5, and that the admin removed it. The runtime has
// reported the removal.
func hadMailer(c *Checker, push func(string, int64, string) Push) {
	c.Asked(1, "sim-5", "mailer")
	p := push("sim-5", 11, "1.0.0")
	p.Versions["mailer"] = "1.0.0"
	c.Pushed(2, p)
	both := map[string]string{"scaler": "1.0.0", "mailer": "1.0.0"}
	c.Present(3, "sim-5", both)
	c.Objects(3, "sim-5", "mailer", map[string]string{"Deployment mailer": "m"})
	c.RequestWithdrawn(4, "sim-5", "mailer")
	c.Pushed(5, removes(push, 12, "mailer"))
	c.Reported(6, reportWith(6, 12, func(*Reported) {}))
	c.Present(7, "sim-5", map[string]string{"scaler": "1.0.0"})
	c.Objects(7, "sim-5", "mailer", map[string]string{})
}

// reportsMailer passes the checker a report that lists module mailer of bundle 11 as Ready.
func reportsMailer(c *Checker) {
	c.Reported(4*time.Minute, reportWith(6, 11, func(r *Reported) {
		r.States, r.Ready = map[string]string{"mailer": "Ready"}, map[string]string{"mailer": "1.0.0"}
	}))
}

// installedGuarantees contains the promises about the modules in runtimes.
var installedGuarantees = map[string]guarantee{
	"a runtime never returns to an older bundle's version": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Reported(3, reportWith(6, 11, func(*Reported) {}))
			c.Present(4, "sim-5", map[string]string{"scaler": "1.1.0"})
			c.Present(5*time.Minute, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.Reported(3, reportWith(6, 11, func(*Reported) {}))
			c.Present(4, "sim-5", map[string]string{"scaler": "1.1.0"})
			c.TookBack("1.1.0")
			c.Pushed(5, push("sim-5", 12, "1.0.0"))
			c.Present(5*time.Minute, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		invariant: Signed, message: "sim-5 installed scaler 1.0.0, but neither the reported bundle 11",
	},
	"a runtime installs only versions from its bundles": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.TookBack("1.1.0")
			c.Pushed(3, push("sim-5", 12, "1.0.0")) // the runtime skipped bundle 11
			c.Reported(4, reportWith(6, 12, func(*Reported) {}))
			c.Present(time.Minute, "sim-5", map[string]string{"scaler": "1.1.0"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			canaryReady(c, "1.1.0")
			c.Pushed(2, push("sim-5", 11, "1.1.0"))
			c.TookBack("1.1.0")
			c.Pushed(3, push("sim-5", 12, "1.0.0"))
			c.Present(4, "sim-5", map[string]string{"scaler": "1.1.0"}) // the runtime has not read bundle 12
			c.Reported(5, reportWith(6, 12, func(*Reported) {}))
			c.Present(time.Minute, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		invariant: Signed, message: "sim-5 installed scaler 1.1.0, but neither the reported bundle 12",
	},
	"a runtime has a new module that it reports as Ready": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Asked(1, "sim-5", "mailer")
			p := push("sim-5", 11, "1.0.0")
			p.Versions["mailer"] = "1.0.0"
			c.Pushed(3*time.Minute, p)
			reportsMailer(c)
			c.Present(5*time.Minute, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Asked(1, "sim-5", "mailer")
			p := push("sim-5", 11, "1.0.0")
			p.Versions["mailer"] = "1.0.0"
			c.Pushed(3*time.Minute, p)
			reportsMailer(c)
			c.RequestWithdrawn(4*time.Minute+1, "sim-5", "scaler", "mailer") // an operator deletes the Kyma
			p = push("sim-5", 12, "1.0.0")
			p.Versions["mailer"], p.Deleting = "1.0.0", true
			c.Pushed(4*time.Minute+time.Second, p)
			c.Present(5*time.Minute, "sim-5", map[string]string{})
		},
		invariant: Statuses, message: `report 6 from sim-5 has mailer 1.0.0 as Ready, but the runtime has ""`,
	},
	"a removed module does not come back": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			hadMailer(c, push)
			c.Present(time.Minute, "sim-5", map[string]string{"scaler": "1.0.0", "mailer": "1.0.0"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			hadMailer(c, push)
			c.Asked(8, "sim-5", "mailer")
			p := push("sim-5", 13, "1.0.0")
			p.Versions["mailer"] = "1.0.0"
			c.Pushed(9, p)
			c.Present(time.Minute, "sim-5", map[string]string{"scaler": "1.0.0", "mailer": "1.0.0"})
		},
		invariant: Signed, message: "sim-5 installed mailer 1.0.0",
	},
	"objects of a removed module do not come back": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			hadMailer(c, push)
			c.Objects(time.Minute, "sim-5", "mailer", map[string]string{"Deployment mailer": "n"})
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			hadMailer(c, push)
			c.Asked(8, "sim-5", "mailer")
			p := push("sim-5", 13, "1.0.0")
			p.Versions["mailer"] = "1.0.0"
			c.Pushed(9, p)
			c.Objects(time.Minute, "sim-5", "mailer", map[string]string{"Deployment mailer": "n"})
		},
		invariant: Kept, message: "Deployment mailer of module mailer appeared",
	},
	"an agent keeps the objects of other modules": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Objects(1, "sim-5", "scaler", map[string]string{"Deployment scaler-manager": "new"})
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			c.Objects(1, "sim-5", "scaler", map[string]string{"Deployment scaler-manager": "d"})
		},
		invariant: Kept, message: "Deployment scaler-manager of module scaler was deleted and created again",
	},
	"a CRD and its custom resources are kept without Manifests": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Objects(1, "sim-5", "scaler", map[string]string{"CustomResourceDefinition s": "1", "Scaler default": "2"})
			c.CRDDeleted(2, "sim-5")
			c.Objects(3, "sim-5", "scaler", map[string]string{"CustomResourceDefinition s": "3", "Scaler default": "4"})
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			c.Objects(1, "sim-5", "scaler", map[string]string{
				"CustomResourceDefinition s": "1", "Scaler default": "2", "Deployment scaler-manager": "d",
			})
			c.CRDDeleted(2, "sim-5")
			c.Present(3, "sim-5", map[string]string{})
			c.Objects(3, "sim-5", "scaler", map[string]string{
				"CustomResourceDefinition s": "1", "Scaler default": "2", "Deployment scaler-manager": "d",
			})
		},
		invariant: Kept, message: "Scaler default of module scaler was deleted and created again",
	},
	"users' objects are kept": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Objects(1, "sim-5", usersObjects, map[string]string{"Scaler mine": "1"})
			c.Objects(2, "sim-5", usersObjects, nil)
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			c.Objects(1, "sim-5", usersObjects, map[string]string{"Scaler mine": "1"})
			c.Deleted(2, "sim-5", "Scaler mine")
			c.Objects(2, "sim-5", usersObjects, nil)
		},
		invariant: Kept, message: "Scaler mine of users",
	},
	"an agent restores edited objects": {
		broken: func(c *Checker, _ func(string, int64, string) Push) {
			c.Edited(time.Second, "sim-5")
			c.Content(2*time.Second, "sim-5", "ConfigMap scaler-settings", true)
			c.Content(time.Minute+2*requestGrace, "sim-5", "ConfigMap scaler-settings", true)
		},
		kept: func(c *Checker, _ func(string, int64, string) Push) {
			c.Edited(time.Second, "sim-5")
			c.Content(2*time.Second, "sim-5", "ConfigMap scaler-settings", true)
			c.Content(time.Minute, "sim-5", "ConfigMap scaler-settings", false)
			c.Edited(time.Hour, "sim-5")
			c.Content(time.Hour+1, "sim-5", "ConfigMap scaler-settings", true)
		},
		invariant: Kept, message: "in sim-5, ConfigMap scaler-settings has a user's content for",
	},
	"a quarantined clone removes nothing": {
		broken: func(c *Checker, push func(string, int64, string) Push) {
			c.Cloned(1, "sim-5")
			c.Recorded(2, Record{
				Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: "k", Report: 5, Quarantined: true,
			})
			p := push("sim-5", 11, "1.0.0")
			p.Versions, p.Removals = nil, []string{"scaler"}
			c.Pushed(3, p)
		},
		kept: func(c *Checker, push func(string, int64, string) Push) {
			c.Cloned(1, "sim-5")
			c.Recorded(2, Record{
				Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: "k", Report: 5, Quarantined: true,
			})
			c.Pushed(3, push("sim-5", 10, "1.0.0"))
		},
		invariant: Kept, message: "bundle 11 removes module scaler from sim-5 without a request",
	},
}
