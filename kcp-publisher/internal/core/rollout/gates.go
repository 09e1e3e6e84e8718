package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Track is a module in a channel: what a policy covers and a promotion moves.
type Track struct{ Module, Channel string }

// MarshalText makes tracks keys of JSON objects. A channel's name has no slash.
func (t Track) MarshalText() ([]byte, error) { return []byte(t.Module + "/" + t.Channel), nil }

// Gates are all decisions at one moment. They are not changed once they are in use.
type Gates map[Track]*Gate

// Gate decides for the runtimes that follow one track.
type Gate struct {
	// rollout is the name of the newest, empty before the first.
	rollout  string
	from, to string
	open     bool
	held     string
	// decisions are the few that there are, and decided says which of them a runtime has; one without came after they were
	// made.
	decisions []Decision
	decided   map[string]int32
	// awaited are the runtimes that are to be given a version, or to say how it went.
	awaited []string
}

// NewGate is the gate of a track whose newest rollout came to this step.
func NewGate(newest *fleet.Rollout, step Step, runtimes []Runtime) *Gate {
	g := &Gate{rollout: newest.Name, from: newest.Spec.From, to: newest.Spec.To}
	if step.Status.State == fleet.RolloutSucceeded {
		g.open = true
		return g
	}
	g.held = (&plan{name: newest.Name, spec: newest.Spec, status: step.Status}).held(-1)
	g.decided = make(map[string]int32, len(step.Decisions))
	last := 0
	for i, d := range step.Decisions {
		if last >= len(g.decisions) || g.decisions[last] != d {
			if last = slices.Index(g.decisions, d); last < 0 {
				last, g.decisions = len(g.decisions), append(g.decisions, d)
			}
		}
		g.decided[runtimes[i].ID] = int32(last)
	}
	for i, is := range step.Awaited {
		if is {
			g.awaited = append(g.awaited, runtimes[i].ID)
		}
	}
	return g
}

// decision returns what was decided for a runtime, if anything was.
func (g *Gate) decision(runtime string) (Decision, bool) {
	at, known := g.decided[runtime]
	if !known {
		return Decision{}, false
	}
	return g.decisions[at], true
}

// Decide returns which version a runtime that has its own may have. Whom the plan did not know yet is held. Who was
// given the promoted version since the plan was made keeps it, and so does who was given one between it and the last
// good one: a plan takes it from nobody who has it, except by saying so.
func (g *Gate) Decide(runtime, own string) Decision {
	d, known := g.decision(runtime)
	switch {
	case g.open, d.Undo == "" && own != "" && own == g.to:
		return Decision{Version: g.to}
	case known:
		if d.Undo == "" && d.Held != "" {
			d.Version = Keep(d.Version, own)
		}
		return d
	}
	return Decision{Version: Keep(g.from, own), Held: g.held}
}

// Shown returns the version that the catalog of a runtime with its own version shows for the track's channel, of which
// the control plane's catalog has the one that is offered: what the runtime may have. Who does not follow the track is
// shown the last good version until every wave is proven, because that is what it would get.
func (g *Gate) Shown(runtime, own, offered string) string {
	if g == nil || g.open {
		return offered
	}
	if _, known := g.decision(runtime); known {
		return cmp.Or(g.Decide(runtime, own).Version, offered)
	}
	return cmp.Or(g.from, offered)
}

// alike reports whether two gates decide alike for every runtime, as far as that is known without asking for each.
func (g *Gate) alike(other *Gate) bool {
	if g == nil || other == nil || g == other {
		return g == other
	}
	return g.open && other.open && g.to == other.to
}

// Same reports whether gates decide the same for every runtime, of the same rollouts, and wait for the same runtimes.
func (g Gates) Same(others Gates) bool {
	return maps.EqualFunc(g, others, func(a, b *Gate) bool {
		return a.rollout == b.rollout && a.from == b.from && a.to == b.to && a.open == b.open && a.held == b.held &&
			slices.Equal(a.decisions, b.decisions) && maps.Equal(a.decided, b.decided) && slices.Equal(a.awaited, b.awaited)
	})
}

// Moved returns the tracks whose gates may decide otherwise than others for some runtime.
func (g Gates) Moved(others Gates) map[Track]bool {
	moved := map[Track]bool{}
	for _, gates := range []Gates{g, others} {
		for track := range gates {
			if !g[track].alike(others[track]) {
				moved[track] = true
			}
		}
	}
	return moved
}

// Equal reports whether two gates decide alike for a runtime with its own version.
func (g *Gate) Equal(other *Gate, runtime, own string) bool {
	if g == nil || other == nil {
		return g == other
	}
	a, b := g.Decide(runtime, own), other.Decide(runtime, own)
	if a.Undo == "" && b.Undo == "" && a.Held != "" && b.Held != "" {
		a.Held, b.Held = "", "" // why a version is held is told with an undo only
	}
	return a == b
}

// Awaited returns the runtimes that rollouts wait for.
func (g Gates) Awaited() map[string]bool {
	all := map[string]bool{}
	for _, gate := range g {
		for _, runtime := range gate.awaited {
			all[runtime] = true
		}
	}
	return all
}

// Given says which rollouts gave the modules of a bundle their versions. before is what was known of the bundle before
// it, nil for the first, issued when the bundle was. Comparing with what was written down, and not with what was done,
// is what makes a publisher that died between the two come to the same answer.
func (g Gates) Given(runtime string, manifests []bundle.Manifest, before *v1beta2.PublishedBundle, issued time.Time) map[string]v1beta2.GivenVersion {
	given := map[string]v1beta2.GivenVersion{}
	for _, m := range manifests {
		if before != nil && before.Versions[m.Module] == m.Version {
			if known, ok := before.Given[m.Module]; ok {
				given[m.Module] = known
			}
			continue
		}
		gate := g[Track{m.Module, m.Channel}]
		if gate == nil || gate.rollout == "" {
			continue
		}
		decided, _ := gate.decision(runtime)
		if m.Version == gate.to || m.Version == gate.from && decided.Undo != "" {
			given[m.Module] = v1beta2.GivenVersion{Rollout: gate.rollout, Time: metav1.NewTime(issued.Truncate(time.Second))}
		}
	}
	if len(given) == 0 {
		return nil
	}
	return given
}
