package upgrade

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// bundled returns the image of a bundle that allows no rollback.
func bundled(image string) Wanted {
	return Wanted{Image: image, GoesBack: func(_, _ string) bool { return false }}
}

func TestImageMustProveItselfOrIsRolledBack(t *testing.T) {
	for name, c := range map[string]struct {
		known          Known
		start, overdue bool          // selects Start or Overdue instead of Round
		unreachable    bool          // the registry failed
		again          time.Duration // selects Again; the time since the agent's start
		wanted         string
		well           time.Duration
		want           State
	}{
		"first image proves itself after the trial": {
			known: Known{State: State{Set: "a"}, Running: "a"}, well: Trial,
			want: State{Set: "a", Proven: "a"},
		},
		"first image is not proven before the end of the trial": {
			known: Known{State: State{Set: "a"}, Running: "a"}, wanted: "b", well: Trial - 1,
			want: State{Set: "a"},
		},
		"bundle's image replaces a proven image": {
			known: Known{State: State{Set: "a", Proven: "a"}, Running: "a"}, wanted: "b",
			want: State{Set: "b", Proven: "a", Former: "a", Requested: "b"},
		},
		"bundle without an image changes nothing": {
			known: Known{State: State{Set: "a", Proven: "a"}, Running: "a"}, well: Trial,
			want: State{Set: "a", Proven: "a"},
		},
		"old agent waits for the Pods of the new image": {
			known: Known{State: State{Set: "b", Proven: "a"}, Running: "a"}, wanted: "b", well: Trial,
			want: State{Set: "b", Proven: "a"},
		},
		"old agent rolls back if the new Pods do not become ready": {
			known: Known{State: State{Set: "b", Proven: "a"}, Running: "a", Stuck: true}, wanted: "b", well: Trial,
			want: State{Set: "a", Proven: "a", Failed: "b"},
		},
		"rolled back image is not retried": {
			known: Known{State: State{Set: "a", Proven: "a", Failed: "b"}, Running: "a"}, wanted: "b", well: Trial,
			want: State{Set: "a", Proven: "a", Failed: "b"},
		},
		"image of an upgraded chart stays until the end of the trial": {
			known: Known{State: State{Set: "chart", Proven: "b"}, Running: "chart"}, wanted: "b", well: Trial - 1,
			want: State{Set: "chart", Proven: "b"},
		},
		"bundle's image replaces the chart's image after the trial": {
			known: Known{State: State{Set: "chart", Proven: "b"}, Running: "chart"}, wanted: "b", well: Trial,
			want: State{Set: "b", Proven: "chart", Former: "chart", Requested: "b"},
		},
		"chart's image is rolled back at the deadline": {
			known: Known{State: State{Set: "chart", Proven: "b"}, Running: "chart"}, wanted: "b", overdue: true,
			want: State{Set: "b", Proven: "b", Failed: "chart"},
		},
		"rollback of the chart's image stays recorded": {
			known: Known{State: State{Set: "b", Proven: "b", Failed: "chart"}, Running: "b"}, well: Trial,
			want: State{Set: "b", Proven: "b", Failed: "chart"},
		},
		"another proven image ends the record of a rollback": {
			known: Known{State: State{Set: "c", Proven: "b", Failed: "chart"}, Running: "c"}, well: Trial,
			want: State{Set: "c", Proven: "c"},
		},
		"failed image of the bundle stays recorded when the chart's image proves itself": {
			known:  Known{State: State{Set: "chart", Proven: "a", Failed: "b"}, Running: "chart"},
			wanted: "b", well: Trial,
			want: State{Set: "chart", Proven: "chart", Failed: "b"},
		},
		"bundle's running image ends the record of a rollback": {
			known: Known{State: State{Set: "a", Proven: "a", Failed: "b"}, Running: "a"}, wanted: "a",
			want: State{Set: "a", Proven: "a"},
		},
		"next image is tried after a rollback": {
			known: Known{State: State{Set: "a", Proven: "a", Failed: "b"}, Running: "a"}, wanted: "c", well: Trial,
			want: State{Set: "c", Proven: "a", Former: "a", Requested: "c"},
		},
		"new image proves itself after the trial": {
			known: Known{State: State{Set: "b", Proven: "a", Starts: 2}, Running: "b"}, wanted: "b", well: Trial,
			want: State{Set: "b", Proven: "b"},
		},
		"start of a new image is counted": {
			known: Known{State: State{Set: "b", Proven: "a", Starts: 1}, Running: "b"}, start: true,
			want: State{Set: "b", Proven: "a", Starts: 2},
		},
		"new image rolls itself back after too many starts": {
			known: Known{State: State{Set: "b", Proven: "a", Starts: MaxStarts}, Running: "b"}, start: true,
			want: State{Set: "a", Proven: "a", Failed: "b"},
		},
		"intended restart after the trial time is not counted": {
			known: Known{State: State{Set: "b", Proven: "a", Starts: 2}, Running: "b"}, again: Trial,
			want: State{Set: "b", Proven: "a", Starts: 1},
		},
		"intended restart within the trial time is counted": {
			known: Known{State: State{Set: "b", Proven: "a", Starts: 2}, Running: "b"}, again: Trial - time.Second,
			want: State{Set: "b", Proven: "a", Starts: 2},
		},
		"intended restart of a proven image changes nothing": {
			known: Known{State: State{Set: "a", Proven: "a"}, Running: "a"}, again: Trial,
			want: State{Set: "a", Proven: "a"},
		},
		"start of a proven image is not counted": {
			known: Known{State: State{Set: "a", Proven: "a"}, Running: "a"}, start: true,
			want: State{Set: "a", Proven: "a"},
		},
		"new image rolls itself back at the deadline": {
			known: Known{State: State{Set: "b", Proven: "a", Starts: 1}, Running: "b"}, overdue: true,
			want: State{Set: "a", Proven: "a", Failed: "b"},
		},
		"new image is undecided if the registry did not work": {
			known: Known{State: State{Set: "b", Proven: "a"}, Running: "b"}, overdue: true, unreachable: true,
			want: State{Set: "a", Proven: "a", Undecided: "b", Trials: 1},
		},
		"undecided image is tried again when the registry works": {
			known:  Known{State: State{Set: "a", Proven: "a", Undecided: "b", Trials: 1}, Running: "a"},
			wanted: "b", well: Trial,
			want: State{Set: "b", Proven: "a", Undecided: "b", Trials: 1, Former: "a", Requested: "b"},
		},
		"undecided image is not tried again until the registry works": {
			known:  Known{State: State{Set: "a", Proven: "a", Undecided: "b", Trials: 1}, Running: "a"},
			wanted: "b", well: Trial - 1,
			want: State{Set: "a", Proven: "a", Undecided: "b", Trials: 1},
		},
		"undecided image of the chart is tried again": {
			known: Known{State: State{Set: "a", Proven: "a", Undecided: "chart", Trials: 2}, Running: "a"}, well: Trial,
			want: State{Set: "chart", Proven: "a", Undecided: "chart", Trials: 2, Former: "a"},
		},
		"undecided image that the bundle no longer requests is not tried again": {
			known: Known{
				State: State{Set: "a", Proven: "a", Undecided: "b", Trials: 1, Requested: "b"}, Running: "a",
			}, well: Trial,
			want: State{Set: "a", Proven: "a"},
		},
		"undecided image of the chart is tried again after a request of a bundle for another image": {
			known: Known{
				State: State{Set: "a", Proven: "a", Undecided: "chart", Trials: 1, Requested: "a"}, Running: "a",
			}, well: Trial,
			want: State{Set: "chart", Proven: "a", Undecided: "chart", Trials: 1, Requested: "a", Former: "a"},
		},
		"another image replaces an undecided image": {
			known: Known{State: State{Set: "a", Proven: "a", Undecided: "b", Trials: 2}, Running: "a"}, wanted: "c",
			want: State{Set: "c", Proven: "a", Former: "a", Requested: "c"},
		},
		"undecided image proves itself": {
			known:  Known{State: State{Set: "b", Proven: "a", Undecided: "b", Trials: 2}, Running: "b"},
			wanted: "b", well: Trial,
			want: State{Set: "b", Proven: "b"},
		},
		"last trial of an undecided image decides": {
			known:       Known{State: State{Set: "b", Proven: "a", Undecided: "b", Trials: maxTrials - 1}, Running: "b"},
			overdue:     true,
			unreachable: true, want: State{Set: "a", Proven: "a", Failed: "b"},
		},
		"proven image stays at the deadline": {
			known: Known{State: State{Set: "b", Proven: "b"}, Running: "b"}, overdue: true,
			want: State{Set: "b", Proven: "b"},
		},
		"first image stays at the deadline without a predecessor": {
			known: Known{State: State{Set: "a"}, Running: "a"}, overdue: true, want: State{Set: "a"},
		},
		"deadline of the old agent does not roll back the new image": {
			known: Known{State: State{Set: "b", Proven: "a"}, Running: "a"}, overdue: true,
			want: State{Set: "b", Proven: "a"},
		},
		"start of the first image is not counted": {
			known: Known{State: State{Set: "a"}, Running: "a"}, start: true, want: State{Set: "a"},
		},
		"start of the old image is not counted for the new image": {
			known: Known{State: State{Set: "b", Proven: "a", Starts: 1}, Running: "a"}, start: true,
			want: State{Set: "b", Proven: "a", Starts: 1},
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
				got = Overdue(c.known, c.unreachable)
			}
			if got.State != c.want {
				t.Errorf("got %+v, want %+v", got.State, c.want)
			}
		})
	}
}

// Bundles request random images. Some crash, never become ready, or fail. A working image must lead at the end of
// each upgrade.
func TestWorkingAgentSurvivesUpgrades(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(1, seed))
	type image struct{ crashes, unready, idle bool }
	for range 2000 {
		images := map[string]image{"first": {}}
		d := Known{State: State{Set: "first", Proven: "first"}}
		write := func(s Step) { d.State = s.State }
		leading := "first"
		for range 6 {
			wanted := string(uuid.NewUUID())
			images[wanted] = image{random.IntN(3) == 0, random.IntN(3) == 0, random.IntN(3) == 0}
			for range 4 * MaxStarts {
				if next := images[d.Set]; d.Set != leading && !next.unready {
					leading = d.Set // the new Pod became ready, and the old Pod ended
				}
				known := d
				known.Running, known.Stuck = leading, d.Set != leading
				switch leads := images[leading]; {
				case leads.crashes:
					write(Start(known))
				case leads.idle:
					write(Overdue(known, random.IntN(2) == 0))
				default:
					write(Round(known, bundled(wanted), Trial))
				}
			}
			if images[leading].crashes || images[leading].idle || leading != d.Set {
				t.Fatalf("got leading image %s and Deployment %+v, want a working image in both; images: %v", leading, d,
					images)
			}
			if fine := images[wanted]; !fine.crashes && !fine.unready && !fine.idle && leading != wanted {
				t.Fatalf("got leading image %s, want the working image %s: %+v", leading, wanted, d)
			}
			known := d
			if (known.Problem(bundled(wanted)) != "") != (leading != wanted) {
				t.Fatalf("got problem %q, want one only if the leading image %s is not the wanted image %s",
					known.Problem(bundled(wanted)), leading, wanted)
			}
		}
	}
}

func TestRollbackIsReportedWithoutABundleImage(t *testing.T) {
	for name, c := range map[string]struct {
		state    State
		wanted   string
		reported bool
	}{
		"chart's image was rolled back, bundle without an image": {State{Set: "b", Failed: "chart"}, "", true},
		"chart's image was rolled back, bundle with an image":    {State{Set: "b", Failed: "chart"}, "b", false},
		"failed image was set again":                             {State{Set: "chart", Failed: "chart"}, "", false},
		"no rollback":                                            {State{Set: "b"}, "", false},
	} {
		got := Known{State: c.state}.Problem(bundled(c.wanted))
		if strings.Contains(got, "rolled back its image chart") != c.reported {
			t.Errorf("%s: got %q, want a report: %t", name, got, c.reported)
		}
	}
}

// A webhook can replace the registry in the image of the agent's Pod.
func TestPodImageFromAnotherRegistryMatchesDeployment(t *testing.T) {
	pin := func(c string) string { return "@sha256:" + strings.Repeat(c, 64) }
	for name, c := range map[string]struct {
		running, set string
		same         bool
	}{
		"equal references":             {"host.example/agent:1" + pin("a"), "host.example/agent:1" + pin("a"), true},
		"another registry":             {"cache.local/agent:1" + pin("a"), "host.example/agent:1" + pin("a"), true},
		"another digest":               {"cache.local/agent:1" + pin("b"), "host.example/agent:1" + pin("a"), false},
		"another registry, no digests": {"cache.local/agent:1", "host.example/agent:1", false},
		"digest only in the Pod":       {"host.example/agent:1" + pin("a"), "host.example/agent:1", false},
	} {
		known := (&Deployment{Running: c.running}).known(&appsv1.Deployment{}, c.set)
		if (known.Running == known.Set) != c.same {
			t.Errorf("%s: got %+v, want the running image to equal the set image: %t", name, known, c.same)
		}
	}
}
