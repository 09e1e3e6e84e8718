package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// history returns a checker that has observed a healthy fleet. Three non-canary runtimes have scaler 1.0.0, and version
// 1.1.0 is promoted.
func history() (*Checker, func(id string, sequence int64, version string) Push) {
	c := NewChecker("scaler", 2)
	c.Promoted("scaler", "1.0.0", false)
	c.Promoted("scaler", "1.1.0", false)
	c.Promoted("scaler", "1.2.0", true)
	c.Promoted("mailer", "1.0.0", false)
	push := func(id string, sequence int64, version string) Push {
		return Push{
			Runtime: id, Digest: fmt.Sprint(id, sequence), Epoch: 1, Sequence: sequence,
			Versions: map[string]string{"scaler": version},
		}
	}
	for _, id := range []string{"sim-0", "sim-5", "sim-6", "sim-7"} {
		c.Asked(0, id, "scaler")
		c.Pushed(0, push(id, 10, "1.0.0"))
		c.Present(0, id, map[string]string{"scaler": "1.0.0"})
		c.Objects(0, id, "scaler", map[string]string{"Deployment scaler-manager": "d"})
		c.Reported(0, Reported{
			Runtime: id, Sequence: 5, Epoch: 1, Observed: 10, Answered: map[string]string{"scaler": "1.0.0"},
			Ready: map[string]string{"scaler": "1.0.0"}, States: map[string]string{"scaler": "Ready"},
		})
		c.Recorded(0, Record{
			Runtime: id, UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: "k", Report: 5, State: "Ready",
			Ready: []string{"scaler"},
		})
	}
	c.Asked(0, "sim-1", "scaler")
	c.Pushed(0, push("sim-1", 10, "1.1.0"))
	c.Reported(0, Reported{Runtime: "sim-1", Sequence: 1, Ready: map[string]string{"scaler": "1.1.0"}})
	return c, push
}

func TestCheckerDetectsEveryViolation(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(c *Checker, push func(string, int64, string) Push)
		broken  Invariant
		message string
	}{
		"unsigned bundle": {func(c *Checker, push func(string, int64, string) Push) {
			p := push("sim-5", 11, "1.1.0")
			p.Refused = errors.New("unknown key")
			c.Pushed(1, p)
		}, Signed, "unknown key"},
		"installed version without a bundle": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Present(1, "sim-5", map[string]string{"scaler": "1.1.0"})
		}, Signed, "has scaler 1.1.0"},
		"runtime follows a bundle that was not pushed": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Reported(1, Reported{Runtime: "sim-5", Sequence: 6, Epoch: 1, Observed: 12})
		}, Signed, "never pushed"},
		"version that was in no channel": {func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-5", 11, "9.9.9"))
		}, Meant, "no channel had"},
		"module that was not requested": {func(c *Checker, push func(string, int64, string) Push) {
			p := push("sim-5", 11, "1.0.0")
			p.Versions["mailer"] = "1.0.0"
			c.Pushed(1, p)
		}, Meant, "mailer"},
		"object of a module that was not requested": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Objects(1, "sim-5", "mailer", map[string]string{"Deployment mailer": "d"})
		}, Meant, "mailer"},
		"removal that was not requested": {func(c *Checker, push func(string, int64, string) Push) {
			p := push("sim-5", 11, "1.0.0")
			p.Versions, p.Removals = nil, []string{"scaler"}
			c.Pushed(1, p)
		}, Kept, "removes module scaler"},
		"removal bundle for a runtime with a Kyma": {func(c *Checker, push func(string, int64, string) Push) {
			p := push("sim-5", 11, "1.0.0")
			p.Deleting = true
			c.Pushed(1, p)
		}, Kept, "removes all modules"},
		"module disappears": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Present(1, "sim-5", map[string]string{})
		}, Kept, "no signed bundle removed it"},
		"module removed long after the removal was withdrawn": {
			func(c *Checker, push func(string, int64, string) Push) {
				c.RequestWithdrawn(time.Second, "sim-5", "scaler")
				c.Asked(2*time.Second, "sim-5", "scaler")
				p := push("sim-5", 11, "1.0.0")
				p.Versions, p.Removals = nil, []string{"scaler"}
				c.Pushed(time.Hour, p)
			}, Kept, "removes module scaler"},
		"module missing although the runtime follows a bundle newer than the removal": {
			func(c *Checker, push func(string, int64, string) Push) {
				c.RequestWithdrawn(1, "sim-5", "scaler")
				p := push("sim-5", 11, "1.0.0")
				p.Versions, p.Removals = nil, []string{"scaler"}
				c.Pushed(2, p)
				c.Asked(3, "sim-5", "scaler")
				c.Pushed(4, push("sim-5", 12, "1.0.0"))
				c.Reported(5, Reported{Runtime: "sim-5", Sequence: 6, Epoch: 1, Observed: 12})
				c.Present(time.Hour, "sim-5", nil)
			}, Kept, "without a request"},
		"object disappears": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Objects(1, "sim-5", "scaler", nil)
		}, Kept, "Deployment scaler-manager"},
		"object still missing long after a user deleted it": {
			func(c *Checker, _ func(string, int64, string) Push) {
				c.Deleted(1, "sim-5", "Deployment scaler-manager")
				c.Objects(time.Hour, "sim-5", "scaler", nil)
			}, Kept, "Deployment scaler-manager"},
		"object deleted and created again between two checks": {
			func(c *Checker, _ func(string, int64, string) Push) {
				c.Objects(1, "sim-5", "scaler", map[string]string{"Deployment scaler-manager": "another"})
			}, Kept, "Deployment scaler-manager of module scaler was deleted and created again"},
		"object disappears after the removal of another module": {
			func(c *Checker, push func(string, int64, string) Push) {
				c.Asked(0, "sim-5", "mailer")
				c.RequestWithdrawn(1, "sim-5", "mailer")
				p := push("sim-5", 11, "1.0.0")
				p.Removals = []string{"mailer"}
				c.Pushed(2, p)
				c.Objects(3, "sim-5", "scaler", nil)
			}, Kept, "Deployment scaler-manager"},
		"object disappears while a user deletes another object": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Deleted(1, "sim-5", "ConfigMap scaler-settings")
			c.Objects(2, "sim-5", "scaler", nil)
		}, Kept, "Deployment scaler-manager"},
		"object disappears while a user deletes it in another runtime": {
			func(c *Checker, _ func(string, int64, string) Push) {
				c.Deleted(1, "sim-6", "Deployment scaler-manager")
				c.Objects(2, "sim-5", "scaler", nil)
			}, Kept, "Deployment scaler-manager"},
		"module disappears before a bundle removes it": {func(c *Checker, _ func(string, int64, string) Push) {
			c.RequestWithdrawn(1, "sim-5", "scaler")
			c.Present(2, "sim-5", nil)
		}, Kept, "no signed bundle removed it"},
		"Kyma disappears": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Listed(1, []string{"sim-5", "sim-6"})
			c.Listed(2, []string{"sim-6"})
		}, Kept, "lost Kyma sim-5"},
		"Kyma deleted and created again": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Recorded(1, Record{Runtime: "sim-5", UID: "another"})
		}, Kept, "Kyma sim-5 of the control plane was deleted and created again"},
		"bundle with an older sequence": {func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-5", 9, "1.0.0"))
		}, Sequences, "bundle 9"},
		"two bundles with the same sequence": {func(c *Checker, push func(string, int64, string) Push) {
			p := push("sim-5", 10, "1.0.0")
			p.Digest = "another"
			c.Pushed(1, p)
		}, Sequences, "bundle 10"},
		"older report": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Reported(1, Reported{Runtime: "sim-5", Sequence: 4, Epoch: 1, Observed: 10})
		}, Sequences, "report 4 after report 5"},
		"runtime returns to an older bundle": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Reported(1, Reported{Runtime: "sim-5", Sequence: 6, Epoch: 1, Observed: 9})
		}, Sequences, "follows bundle 9 after bundle 10"},
		"status shows an older published bundle": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Recorded(1, Record{Runtime: "sim-5", UID: "u", Epoch: 1, Published: 9, Observed: 10, Key: "k", Report: 5})
		}, Statuses, "published bundle 9 after bundle 10"},
		"status shows an older report": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Recorded(1, Record{
				Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 10, Key: "k", Report: 4,
			})
		}, Statuses, "report 4 after report 5"},
		"status shows an older observed bundle": {func(c *Checker, _ func(string, int64, string) Push) {
			c.Recorded(1, Record{Runtime: "sim-5", UID: "u", Epoch: 1, Published: 10, Observed: 9, Key: "k", Report: 5})
		}, Statuses, "observed bundle 9"},
		"rollout continues after it was rolled back": {func(c *Checker, _ func(string, int64, string) Push) {
			c.CheckRollout(1, "scaler-regular-1", "RolledBack")
			c.CheckRollout(2, "scaler-regular-1", "Progressing")
		}, Statuses, "Progressing after final state RolledBack"},
		"more runtimes than the budget allows": {func(c *Checker, push func(string, int64, string) Push) {
			for _, id := range []string{"sim-5", "sim-6", "sim-7"} {
				c.Pushed(1, push(id, 11, "1.1.0"))
			}
		}, Budget, "3 runtimes have scaler 1.1.0"},
		"more runtimes than the budget allows, one later got another bundle": {
			func(c *Checker, push func(string, int64, string) Push) {
				c.Pushed(1, push("sim-5", 11, "1.1.0"))
				c.Pushed(1, push("sim-5", 12, "1.1.0"))
				c.Pushed(1, push("sim-6", 11, "1.1.0"))
				c.Pushed(1, push("sim-7", 11, "1.1.0"))
			}, Budget, "3 runtimes have scaler 1.1.0"},
		"sequence decreases after a status shows a bundle from a fast clock": {
			func(c *Checker, push func(string, int64, string) Push) {
				ahead := push("sim-5", 1000, "1.0.0")
				ahead.Ahead = true
				c.Pushed(1, ahead)
				c.Recorded(2, Record{
					Runtime: "sim-5", UID: "u", Epoch: 1, Published: 1000, Observed: 10, Key: "k", Report: 5,
				})
				c.Pushed(3, push("sim-5", 11, "1.0.0"))
			}, Sequences, "bundle 11 of epoch 1 was pushed for sim-5 after bundle 1000"},
		"broken version outside the canaries": {func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-5", 11, "1.2.0"))
		}, Budget, "fails on all canaries"},
	} {
		t.Run(name, func(t *testing.T) {
			c, push := history()
			if already := c.Violations(); len(already) > 0 {
				t.Fatalf("a healthy fleet has violations: %v", already)
			}
			test.happens(c, push)
			if !slices.ContainsFunc(c.Violations(),
				func(v Violation) bool {
					return v.Invariant == test.broken && strings.Contains(v.What,
						test.message)
				}) {
				t.Errorf("want a violation of %q that contains %q, got %v", test.broken, test.message, c.Violations())
			}
		})
	}
}

func TestCheckerAcceptsAllowedHistories(t *testing.T) {
	for name, happens := range map[string]func(c *Checker, push func(string, int64, string) Push){
		"rollout within its budget": func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-5", 11, "1.1.0"))
			c.Pushed(1, push("sim-6", 11, "1.1.0"))
			c.Reported(2, Reported{
				Runtime: "sim-5", Sequence: 6, Epoch: 1, Observed: 11, Answered: map[string]string{"scaler": "1.1.0"},
			})
			c.Pushed(3, push("sim-7", 11, "1.1.0"))
		},
		"runtimes that wait for a window exceed the budget": func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-5", 11, "1.1.0"))
			c.Pushed(1, push("sim-6", 11, "1.1.0"))
			c.Reported(2, Reported{
				Runtime: "sim-5", Sequence: 6, Epoch: 1, Observed: 11, Answered: map[string]string{"scaler": "1.0.0"},
				Waiting: map[string]bool{"scaler": true},
			})
			c.Pushed(3, push("sim-7", 11, "1.1.0"))
		},
		"broken version on a canary, then rolled back": func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-0", 11, "1.2.0"))
			c.Pushed(2, push("sim-0", 12, "1.0.0"))
		},
		"all runtimes at once without a policy": func(c *Checker, push func(string, int64, string) Push) {
			c.PolicyRemoved()
			for _, id := range []string{"sim-5", "sim-6", "sim-7"} {
				c.Pushed(1, push(id, 11, "1.1.0"))
			}
		},
		"sequence decreases after a bundle from a fast clock that no status shows": func(c *Checker,
			push func(string, int64, string) Push) {
			ahead := push("sim-5", 1000, "1.0.0")
			ahead.Ahead = true
			c.Pushed(1, ahead)
			c.Pushed(2, push("sim-5", 11, "1.0.0"))
		},
		"bundle pushed again after the registry lost it": func(c *Checker, push func(string, int64, string) Push) {
			c.Pushed(1, push("sim-5", 10, "1.0.0"))
		},
		"requested removal": func(c *Checker, push func(string, int64, string) Push) {
			c.RequestWithdrawn(1, "sim-5", "scaler")
			p := push("sim-5", 11, "1.0.0")
			p.Versions, p.Removals = nil, []string{"scaler"}
			c.Pushed(2, p)
			c.Present(3, "sim-5", nil)
			c.Objects(3, "sim-5", "scaler", nil)
		},
		"withdrawn removal in a runtime that has not seen a newer bundle": func(c *Checker,
			push func(string, int64, string) Push) {
			c.RequestWithdrawn(1, "sim-5", "scaler")
			p := push("sim-5", 11, "1.0.0")
			p.Versions, p.Removals = nil, []string{"scaler"}
			c.Pushed(2, p)
			c.Asked(3, "sim-5", "scaler")
			c.Pushed(4, push("sim-5", 12, "1.0.0"))
			c.Present(2*requestGrace, "sim-5", nil)
			c.Objects(2*requestGrace, "sim-5", "scaler", nil)
		},
		"bundle omits a module whose bundle was lost, without removing it": func(c *Checker,
			push func(string, int64, string) Push) {
			c.BundlesLost(1)
			p := push("sim-5", 11, "1.0.0")
			p.Versions = nil
			c.Pushed(1, p)
			c.Present(2, "sim-5", map[string]string{"scaler": "1.0.0"})
		},
		"object that a user has just deleted": func(c *Checker, _ func(string, int64, string) Push) {
			c.Deleted(1, "sim-5", "Deployment scaler-manager")
			c.Objects(2, "sim-5", "scaler", nil)
		},
		"object recreated after a user deleted it": func(c *Checker,
			_ func(string, int64, string) Push) {
			c.Deleted(1, "sim-5", "Deployment scaler-manager")
			c.Objects(2, "sim-5", "scaler", map[string]string{"Deployment scaler-manager": "another"})
		},
		"rollout undone after it succeeded": func(c *Checker, _ func(string, int64, string) Push) {
			c.CheckRollout(1, "scaler-regular-1", "Succeeded")
			c.Undone("scaler-regular-1")
			c.CheckRollout(2, "scaler-regular-1", "RollingBack")
			c.CheckRollout(3, "scaler-regular-1", "RolledBack")
		},
		"Kyma deleted by a user and created again": func(c *Checker, _ func(string, int64, string) Push) {
			c.Listed(1, []string{"sim-5"})
			c.RequestWithdrawn(1, "sim-5", "scaler")
			c.Listed(1, nil)
			c.Asked(1, "sim-5", "scaler")
			c.Recorded(1, Record{Runtime: "sim-5", UID: "another"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, push := history()
			happens(c, push)
			if v := c.Violations(); len(v) > 0 {
				t.Errorf("unexpected violation: %v", v)
			}
		})
	}
}

// The control plane refuses a report from the future, so a later report with a lower sequence is valid.
func TestReportFromTheFutureIsIgnored(t *testing.T) {
	c, _ := history()
	c.Reported(1, Reported{Runtime: "sim-5", Sequence: 1000, Epoch: 1, Observed: 10, Ahead: true})
	c.Reported(2, Reported{Runtime: "sim-5", Sequence: 6, Epoch: 1, Observed: 10})
	if got := c.Violations(); len(got) > 0 {
		t.Errorf("got violations %v, want none", got)
	}
	c.Reported(3, Reported{Runtime: "sim-5", Sequence: 5, Epoch: 1, Observed: 10})
	if got := c.Violations(); len(got) != 1 {
		t.Errorf("after an older report, got violations %v, want one", got)
	}
}

// For a short time, two leaders can push bundles in the wrong order. A runtime must not return to an older bundle even
// then.
func TestCheckerAllowsTwoLeadersBriefly(t *testing.T) {
	c, push := history()
	c.TookLease(time.Second)
	c.Pushed(2*time.Second, push("sim-5", 12, "1.0.0"))
	c.Pushed(3*time.Second, push("sim-5", 11, "1.1.0"))
	c.Present(3*time.Second, "sim-5", map[string]string{"scaler": "1.1.0"}) // the runtime has not pulled bundle 12 yet
	c.Recorded(3*time.Second, Record{
		Runtime: "sim-5", UID: "u", Epoch: 1, Published: 12, Observed: 10, Key: "k", Report: 5,
	})
	c.Reported(4*time.Second, Reported{Runtime: "sim-5", Sequence: 6, Epoch: 1, Observed: 12})
	if got := c.Violations(); len(got) > 0 {
		t.Fatalf("got violations %v, want none", got)
	}
	c.Reported(5*time.Second, Reported{Runtime: "sim-5", Sequence: 7, Epoch: 1, Observed: 11})
	c.Recorded(5*time.Second, Record{
		Runtime: "sim-5", UID: "u", Epoch: 1, Published: 11, Observed: 10, Key: "k", Report: 5,
	})
	c.Recorded(6*time.Second, Record{
		Runtime: "sim-5", UID: "u", Epoch: 1, Published: 11, Observed: 9, Key: "k", Report: 4,
	})
	c.Pushed(time.Second+twoLeadersTime+1, push("sim-5", 11, "1.0.0"))
	got := c.Violations()
	want := []string{
		"follows bundle 11 after bundle 12", "published bundle 11 after bundle 12",
		"observed bundle 9 after bundle 10", "report 4 after report 5",
		"bundle 11 of epoch 1 was pushed for sim-5 after bundle 12",
	}
	if !slices.EqualFunc(got, want, func(v Violation, w string) bool { return strings.Contains(v.What, w) }) {
		t.Errorf("got violations %v, want %q", got, want)
	}
}

func TestDeletionChecksAreCounted(t *testing.T) {
	c, _ := history()
	before := c.Checks()[Kept]
	c.Objects(1, "sim-5", "scaler", map[string]string{"Deployment scaler-manager": "d"})
	c.Present(1, "sim-5", map[string]string{"scaler": "1.0.0"})
	c.Listed(1, []string{"sim-5"})
	c.Listed(2, []string{"sim-5"})
	if n := c.Checks()[Kept] - before; n != 5 {
		t.Errorf("got %d checks, want 2 of an object, 2 of a module and 1 of a Kyma", n)
	}
}

func TestUnconvergedRuntimesAreReported(t *testing.T) {
	good := func() End {
		modules := map[string]string{"scaler": "1.1.0"}
		return End{Runtime: "real-0", Wanted: modules, Has: modules, State: "Ready", Published: "sha256:a",
			Observed: "sha256:a", InRegistry: "sha256:a",
			Objects: []string{"Deployment scaler-manager"}, Expected: []string{"Deployment scaler-manager"}}
	}
	if problems := Judge([]End{good()}); len(problems) > 0 {
		t.Errorf("a converged runtime has problems: %v", problems)
	}
	for want, change := range map[string]func(*End){
		"has modules map[scaler:1.0.0]":   func(e *End) { e.Has = map[string]string{"scaler": "1.0.0"} },
		"has Deployment mailer left over": func(e *End) { e.Objects = append(e.Objects, "Deployment mailer") },
		"has no Deployment":               func(e *End) { e.Objects = nil },
		`is "Error"`:                      func(e *End) { e.State = "Error" },
		`is ""`:                           func(e *End) { e.State = "" },
		"its report has content b":        func(e *End) { e.Observed = "sha256:b" },
		"the registry has content b":      func(e *End) { e.InRegistry = "sha256:b" },
		"was published content ,":         func(e *End) { e.Published, e.Observed, e.InRegistry = "", "", "" },
		"its Kyma is Deleting":            func(e *End) { e.Gone, e.State = true, "Deleting" },
	} {
		e := good()
		change(&e)
		if problems := strings.Join(Judge([]End{e}), "\n"); !strings.Contains(problems, want) {
			t.Errorf("got problems %q, want %q", problems, want)
		}
	}
}

func TestProgramsWithMemoryOrGoroutineGrowthAreReported(t *testing.T) {
	before := []Sample{
		{"publisher 0", "publisher", 50 << 20, 100}, {"publisher 1", "publisher", 30 << 20, 20},
		{"agent of real-0", "agent", 40 << 20, 80},
	}
	if problems := Grown(before,
		[]Sample{{"publisher 1", "publisher", 80 << 20, 150}, {"another", "unknown", 1 << 40, 1 << 20}}); len(
		problems) > 0 {
		t.Errorf("unexpected growth: %v", problems)
	}
	if problems := Grown([]Sample{{"publisher 0", "publisher", 0, 371}, {"publisher 1", "publisher", 0, 370}},
		[]Sample{{"publisher 0", "publisher", 0, 738}, {"publisher 1", "publisher", 0, 37}}); len(problems) > 0 {
		t.Errorf("a publisher got the shards of another one: unexpected growth: %v", problems)
	}
	for want, now := range map[string]Sample{
		"publisher 1 uses 400 MiB":            {"publisher 1", "publisher", 400 << 20, 100},
		"agent of real-0 has 5000 goroutines": {"agent of real-0", "agent", 40 << 20, 5000},
	} {
		if problems := strings.Join(Grown(before, []Sample{now}), "\n"); !strings.Contains(problems, want) {
			t.Errorf("got problems %q, want %q", problems, want)
		}
	}
}

func TestChaosLogPrintsTimeAndStep(t *testing.T) {
	var live strings.Builder
	s := NewStory(time.Now().Add(-90*time.Second), &live)
	s.Add("%s", Step{Kind: CutRuntime, Target: "sim-3", For: 5 * time.Second})
	s.Add("two\nlines")
	if want := "01:30.0  cut a runtime off (sim-3) for 5s\n01:30.0  two\n         lines\n"; s.String() != want ||
		live.String() != want {
		t.Errorf("the story is\n%s\nand was printed as\n%s", s, live.String())
	}
}
