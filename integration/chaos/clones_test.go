package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Each case begins with two agents that use the key of sim-5. The history broken violates an invariant. The similar
// history kept does not violate it.
func TestCheckerDetectsDamageByClones(t *testing.T) {
	type happens = func(c *Checker, push func(string, int64, string) Push)
	status := func(c *Checker, at time.Duration, quarantined bool, requests ...string) {
		c.Recorded(at, Record{
			Runtime: "sim-5", UID: "u", Epoch: 1, Published: 20, Observed: 10, Key: "k", Report: 5, Requests: requests,
			Quarantined: quarantined,
		})
	}
	report := func(c *Checker, instance string, sequence, observed int64) {
		c.Reported(2, Reported{
			Runtime: "sim-5", Instance: instance, Sequence: sequence, Epoch: 1, Observed: observed,
		})
	}
	for name, test := range map[string]struct {
		broken, kept happens
		invariant    Invariant
		message      string
	}{
		"nothing is published to cloned runtimes": {
			broken: func(c *Checker, push func(string, int64, string) Push) {
				status(c, 1, true)
				c.Pushed(2+quarantineGrace, push("sim-5", 11, "1.0.0"))
			},
			kept: func(c *Checker, push func(string, int64, string) Push) {
				status(c, 1, true)
				c.Pushed(2+quarantineGrace, push("sim-5", 10, "1.0.0")) // the registry had lost the bundle
				c.Separating("sim-5")
				status(c, 3, true) // the status is not updated yet
				c.Pushed(4+2*quarantineGrace, push("sim-5", 11, "1.0.0"))
			},
			invariant: Cloned, message: "although two agents have its key",
		},
		"the request of a copy is ignored": {
			broken: func(c *Checker, _ func(string, int64, string) Push) { status(c, 1, false, []string{}...) },
			kept: func(c *Checker, _ func(string, int64, string) Push) {
				status(c, 1, false, "scaler", "mailer")
				c.Separating("sim-5")
				c.Separated(2, "sim-5")
				status(c, 3, false, "mailer")
			},
			invariant: Cloned, message: "records the request of the copy of sim-5",
		},
		"only a silent original lets the control plane follow its copy": {
			broken: func(c *Checker, _ func(string, int64, string) Push) {
				c.Reported(5*time.Second, Reported{Runtime: "sim-5", Instance: "original", Sequence: 6,
					Requests: []string{"scaler"}})
				c.Reported(5*time.Second+confirmTime, Reported{Runtime: "sim-5", Instance: "copy", Sequence: 7,
					Requests: []string{}, Confirmed: true})
				status(c, 7*time.Second, false, []string{}...)
			},
			kept: func(c *Checker, _ func(string, int64, string) Push) {
				c.Reported(5*time.Second, Reported{Runtime: "sim-5", Instance: "copy", Sequence: 7, Requests: []string{},
					Confirmed: true})
				c.Reported(6*time.Second, Reported{Runtime: "sim-5", Instance: "original", Sequence: 8,
					Requests: []string{"scaler"}})
				status(c, 7*time.Second, true, []string{}...)
			},
			invariant: Cloned, message: "records the request of the copy of sim-5",
		},
		"the original keeps its modules": {
			broken: func(c *Checker, push func(string, int64, string) Push) {
				p := push("sim-5", 11, "1.0.0")
				p.Versions, p.Removals = nil, []string{"scaler"}
				c.Pushed(1, p)
			},
			kept: func(c *Checker, push func(string, int64, string) Push) {
				c.Pushed(1, push("sim-5", 11, "1.0.0"))
				c.Present(2, "sim-5", map[string]string{"scaler": "1.0.0"})
			},
			invariant: Kept, message: "removes module scaler from sim-5",
		},
		"the copy keeps its modules": {
			broken: func(c *Checker, _ func(string, int64, string) Push) {
				c.Present(1, copyOf("sim-5"), map[string]string{"scaler": "1.0.0"})
				c.Present(2, copyOf("sim-5"), map[string]string{})
			},
			kept: func(c *Checker, _ func(string, int64, string) Push) {
				c.Present(1, copyOf("sim-5"), map[string]string{"scaler": "1.0.0"})
				c.Separating("sim-5")
				c.Present(2, copyOf("sim-5"), map[string]string{})
			},
			invariant: Kept, message: "copy-of-sim-5 lost module scaler",
		},
		"each agent reports increasing sequences": {
			broken: func(c *Checker, _ func(string, int64, string) Push) {
				report(c, "copy", 7, 10)
				report(c, "copy", 6, 10)
			},
			kept: func(c *Checker, _ func(string, int64, string) Push) {
				report(c, "copy", 7, 9)
				report(c, "original", 6, 10)
				report(c, "copy", 8, 9)
			},
			invariant: Sequences, message: "pushed report 6 after report 7",
		},
		"a runtime with a single agent again reports increasing sequences": {
			broken: func(c *Checker, _ func(string, int64, string) Push) {
				c.Separating("sim-5")
				c.Separated(1, "sim-5")
				c.Reported(2+settleTime, Reported{Runtime: "sim-5", Instance: "other", Sequence: 4, Epoch: 1, Observed: 10})
			},
			kept: func(c *Checker, _ func(string, int64, string) Push) {
				c.Separating("sim-5")
				c.Separated(1, "sim-5")
				c.Reported(2+settleTime, Reported{Runtime: "sim-5", Instance: "other", Sequence: 6, Epoch: 1, Observed: 10})
			},
			invariant: Sequences, message: "pushed report 4 after report 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, push := history()
			c.Cloned(0, "sim-5")
			test.kept(c, push)
			if v := c.Violations(); len(v) > 0 {
				t.Errorf("the history that keeps the promise has violations: %v", v)
			}
			c, push = history()
			c.Cloned(0, "sim-5")
			test.broken(c, push)
			if !slices.ContainsFunc(c.Violations(), func(v Violation) bool {
				return v.Invariant == test.invariant && strings.Contains(v.What, test.message)
			}) {
				t.Errorf("got violations %v, want %q with %q", c.Violations(), test.invariant, test.message)
			}
		})
	}
}

func TestCheckerAllowsModuleLossInCopyWithDeletedCRD(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		c, _ := history()
		if deleted {
			c.CRDDeleted(1, "sim-5")
		}
		c.Cloned(2, "sim-5")
		c.Present(3, copyOf("sim-5"), map[string]string{"scaler": "1.0.0"})
		c.Present(4, copyOf("sim-5"), map[string]string{})
		if v := c.Violations(); (len(v) == 0) != deleted {
			t.Errorf("CRD deleted %t: got violations %v", deleted, v)
		}
	}
}

func TestRuntimesWithoutTheNextCAAreReported(t *testing.T) {
	c, push := history()
	announcing := push("sim-5", 11, "1.0.0")
	announcing.NextCA = "next"
	c.Pushed(1, announcing)
	if got := c.WithoutNextCA("next", []string{"sim-5", "sim-6"}); !slices.Equal(got, []string{"sim-5", "sim-6"}) {
		t.Errorf("before a report: got runtimes %q without the announcement, want both", got)
	}
	c.Reported(2, Reported{Runtime: "sim-5", Sequence: 6, Epoch: 1, Observed: 11})
	if got := c.WithoutNextCA("next", []string{"sim-5", "sim-6"}); !slices.Equal(got, []string{"sim-6"}) {
		t.Errorf("got runtimes %q without the announcement, want sim-6", got)
	}
	if got := c.Silent(1, []string{"sim-5", "sim-6"}); !slices.Equal(got, []string{"sim-6"}) {
		t.Errorf("got silent runtimes %q, want sim-6", got)
	}
}
