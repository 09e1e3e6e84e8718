package upgrade

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// targetImage returns a target with this image, without an allowed rollback.
func targetImage(image string) Target {
	return Target{Image: image, AllowsRollback: func(_, _ string) bool { return false }}
}

func TestAgentImageMustProveItselfOrBeRolledBack(t *testing.T) {
	for name, c := range map[string]struct {
		known          Snapshot
		start, overdue bool          // call onStart or onDeadline instead of onReconciled
		unreachable    bool          // the registry is not reachable
		again          time.Duration // if set, call onRestart with this uptime instead
		wanted         string
		well           time.Duration
		want           State
	}{
		"first image proves itself after the trial": {
			known: Snapshot{State: State{TemplateImage: "a"}, RunningImage: "a"}, well: Trial,
			want: State{TemplateImage: "a", ProvenImage: "a"},
		},
		"first image is not proven before the end of the trial": {
			known: Snapshot{State: State{TemplateImage: "a"}, RunningImage: "a"}, wanted: "b", well: Trial - 1,
			want: State{TemplateImage: "a"},
		},
		"bundle's image replaces a proven image": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a"}, RunningImage: "a"}, wanted: "b",
			want: State{TemplateImage: "b", ProvenImage: "a", FormerDigests: "a", RequestedImage: "b"},
		},
		"bundle without an image changes nothing": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a"}, RunningImage: "a"}, well: Trial,
			want: State{TemplateImage: "a", ProvenImage: "a"},
		},
		"old agent waits for the Pods of the new image": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a"}, RunningImage: "a"}, wanted: "b", well: Trial,
			want: State{TemplateImage: "b", ProvenImage: "a"},
		},
		"old agent rolls back if the new Pods do not become ready": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a"}, RunningImage: "a", IsStuck: true}, wanted: "b",
			well: Trial,
			want: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"},
		},
		"image stays failed if the Pods of the proven image do not become ready": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"}, RunningImage: "b",
				IsStuck: true},
			wanted: "b", well: Trial,
			want: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"},
		},
		"image stays undecided if the Pods of the proven image do not become ready": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "b", Trials: 2},
				RunningImage: "b", IsStuck: true},
			wanted: "b", well: Trial,
			want: State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "b", Trials: 2},
		},
		"rolled back image is not retried": {
			known:  Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"}, RunningImage: "a"},
			wanted: "b", well: Trial,
			want: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"},
		},
		"image of an upgraded chart stays until the end of the trial": {
			known: Snapshot{State: State{TemplateImage: "chart", ProvenImage: "b"}, RunningImage: "chart"}, wanted: "b",
			well: Trial - 1,
			want: State{TemplateImage: "chart", ProvenImage: "b"},
		},
		"bundle's image replaces the chart's image after the trial": {
			known: Snapshot{State: State{TemplateImage: "chart", ProvenImage: "b"}, RunningImage: "chart"}, wanted: "b",
			well: Trial,
			want: State{TemplateImage: "b", ProvenImage: "chart", FormerDigests: "chart", RequestedImage: "b"},
		},
		"chart's image is rolled back at the deadline": {
			known: Snapshot{State: State{TemplateImage: "chart", ProvenImage: "b"}, RunningImage: "chart"}, wanted: "b",
			overdue: true,
			want:    State{TemplateImage: "b", ProvenImage: "b", FailedImage: "chart"},
		},
		"rollback of the chart's image stays recorded": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "b", FailedImage: "chart"}, RunningImage: "b"},
			well:  Trial,
			want:  State{TemplateImage: "b", ProvenImage: "b", FailedImage: "chart"},
		},
		"another proven image ends the record of a rollback": {
			known: Snapshot{State: State{TemplateImage: "c", ProvenImage: "b", FailedImage: "chart"}, RunningImage: "c"},
			well:  Trial,
			want:  State{TemplateImage: "c", ProvenImage: "c"},
		},
		"bundle's failed image stays recorded when the chart's image proves itself": {
			known:  Snapshot{State: State{TemplateImage: "chart", ProvenImage: "a", FailedImage: "b"}, RunningImage: "chart"},
			wanted: "b", well: Trial,
			want: State{TemplateImage: "chart", ProvenImage: "chart", FailedImage: "b"},
		},
		"bundle's running image ends the record of a rollback": {
			known:  Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"}, RunningImage: "a"},
			wanted: "a",
			want:   State{TemplateImage: "a", ProvenImage: "a"},
		},
		"next image is tried after a rollback": {
			known:  Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"}, RunningImage: "a"},
			wanted: "c", well: Trial,
			want: State{TemplateImage: "c", ProvenImage: "a", FormerDigests: "a", RequestedImage: "c"},
		},
		"new image proves itself after the trial": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", Starts: 2}, RunningImage: "b"}, wanted: "b",
			well: Trial,
			want: State{TemplateImage: "b", ProvenImage: "b"},
		},
		"start of a new image is counted": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", Starts: 1}, RunningImage: "b"}, start: true,
			want: State{TemplateImage: "b", ProvenImage: "a", Starts: 2},
		},
		"new image rolls itself back after too many starts": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", Starts: maxStarts}, RunningImage: "b"},
			start: true,
			want:  State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"},
		},
		"intended restart after the trial time is not counted": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", Starts: 2}, RunningImage: "b"}, again: Trial,
			want: State{TemplateImage: "b", ProvenImage: "a", Starts: 1},
		},
		"intended restart within the trial time is counted": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", Starts: 2}, RunningImage: "b"},
			again: Trial - time.Second,
			want:  State{TemplateImage: "b", ProvenImage: "a", Starts: 2},
		},
		"intended restart of a proven image changes nothing": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a"}, RunningImage: "a"}, again: Trial,
			want: State{TemplateImage: "a", ProvenImage: "a"},
		},
		"start of a proven image is not counted": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a"}, RunningImage: "a"}, start: true,
			want: State{TemplateImage: "a", ProvenImage: "a"},
		},
		"new image rolls itself back at the deadline": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", Starts: 1}, RunningImage: "b"}, overdue: true,
			want: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"},
		},
		"new image is undecided if the registry did not work": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a"}, RunningImage: "b"}, overdue: true,
			unreachable: true,
			want:        State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "b", Trials: 1},
		},
		"undecided image is tried again when the registry works": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "b", Trials: 1},
				RunningImage: "a"},
			wanted: "b", well: Trial,
			want: State{TemplateImage: "b", ProvenImage: "a", UndecidedImage: "b", Trials: 1, FormerDigests: "a",
				RequestedImage: "b"},
		},
		"undecided image is not tried again until the registry works": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "b", Trials: 1},
				RunningImage: "a"},
			wanted: "b", well: Trial - 1,
			want: State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "b", Trials: 1},
		},
		"chart's undecided image is tried again": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "chart", Trials: 2},
				RunningImage: "a"}, well: Trial,
			want: State{TemplateImage: "chart", ProvenImage: "a", UndecidedImage: "chart", Trials: 2, FormerDigests: "a"},
		},
		"undecided image that the bundle does not request is not tried again": {
			known: Snapshot{
				State:        State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "b", Trials: 1, RequestedImage: "b"},
				RunningImage: "a",
			}, well: Trial,
			want: State{TemplateImage: "a", ProvenImage: "a"},
		},
		"chart's undecided image is tried again after a bundle requested another image": {
			known: Snapshot{
				State:        State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "chart", Trials: 1, RequestedImage: "a"},
				RunningImage: "a",
			}, well: Trial,
			want: State{TemplateImage: "chart", ProvenImage: "a", UndecidedImage: "chart", Trials: 1, RequestedImage: "a",
				FormerDigests: "a"},
		},
		"another image replaces an undecided image": {
			known: Snapshot{State: State{TemplateImage: "a", ProvenImage: "a", UndecidedImage: "b", Trials: 2},
				RunningImage: "a"}, wanted: "c",
			want: State{TemplateImage: "c", ProvenImage: "a", FormerDigests: "a", RequestedImage: "c"},
		},
		"undecided image proves itself": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", UndecidedImage: "b", Trials: 2},
				RunningImage: "b"},
			wanted: "b", well: Trial,
			want: State{TemplateImage: "b", ProvenImage: "b"},
		},
		"last trial of an undecided image decides": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", UndecidedImage: "b", Trials: maxTrials - 1},
				RunningImage: "b"},
			overdue:     true,
			unreachable: true, want: State{TemplateImage: "a", ProvenImage: "a", FailedImage: "b"},
		},
		"proven image stays at the deadline": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "b"}, RunningImage: "b"}, overdue: true,
			want: State{TemplateImage: "b", ProvenImage: "b"},
		},
		"first image stays at the deadline without a predecessor": {
			known: Snapshot{State: State{TemplateImage: "a"}, RunningImage: "a"}, overdue: true, want: State{TemplateImage: "a"},
		},
		"old agent's deadline does not roll back the new image": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a"}, RunningImage: "a"}, overdue: true,
			want: State{TemplateImage: "b", ProvenImage: "a"},
		},
		"start of the first image is not counted": {
			known: Snapshot{State: State{TemplateImage: "a"}, RunningImage: "a"}, start: true, want: State{TemplateImage: "a"},
		},
		"start of the old image is not counted for the new image": {
			known: Snapshot{State: State{TemplateImage: "b", ProvenImage: "a", Starts: 1}, RunningImage: "a"}, start: true,
			want: State{TemplateImage: "b", ProvenImage: "a", Starts: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := onReconciled(c.known, targetImage(c.wanted), c.well)
			switch {
			case c.start:
				got = onStart(c.known)
			case c.again > 0:
				got = onRestart(c.known, c.again)
			case c.overdue:
				got = onDeadline(c.known, c.unreachable)
			}
			if got.State != c.want {
				t.Errorf("got %+v, want %+v", got.State, c.want)
			}
		})
	}
}

// Bundles request random images. Some crash, never become ready, or fail. At the end of each upgrade, an agent with a
// working image must hold the lease.
func TestWorkingAgentSurvivesUpgrades(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(1, seed))
	type image struct{ crashes, unready, idle bool }
	for range 2000 {
		images := map[string]image{"first": {}}
		d := Snapshot{State: State{TemplateImage: "first", ProvenImage: "first"}}
		write := func(s Step) { d.State = s.State }
		leading := "first"
		for range 6 {
			wanted := string(uuid.NewUUID())
			images[wanted] = image{random.IntN(3) == 0, random.IntN(3) == 0, random.IntN(3) == 0}
			for range 4 * maxStarts {
				if next := images[d.TemplateImage]; d.TemplateImage != leading && !next.unready {
					leading = d.TemplateImage // the new Pod became ready, so Kubernetes ended the old one
				}
				known := d
				known.RunningImage, known.IsStuck = leading, d.TemplateImage != leading
				switch leads := images[leading]; {
				case leads.crashes:
					write(onStart(known))
				case leads.idle:
					write(onDeadline(known, random.IntN(2) == 0))
				default:
					write(onReconciled(known, targetImage(wanted), Trial))
				}
			}
			if images[leading].crashes || images[leading].idle || leading != d.TemplateImage {
				t.Fatalf("got leading image %s and Deployment %+v, want a working image in both; images: %v", leading, d,
					images)
			}
			if fine := images[wanted]; !fine.crashes && !fine.unready && !fine.idle && leading != wanted {
				t.Fatalf("got leading image %s, want the working image %s: %+v", leading, wanted, d)
			}
			known := d
			if (known.problem(targetImage(wanted)) != "") != (leading != wanted) {
				t.Fatalf("got problem %q, want one only if the leading image %s is not the wanted image %s",
					known.problem(targetImage(wanted)), leading, wanted)
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
		"chart's image was rolled back, bundle without an image": {State{TemplateImage: "b", FailedImage: "chart"}, "", true},
		"chart's image was rolled back, bundle with an image": {State{TemplateImage: "b", FailedImage: "chart"},
			"b", false},
		"failed image was set again": {State{TemplateImage: "chart", FailedImage: "chart"}, "", false},
		"no rollback":                {State{TemplateImage: "b"}, "", false},
	} {
		got := Snapshot{State: c.state}.problem(targetImage(c.wanted))
		if strings.Contains(got, "rolled back its image chart") != c.reported {
			t.Errorf("%s: got %q, want a report: %t", name, got, c.reported)
		}
	}
}

// A webhook can replace the registry host in the image of the agent's Pod.
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
		known := (&Deployment{RunningImage: c.running}).snapshot(&appsv1.Deployment{}, c.set)
		if (known.RunningImage == known.TemplateImage) != c.same {
			t.Errorf("%s: got %+v, want the running image to equal the set image: %t", name, known, c.same)
		}
	}
}
