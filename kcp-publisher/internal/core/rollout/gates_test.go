package rollout

import "testing"

func TestGatesWithEqualDecisionsAreEqual(t *testing.T) {
	gate := func(change func(*Gate)) Gates {
		g := &Gate{
			rollout: "keda-regular-1", from: "1.0.0", to: "2.0.0", heldReason: "held",
			decisions: []Decision{{Version: "1.0.0"}}, decisionIndex: map[string]int32{"one": 0},
			awaitedRuntimes: []string{"one"},
		}
		change(g)
		return Gates{keda: g}
	}
	same := gate(func(*Gate) {})
	for what, c := range map[string]struct {
		change func(*Gate)
		want   bool
	}{
		"equal gate":                                {func(*Gate) {}, true},
		"gate of another rollout":                   {func(g *Gate) { g.rollout = "keda-regular-2" }, false},
		"gate with another decision":                {func(g *Gate) { g.decisions[0].Version = "2.0.0" }, false},
		"gate with an additional runtime":           {func(g *Gate) { g.decisionIndex["two"] = 0 }, false},
		"open gate":                                 {func(g *Gate) { g.isOpen = true }, false},
		"gate that no longer waits for the runtime": {func(g *Gate) { g.awaitedRuntimes = nil }, false},
	} {
		if got := same.HasSameDecisions(gate(c.change)); got != c.want {
			t.Errorf("%s: got equal %t, want %t", what, got, c.want)
		}
	}
	if same.HasSameDecisions(nil) || !Gates(nil).HasSameDecisions(Gates{}) {
		t.Error("a track without a gate must equal only a track without a gate")
	}
}

func TestReasonTextDoesNotChangeTheRolloutDecision(t *testing.T) {
	gate := func(d Decision) *Gate {
		return &Gate{decisions: []Decision{d}, decisionIndex: map[string]int32{"one": 0}}
	}
	held := Decision{Version: "1.0.0", HeldReason: "wave one"}
	for what, c := range map[string]struct {
		before, after Decision
		want          bool
	}{
		"runtime in another wave":           {held, Decision{Version: "1.0.0", HeldReason: "wave two"}, true},
		"decision without a reason":         {held, Decision{Version: "1.0.0"}, false},
		"decision with a different version": {held, Decision{Version: "2.0.0", HeldReason: "wave one"}, false},
		"decision with a rollback": {held, Decision{Version: "1.0.0", HeldReason: "wave one", ReplacedVersion: "2.0.0"},
			false},
		"rollback with another reason": {
			Decision{Version: "1.0.0", HeldReason: "a", ReplacedVersion: "2.0.0"},
			Decision{Version: "1.0.0", HeldReason: "b", ReplacedVersion: "2.0.0"},
			false,
		},
	} {
		if got := gate(c.before).Equal(gate(c.after), "one", "1.0.0"); got != c.want {
			t.Errorf("%s: got equal %t, want %t", what, got, c.want)
		}
	}
}

func TestRuntimesKeepNewerVersionsUnlessRolledBack(t *testing.T) {
	held, undone := Decision{Version: "1.0.0", HeldReason: "wave one"}, Decision{
		Version: "1.0.0", ReplacedVersion: "2.0.0", HeldReason: "taken back",
	}
	gate := &Gate{
		from: "1.0.0", to: "2.0.0", heldReason: "held", decisions: []Decision{held, undone},
		decisionIndex: map[string]int32{"held": 0, "undone": 1},
	}
	for what, c := range map[string]struct {
		runtime, own string
		want         Decision
	}{
		"held runtime with the last good version":      {"held", "1.0.0", held},
		"held runtime without the module":              {"held", "", held},
		"held runtime with a version in between":       {"held", "1.5.0", Decision{Version: "1.5.0", HeldReason: "wave one"}},
		"held runtime with the promoted version":       {"held", "2.0.0", Decision{Version: "2.0.0"}},
		"undecided runtime with the promoted version":  {"new", "2.0.0", Decision{Version: "2.0.0"}},
		"undecided runtime with the last good version": {"new", "1.0.0", Decision{Version: "1.0.0", HeldReason: "held"}},
		"runtime that is rolled back":                  {"undone", "2.0.0", undone},
	} {
		if got := gate.Decide(c.runtime, c.own); got != c.want {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
		if open := (&Gate{to: "2.0.0", isOpen: true}); gate.Equal(open, c.runtime,
			c.own) != (c.want == Decision{Version: "2.0.0"}) {
			t.Errorf("%s: want the gate to equal an open gate only for version 2.0.0", what)
		}
		shown := c.want.Version
		if c.runtime == "new" {
			shown = "1.0.0" // the plan does not contain the runtime
		}
		if got := gate.CatalogVersion(c.runtime, c.own, "2.0.0"); got != shown {
			t.Errorf("%s: got shown version %s, want %s", what, got, shown)
		}
	}
}
