package upgrade

import (
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// bundled returns the image of a bundle that names no rollback.
func bundled(image string) Wanted {
	return Wanted{Image: image, GoesBack: func(_, _ string) bool { return false }}
}

func TestUnprovenImageIsAbandoned(t *testing.T) {
	for name, c := range map[string]struct {
		known          Known
		start, overdue bool          // else a round
		again          time.Duration // the agent starts itself again after this time
		wanted         string
		well           time.Duration
		want           Step
	}{
		"the first image ever proves itself": {
			known: Known{Set: "a", Running: "a"}, well: Trial, want: Step{Set: "a", Proven: "a"},
		},
		"not before its trial is over": {
			known: Known{Set: "a", Running: "a"}, wanted: "b", well: Trial - 1, want: Step{Set: "a"},
		},
		"a proven one is replaced by the image of the bundle": {
			known: Known{Set: "a", Running: "a", Proven: "a"}, wanted: "b",
			want: Step{Set: "b", Proven: "a", Former: "a"},
		},
		"a bundle that wants nothing changes nothing": {
			known: Known{Set: "a", Running: "a", Proven: "a"}, well: Trial, want: Step{Set: "a", Proven: "a"},
		},
		"the old one waits for the new one's pods": {
			known: Known{Set: "b", Running: "a", Proven: "a"}, wanted: "b", well: Trial,
			want: Step{Set: "b", Proven: "a"},
		},
		"the old one gives up a new one that does not get ready": {
			known: Known{Set: "b", Running: "a", Proven: "a", Stuck: true}, wanted: "b", well: Trial,
			want: Step{Set: "a", Proven: "a", Failed: "b"},
		},
		"a rolled back image is not retried": {
			known: Known{Set: "a", Running: "a", Proven: "a", Failed: "b"}, wanted: "b", well: Trial,
			want: Step{Set: "a", Proven: "a", Failed: "b"},
		},
		"after an upgrade of the chart its image works first": {
			known: Known{Set: "chart", Running: "chart", Proven: "b"}, wanted: "b", well: Trial - 1,
			want: Step{Set: "chart", Proven: "b"},
		},
		"and makes way for the bundle's when it has proven itself": {
			known: Known{Set: "chart", Running: "chart", Proven: "b"}, wanted: "b", well: Trial, want: Step{
				Set: "b", Proven: "chart", Former: "chart",
			},
		},
		"one of the chart that does not work makes way too": {
			known: Known{Set: "chart", Running: "chart", Proven: "b"}, wanted: "b", overdue: true,
			want: Step{Set: "b", Proven: "b", Failed: "chart"},
		},
		"the next one is": {
			known: Known{Set: "a", Running: "a", Proven: "a", Failed: "b"}, wanted: "c", well: Trial,
			want: Step{Set: "c", Proven: "a", Former: "a"},
		},
		"a new one proves itself": {
			known: Known{Set: "b", Running: "b", Proven: "a", Starts: 2}, wanted: "b", well: Trial,
			want: Step{Set: "b", Proven: "b"},
		},
		"starts of a new one count": {
			known: Known{Set: "b", Running: "b", Proven: "a", Starts: 1}, start: true,
			want: Step{Set: "b", Proven: "a", Starts: 2},
		},
		"one that starts again and again gives itself up": {
			known: Known{Set: "b", Running: "b", Proven: "a", Starts: MaxStarts}, start: true,
			want: Step{Set: "a", Proven: "a", Failed: "b"},
		},
		"a start of its own after a minute does not count": {
			known: Known{Set: "b", Running: "b", Proven: "a", Starts: 2}, again: Trial,
			want: Step{Set: "b", Proven: "a", Starts: 1},
		},
		"a start of its own within a minute counts": {
			known: Known{Set: "b", Running: "b", Proven: "a", Starts: 2}, again: Trial - time.Second,
			want: Step{Set: "b", Proven: "a", Starts: 2},
		},
		"a start of its own does not change a proven image": {
			known: Known{Set: "a", Running: "a", Proven: "a"}, again: Trial, want: Step{Set: "a", Proven: "a"},
		},
		"starts of a proven one do not count": {
			known: Known{Set: "a", Running: "a", Proven: "a"}, start: true, want: Step{Set: "a", Proven: "a"},
		},
		"one that leads too long without doing its work gives itself up": {
			known: Known{Set: "b", Running: "b", Proven: "a", Starts: 1}, overdue: true,
			want: Step{Set: "a", Proven: "a", Failed: "b"},
		},
		"not one that has proven itself in the meantime": {
			known: Known{Set: "b", Running: "b", Proven: "b"}, overdue: true, want: Step{Set: "b", Proven: "b"},
		},
		"not the first, which has nothing to go back to": {
			known: Known{Set: "a", Running: "a"}, overdue: true, want: Step{Set: "a"},
		},
		"nor the old one, while another is on its way": {
			known: Known{Set: "b", Running: "a", Proven: "a"}, overdue: true, want: Step{Set: "b", Proven: "a"},
		},
		"an image without a proven predecessor stays": {
			known: Known{Set: "a", Running: "a"}, start: true, want: Step{Set: "a"},
		},
		"a restart of the old one does not count for the new one": {
			known: Known{Set: "b", Running: "a", Proven: "a", Starts: 1}, start: true,
			want: Step{Set: "b", Proven: "a", Starts: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Round(c.known, bundled(c.wanted), c.well)
			switch {
			case c.start:
				got = Start(c.known)
			case c.again > 0:
				got = Again(c.known, c.again)
			case c.overdue:
				got = Overdue(c.known)
			}
			if got.Message = ""; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// Images that crash, never become ready, or run without working are wanted in any order. A proven image always leads in
// the end.
func TestWorkingAgentSurvivesUpgrades(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(1, seed))
	type image struct{ crashes, unready, idle bool }
	for range 2000 {
		images := map[string]image{"first": {}}
		d := Known{Set: "first", Proven: "first"}
		write := func(s Step) { d.Set, d.Proven, d.Failed, d.Starts = s.Set, s.Proven, s.Failed, s.Starts }
		leading := "first"
		for range 6 {
			wanted := string(uuid.NewUUID())
			images[wanted] = image{random.IntN(3) == 0, random.IntN(3) == 0, random.IntN(3) == 0}
			for range 4 * MaxStarts {
				if next := images[d.Set]; d.Set != leading && !next.unready {
					leading = d.Set // its pod got ready, the old one ends
				}
				known := d
				known.Running, known.Stuck = leading, d.Set != leading
				switch leads := images[leading]; {
				case leads.crashes:
					write(Start(known))
				case leads.idle:
					write(Overdue(known))
				default:
					write(Round(known, bundled(wanted), Trial))
				}
			}
			if images[leading].crashes || images[leading].idle || leading != d.Set {
				t.Fatalf("%s leads while %s is set: %+v of %v", leading, d.Set, d, images)
			}
			if fine := images[wanted]; !fine.crashes && !fine.unready && !fine.idle && leading != wanted {
				t.Fatalf("%s was wanted and works, %s leads: %+v", wanted, leading, d)
			}
			known := d
			if (known.Problem(bundled(wanted)) != "") != (leading != wanted) {
				t.Fatalf("%s leads, %s was wanted, problem %q", leading, wanted, known.Problem(bundled(wanted)))
			}
		}
	}
}
