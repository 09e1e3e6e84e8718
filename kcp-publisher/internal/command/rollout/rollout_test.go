package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
)

func underWay() *v1alpha1.Rollout {
	started := metav1.NewTime(noon)
	soaked := metav1.NewTime(noon.Add(2 * time.Minute))
	end := metav1.NewTime(noon.Add(10 * time.Minute))
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: "keda-regular-1"},
		Spec: v1alpha1.RolloutSpec{
			Policy: "careful", Module: "keda", Channel: "regular", Revision: 1, From: "1.0.0", To: "2.0.0",
			Course: v1alpha1.Course{
				Waves: []v1alpha1.Wave{
					{Name: "canaries"}, {
						Name: "others", Approval: true, Soak: metav1.Duration{Duration: 5 * time.Minute},
					},
				},
			},
		},
		Status: v1alpha1.RolloutStatus{
			State: v1alpha1.RolloutProgressing, Message: "wave others: soaking before the next wave starts",
			Wave: "2/2 others", Progress: "5/12", Total: 12, Updated: 5, Failed: 2, Deferred: 1,
			StartedAt: &started, EstimatedEnd: &end,
			Waves: []v1alpha1.WaveStatus{
				{Name: "canaries", State: v1alpha1.WaveProven, Total: 2, Updated: 2},
				{
					Name: "others", State: v1alpha1.WaveSoaking, Total: 10, Updated: 3, InFlight: 4, Failed: 2,
					Deferred: 1, ReadyAt: &soaked,
				},
			},
			Failures: []v1alpha1.RuntimeFailure{{Runtime: "r-7", Wave: "others", Reason: "module is Error: crashes"}},
		},
	}
}

func TestRolloutShowListsFailuresFirst(t *testing.T) {
	var out bytes.Buffer
	drawRollout(&out, underWay(), noon.Add(3*time.Minute), cli.Palette{})
	want := `rollout keda-regular-1: module keda in channel regular from 1.0.0 to 2.0.0, policy careful
  Progressing  wave others: soaking before the next wave starts
  time         started 3m0s ago, about 7m0s left

  failed: r-7 (wave others): module is Error: crashes
  and 1 more

WAVE      STATE               PROGRESS              UPDATED  IN FLIGHT  FAILED  DEFERRED
canaries  Proven              ████████████████████  2/2              0       0         0
others    Soaking, 4m0s left  ██████░░░░░░░░░░░░░░  3/10             4       2         1
`
	if got := trimmed(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRolloutShowListsTheChecksOfEachWave(t *testing.T) {
	r := underWay()
	r.Status.Waves[0].Checks = []v1alpha1.CheckSummary{
		{
			Name: "latency", Passed: 1, Failed: 1,
			Median: "0.2", MedianBefore: "0.1", Worst: "0.9", WorstBefore: "0.2", WorstRuntime: "r-3",
		},
		{Name: "works", Inconclusive: 2},
	}
	var out bytes.Buffer
	drawRollout(&out, r, noon.Add(3*time.Minute), cli.Palette{})
	want := `
WAVE      CHECK    PASSED  FAILED  INCONCLUSIVE  MEDIAN                       WORST                        RUNTIME
canaries  latency       1       1             0  0.2, 0.1 before the upgrade  0.9, 0.2 before the upgrade  r-3
canaries  works         0       0             2
`
	if got := trimmed(out.String()); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant it to end with\n%s", got, want)
	}
}

func TestRolloutShowPrintsTheCommandThatApprovesTheWave(t *testing.T) {
	const command = "  approve      kcp-publisher rollout approve keda-regular-1 others\n"
	waits := func(change func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
		r := underWay()
		r.Name, r.Status.State, r.Status.Waves[1].State = "keda-regular-1", v1alpha1.RolloutWaiting, v1alpha1.WaveWaiting
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		rollout *v1alpha1.Rollout
		want    bool
	}{
		"waiting":     {waits(func(*v1alpha1.Rollout) {}), true},
		"progressing": {waits(func(r *v1alpha1.Rollout) { r.Status.State = v1alpha1.RolloutProgressing }), false},
		"approved, then waiting for deferred runtimes": {
			waits(func(r *v1alpha1.Rollout) {
				r.Spec.ApprovedWaves, r.Status.Waves[1].WaitsForDeferred = []string{"others"}, true
			}), true,
		},
		"deferred runtimes already approved": {
			waits(func(r *v1alpha1.Rollout) {
				r.Spec.ApprovedDeferredWaves, r.Status.Waves[1].WaitsForDeferred = []string{"others"}, true
			}), false,
		},
		"already approved": {
			waits(func(r *v1alpha1.Rollout) { r.Spec.ApprovedWaves = []string{"others"} }), false,
		},
	} {
		var out bytes.Buffer
		drawRollout(&out, c.rollout, noon.Add(3*time.Minute), cli.Palette{})
		if got := strings.Contains(out.String(), command); got != c.want {
			t.Errorf("%s: output contains the command: %t, want %t\n%s", name, got, c.want, out.String())
		}
	}
}

func TestMissingRolloutErrorNamesTheListCommand(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Group: "fleet.kyma-project.io", Resource: "rollouts"},
		"keda-1")
	if err := addListHint(fmt.Errorf("read: %w", missing)); !apierrors.IsNotFound(err) ||
		!strings.HasSuffix(err.Error(), ": see `kcp-publisher rollout list -A` for all rollouts") {
		t.Errorf("missing Rollout: got %v, want a hint", err)
	}
	other := errors.New("no network")
	if err := addListHint(other); !errors.Is(err, other) || err.Error() != "no network" {
		t.Errorf("other error: got %v, want no hint", err)
	}
	if addListHint(nil) != nil {
		t.Error("listed(nil) returned an error")
	}
}

func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestRolloutIsFollowedToItsEnd(t *testing.T) {
	states := []*v1alpha1.Rollout{underWay(), underWay(), underWay()}
	states[2].Status.State, states[2].Status.Message = v1alpha1.RolloutRolledBack,
		"wave others failed: 2 of 10 runtimes failed, maxFailures allows 0"
	read := func() (*v1alpha1.Rollout, error) {
		next := states[0]
		states = states[1:]
		return next, nil
	}
	var out bytes.Buffer
	err := watchRollout(t.Context(), time.Millisecond, read, plainPrinter(&out))
	if err == nil ||
		err.Error() != "rollout keda-regular-1 is RolledBack: wave others failed: 2 of 10 runtimes failed, "+
			"maxFailures allows 0" {
		t.Errorf("got error %v", err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 ||
		!strings.Contains(out.String(),
			"keda-regular-1 Progressing wave 2/2 others: 5/12 updated, 2 failed, 1 deferred: wave others: soaking") {
		t.Errorf("got %d lines:\n%s", lines, out.String())
	}
	var drawn bytes.Buffer
	show := livePrinter(&drawn)
	show(underWay())
	up := fmt.Sprintf("\x1b[%dA\x1b[J", strings.Count(drawn.String(), "\n")+1)
	show(underWay())
	if strings.Count(drawn.String(), up) != 1 {
		t.Errorf("want %q once in %q", up, drawn.String())
	}
}

func TestUndoneRolloutIsFollowedToItsRollback(t *testing.T) {
	undone := func(state v1alpha1.RolloutState, observed int64) *v1alpha1.Rollout {
		r := underWay()
		r.Spec.Undo, r.Generation, r.Status.ObservedGeneration, r.Status.State = true, 2, observed, state
		return r
	}
	for _, before := range []v1alpha1.RolloutState{v1alpha1.RolloutSucceeded, v1alpha1.RolloutStopped} {
		states := []*v1alpha1.Rollout{
			undone(before, 1), undone(v1alpha1.RolloutRollingBack, 2), undone(v1alpha1.RolloutRolledBack, 2),
		}
		read := func() (*v1alpha1.Rollout, error) {
			next := states[0]
			states = states[1:]
			return next, nil
		}
		err := watchRollout(t.Context(), time.Millisecond, read, plainPrinter(io.Discard))
		if err == nil || !strings.Contains(err.Error(), "is RolledBack") {
			t.Errorf("%s rollout with a pending undo: got error %v, want RolledBack", before, err)
		}
	}
}

func TestActiveRolloutsAreListedFirst(t *testing.T) {
	older, over := *underWay(), *underWay()
	over.Name, over.Status.State, over.CreationTimestamp = "keda-regular-0", v1alpha1.RolloutSucceeded,
		metav1.NewTime(noon)
	if controlplane.CompareRollouts(older, over) >= 0 || controlplane.CompareRollouts(over, older) <= 0 {
		t.Error("a finished rollout is listed before an active one")
	}
	var out bytes.Buffer
	drawRollouts(&out, nil)
	if !strings.Contains(out.String(), "no rollout") {
		t.Errorf("without rollouts: got %s", out.String())
	}
}
