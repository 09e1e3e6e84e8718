package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// promised returns a checker that has observed three runtimes with scaler 1.0.0 and the start of a rollout to 1.1.0.
// The canaries have not reported 1.1.0 yet.
func promised() (*Checker, func(id string, sequence int64, version string) Push) {
	c, push := history()
	c.proven = map[string]bool{}
	c.Rollouts(0, []ObservedRollout{{Rollout: "scaler-regular-1", To: "1.1.0", State: "Progressing"}})
	return c, push
}

// canaryReady passes the checker a canary's report that lists the version as Ready, as after the first wave.
func canaryReady(c *Checker, version string) {
	canary := c.runtimes["sim-0"]
	if !canary.signed["scaler"][version] {
		c.Pushed(1, Push{
			Runtime: "sim-0", Digest: "sim-0 11", Epoch: 1, Sequence: 11, Versions: map[string]string{"scaler": version},
		})
	}
	c.Reported(1, Reported{
		Runtime: "sim-0", Sequence: 6, Epoch: 1, Observed: canary.pushed.Sequence,
		Ready: map[string]string{"scaler": version},
	})
}

// passRolloutState passes the state of the rollout to 1.1.0 to the checker.
func passRolloutState(c *Checker, at time.Duration, state string, granted ...string) {
	c.Rollouts(at, []ObservedRollout{{Rollout: "scaler-regular-1", To: "1.1.0", State: state, Granted: granted}})
}

// passSucceededTwice passes the state Succeeded to the checker twice. After that, the checker requires a reason for
// every return to an older version.
func passSucceededTwice(c *Checker, at time.Duration) {
	passRolloutState(c, at, "Succeeded")
	passRolloutState(c, at+maxUnexplainedTime, "Succeeded")
}

// reportWith returns a report from sim-5 about the bundle with sequence number observed.
func reportWith(sequence, observed int64, change func(*Reported)) Reported {
	r := Reported{Runtime: "sim-5", Sequence: sequence, Epoch: 1, Observed: observed}
	change(&r)
	return r
}

func withKey(key string, p Push) Push {
	p.Key = key
	return p
}

func issued(at time.Duration, p Push) Push {
	p.Issued = at
	return p
}

// returnsAfter passes the checker a bundle with version 1.1.0, and calls lose. Then it passes a bundle that returns to
// version 1.0.0 and lists the given rollbacks.
func returnsAfter(
	c *Checker, push func(string, int64, string) Push, lose func(), rollbacks ...bundle.Rollback,
) {
	canaryReady(c, "1.1.0")
	c.Pushed(2, issued(2, push("sim-5", 11, "1.1.0")))
	lose()
	p := issued(5, push("sim-5", 12, "1.0.0"))
	p.Rollback = rollbacks
	c.Pushed(5, p)
	passSucceededTwice(c, 6)
}

// happens passes a history to a checker.
type happens = func(c *Checker, push func(string, int64, string) Push)

// guarantee is a promise to operators. The history broken violates the promise. The similar history kept does not
// violate it.
type guarantee struct {
	broken, kept happens
	invariant    Invariant
	message      string
}

func TestCheckerDetectsBrokenGuarantees(t *testing.T) {
	for _, all := range []map[string]guarantee{
		guarantees, installedGuarantees, statusGuarantees, progressGuarantees, withheldGuarantees,
	} {
		for name, test := range all {
			t.Run(name, func(t *testing.T) {
				c, push := promised()
				test.kept(c, push)
				if v := c.Violations(); len(v) > 0 {
					t.Errorf("the history that keeps the promise has violations: %v", v)
				}
				c, push = promised()
				test.broken(c, push)
				if !slices.ContainsFunc(c.Violations(), func(v Violation) bool {
					return v.Invariant == test.invariant && strings.Contains(v.What, test.message)
				}) {
					t.Errorf("got violations %v, want %q with %q", c.Violations(), test.invariant, test.message)
				}
			})
		}
	}
}

func TestRolloutsThatDoNotEndAreReported(t *testing.T) {
	got := Unfinished([]ObservedRollout{
		{Rollout: "scaler-regular-1", To: "1.1.0", State: "Superseded"},
		{Rollout: "scaler-regular-2", To: "1.2.0", State: "RollingBack"},
		{Rollout: "scaler-regular-3", To: "1.3.0", State: "RolledBack"},
	})
	if want := []string{"scaler-regular-2 to 1.2.0 is RollingBack"}; !slices.Equal(got, want) {
		t.Errorf("got unfinished rollouts %q, want %q", got, want)
	}
}

func TestRuntimeWithBundleOfRevokedKeyIsReported(t *testing.T) {
	modules := map[string]string{"scaler": "1.1.0"}
	e := End{
		Runtime: "real-0", Wanted: modules, Has: modules, State: "Ready", Published: "sha256:a", Observed: "sha256:a",
		InRegistry: "sha256:a", RevokedKey: "old",
	}
	if got := strings.Join(Judge([]End{e}), "\n"); !strings.Contains(got, "whose key old is revoked") {
		t.Errorf("got problems %q, want the revoked key", got)
	}
}
