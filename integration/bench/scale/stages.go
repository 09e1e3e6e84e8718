package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// stage is one measurement. Before and after each stage, all runtimes have the newest bundle and all agents are
// suspended.
type stage struct {
	name string
	// isRequired is true if later stages need this stage.
	isRequired bool
	run        func(*world, context.Context) error
}

const idleStage = "idle"

// stages lists the stages in order. From "baselines" on, each stage stops the publisher.
var stages = []stage{
	{"seeding", true, (*world).seeding},
	{"first-publish", true, (*world).measureFirstPublish},
	{"enrollment", true, (*world).measureEnrollment},
	{"promotion", false, (*world).measurePromotion},
	{"reports", false, (*world).measureReports},
	{"poll", false, (*world).measureDetection},
	{"size", false, (*world).measureSizes},
	{idleStage, false, (*world).measureIdleFleet},
	{"waves", false, (*world).measureWaves},
	{"hostile", false, (*world).measureHostileFleet},
	{"baselines", false, (*world).measureBaselines},
	{"restart", false, (*world).measureRestart},
	{"memory-limit", false, (*world).measureMemoryLimit},
	{"status", false, (*world).measureCommands},
}

func (s stage) runs(only []string) bool {
	return s.isRequired || len(only) == 0 || slices.Contains(only, s.name)
}

func optional() (names []string) {
	for _, s := range stages {
		if !s.isRequired {
			names = append(names, s.name)
		}
	}
	return names
}

func known(name string) bool { return slices.Contains(optional(), name) }

// measure runs a stage and records the machine's usage.
func (w *world) measure(ctx context.Context, s stage) error {
	w.stage = s.name
	w.say("…")
	stop := func() {}
	if s.name != idleStage { // the idle stage takes a profile itself
		stop = w.profile(ctx)
	}
	before, started := w.taken(), time.Now()
	err := s.run(w, ctx)
	took := time.Since(started)
	spent := w.taken().since(before)
	stop()
	cost := stageCost{
		Stage: s.name, Seconds: took.Seconds(), CPU: spent.seconds(), Others: spent.otherCPUShare(took),
		Load: process.LoadAverage(),
	}
	w.results.Stages = append(w.results.Stages, cost)
	w.say("%s, %.0f%% of the machine's %d cores taken by others", took.Round(100*time.Millisecond), cost.Others*100,
		runtime.NumCPU())
	return err
}

// recover brings the fleet back to the state that each stage requires at its start, for example after a failed stage.
func (w *world) recover(ctx context.Context) error {
	w.agents.suspend()
	w.agents.setBehavior(func(int) conduct { return conduct{} })
	if w.publisher == nil || !w.publisher.running() {
		if err := w.killPublisher(); err != nil {
			return err
		}
		if err := w.startPublisher(nil); err != nil {
			return err
		}
	}
	for _, left := range []client.Object{&v1alpha1.RolloutPolicy{}, &v1alpha1.Rollout{}} {
		if err := w.control.DeleteAllOf(ctx, left, client.InNamespace(sample.Namespace)); err != nil {
			return err
		}
	}
	return w.converge(ctx)
}

// limit returns the time within which all runtimes must respond. In some stages, each runtime polls several times
// within this limit.
func (w *world) limit() time.Duration {
	return 4*time.Minute + 6*w.AgentPoll + time.Duration(w.Runtimes)*200*time.Millisecond
}

func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.out, "bench-fleet: %s  %-13s %s\n", time.Now().Format(time.TimeOnly), w.stage,
		fmt.Sprintf(format, args...))
}
