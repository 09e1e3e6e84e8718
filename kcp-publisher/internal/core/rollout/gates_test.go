package rollout

import "testing"

func TestGatesWithEqualDecisionsAreEqual(t *testing.T) {
	gate := func(change func(*Gate)) Gates {
		g := &Gate{
			rollout: "keda-regular-1", from: "1.0.0", to: "2.0.0", held: "held",
			decisions: []Decision{{Version: "1.0.0"}}, decided: map[string]int32{"one": 0}, awaited: []string{"one"},
		}
		change(g)
		return Gates{keda: g}
	}
	same := gate(func(*Gate) {})
	for what, c := range map[string]struct {
		change func(*Gate)
		want   bool
	}{
		"nothing differs":        {func(*Gate) {}, true},
		"another rollout":        {func(g *Gate) { g.rollout = "keda-regular-2" }, false},
		"another decision":       {func(g *Gate) { g.decisions[0].Version = "2.0.0" }, false},
		"a runtime came":         {func(g *Gate) { g.decided["two"] = 0 }, false},
		"everybody may have it":  {func(g *Gate) { g.open = true }, false},
		"a runtime is waited on": {func(g *Gate) { g.awaited = nil }, false},
	} {
		if got := same.Same(gate(c.change)); got != c.want {
			t.Errorf("%s: the same %v", what, got)
		}
	}
	if same.Same(nil) || !Gates(nil).Same(Gates{}) {
		t.Error("a gate that is gone is another decision")
	}
}

func TestTextOfAHoldDoesNotChangeTheDecision(t *testing.T) {
	gate := func(d Decision) *Gate { return &Gate{decisions: []Decision{d}, decided: map[string]int32{"one": 0}} }
	held := Decision{Version: "1.0.0", Held: "wave one"}
	for what, c := range map[string]struct {
		before, after Decision
		want          bool
	}{
		"another wave":     {held, Decision{Version: "1.0.0", Held: "wave two"}, true},
		"it is not held":   {held, Decision{Version: "1.0.0"}, false},
		"another version":  {held, Decision{Version: "2.0.0", Held: "wave one"}, false},
		"it is taken back": {held, Decision{Version: "1.0.0", Held: "wave one", Undo: "2.0.0"}, false},
		"taken back, otherwise": {
			Decision{Version: "1.0.0", Held: "a", Undo: "2.0.0"}, Decision{Version: "1.0.0", Held: "b", Undo: "2.0.0"},
			false,
		},
	} {
		if got := gate(c.before).Equal(gate(c.after), "one", "1.0.0"); got != c.want {
			t.Errorf("%s: equal %v", what, got)
		}
	}
}

func TestRuntimesGivenTheVersionKeepIt(t *testing.T) {
	held, undone := Decision{Version: "1.0.0", Held: "wave one"}, Decision{
		Version: "1.0.0", Undo: "2.0.0", Held: "taken back",
	}
	gate := &Gate{
		from: "1.0.0", to: "2.0.0", held: "held", decisions: []Decision{held, undone},
		decided: map[string]int32{"held": 0, "undone": 1},
	}
	for what, c := range map[string]struct {
		runtime, own string
		want         Decision
	}{
		"it has the last good version":      {"held", "1.0.0", held},
		"it has nothing":                    {"held", "", held},
		"it was given an older one since":   {"held", "1.5.0", Decision{Version: "1.5.0", Held: "wave one"}},
		"it was given the version since":    {"held", "2.0.0", Decision{Version: "2.0.0"}},
		"it came with the version":          {"new", "2.0.0", Decision{Version: "2.0.0"}},
		"it came with the last good one":    {"new", "1.0.0", Decision{Version: "1.0.0", Held: "held"}},
		"the version is taken back from it": {"undone", "2.0.0", undone},
	} {
		if got := gate.Decide(c.runtime, c.own); got != c.want {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
		if open := (&Gate{to: "2.0.0", open: true}); gate.Equal(open, c.runtime,
			c.own) != (c.want == Decision{Version: "2.0.0"}) {
			t.Errorf("%s: it is taken for what an open gate decides, or not", what)
		}
		shown := c.want.Version
		if c.runtime == "new" {
			shown = "1.0.0" // it is not known to follow the channel
		}
		if got := gate.Shown(c.runtime, c.own, "2.0.0"); got != shown {
			t.Errorf("%s: its catalog shows %s, want %s", what, got, shown)
		}
	}
}
