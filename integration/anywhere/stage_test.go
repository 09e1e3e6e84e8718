// Package anywhere holds the scenarios that run on every ground: on API servers and kwok with `make test`, and with pods,
// nodes and a network on kind with `make test-kind`. Faults are part of both: clusters that stop and start, a registry that goes away,
// links that are cut or bad. Each file is one; they run in the order of their names, on one fleet of a control plane and runtimes
// berlin and tokyo, and each leaves both well. The few that need pods or networks are skipped on API servers.
package anywhere

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/assets"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/kind"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

var (
	ground = flag.String("ground", "local", "what the fleet stands on: local (API servers and kwok) or kind")
	keep   = flag.Bool("keep", false, "leave the kind clusters up and print their kubeconfigs")
)

// apart is the runtime that lies on a network of its own; only its scenario starts it.
const apart = "ship"

// moduleAccount is the ServiceAccount that modules are installed as in tokyo, on kind.
const moduleAccount = "modules"

// stage is the fleet that all scenarios share; TestMain sets it up before and takes it down after them.
var stage struct {
	fleet         *fleet.Fleet
	berlin, tokyo *fleet.Runtime
	kind          *kind.Ground // nil on the local ground
	promoted      string       // version of module beacon in channel regular
	line          string       // MAJOR.MINOR of the versions that the next promotions take
	patch         int
	undo          []func(context.Context) error // what the scenario that runs has to put right
	dir, failures string                        // on kind: the run's own files, and what explains its failures
}

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(play(m))
}

// play claims the stage, lets the story play on it, and takes it down: once and here alone, also when somebody ends the run early.
func play(m *testing.M) int {
	started, meter := time.Now(), kind.NewMeter()
	if err := claim(); err != nil {
		fmt.Fprintln(os.Stderr, "anywhere:", err)
		return 1
	}
	ctx := context.Background()
	if stage.kind != nil { // API servers of this machine end with this process, whatever ends it
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
	}
	played := make(chan int, 1)
	go func() { played <- story(ctx, m) }()
	var code int
	select {
	case code = <-played:
	case <-ctx.Done():
	}
	var err error
	// A signal reaches what the story runs too, so that the story may fail of it first.
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "anywhere: interrupted")
		code, err = 130, abandon()
	} else {
		err = takeDown()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "anywhere: take the stage down:", err)
		code = max(code, 1)
	}
	memory := "not known on this machine"
	if peak, err := meter.Peak(); err == nil {
		memory = fmt.Sprintf("%d MiB of memory at most, with all else on this machine", peak>>20)
	}
	fmt.Printf("%s ground: %s, %s\n", *ground, time.Since(started).Round(time.Second), memory)
	return code
}

// claim makes what can be taken down, and nothing yet that has to be.
func claim() error {
	// A client that has lost its API server asks again at growing intervals of up to a minute.
	options := fleet.Options{Progress: os.Stderr, SingleCluster: true, Links: true, Patience: 2 * time.Minute}
	switch *ground {
	case "local":
	case "kind":
		checkout, err := filepath.Abs(filepath.Join("..", ".."))
		if err != nil {
			return err
		}
		stage.dir, stage.failures = filepath.Join(checkout, "bin", "kind"), filepath.Join(checkout, "bin", "kind-failures")
		if stage.kind, err = kind.New(context.Background(), kind.Options{
			Checkout: checkout, Dir: stage.dir, Progress: os.Stderr, Apart: []string{apart}, ModuleAccounts: map[string]string{"tokyo": moduleAccount},
		}); err != nil {
			return err
		}
		if err := os.RemoveAll(stage.failures); err != nil {
			return err
		}
		options.Dir, options.Ground, options.Patience = stage.dir, stage.kind, 4*time.Minute
	default:
		return fmt.Errorf("--ground %q: want local or kind", *ground)
	}
	stage.fleet = fleet.New(options)
	return nil
}

// story sets the stage up and runs the scenarios.
func story(ctx context.Context, m *testing.M) int {
	if err := build(ctx); err != nil {
		if ctx.Err() != nil {
			return 130
		}
		fmt.Fprintln(os.Stderr, "anywhere:", err)
		if stage.kind != nil {
			fmt.Fprintln(os.Stderr, gather(ctx, "setup"))
		}
		return 1
	}
	return m.Run()
}

func build(ctx context.Context) error {
	if stage.kind != nil {
		if err := stage.kind.Prepare(ctx); err != nil {
			return err
		}
	}
	if err := stage.fleet.Up(ctx); err != nil {
		return err
	}
	if err := stage.fleet.Offer(ctx, samplemodule.Good(), samplemodule.Prioritized(), samplemodule.Better(), samplemodule.Broken()); err != nil {
		return err
	}
	stage.line = "1.1"
	if err := release(ctx, samplemodule.VersionGood); err != nil {
		return err
	}
	var err error
	if stage.berlin, err = stage.fleet.AddRuntime(ctx, "berlin", "regular", samplemodule.Module); err != nil {
		return err
	}
	if stage.tokyo, err = stage.fleet.AddRuntime(ctx, "tokyo", "regular"); err != nil || stage.kind == nil {
		return err
	}
	return employModules(ctx, stage.tokyo)
}

// takeDown removes all that the story left, or says how to reach it.
func takeDown() error {
	if stage.kind == nil {
		return stage.fleet.Close()
	}
	if *keep {
		kubeconfigs := stage.kind.Kubeconfigs()
		for _, name := range slices.Sorted(maps.Keys(kubeconfigs)) {
			fmt.Printf("export KUBECONFIG=%s  # %s\n", kubeconfigs[name], name)
		}
		return nil
	}
	return errors.Join(stage.fleet.Close(), os.RemoveAll(stage.dir))
}

// abandon does the same while the story still goes on, so that the fleet is the story's.
func abandon() error {
	if *keep {
		fmt.Printf("left as it is, with kubeconfigs in %s\n", stage.dir)
		return nil
	}
	return errors.Join(stage.kind.Close(), os.RemoveAll(stage.dir))
}

// scene begins a scenario. At its end it gathers what explains a failure, and only then undoes what the scenario did to the stage.
func scene(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		switch {
		case !t.Failed():
		case stage.kind == nil:
			t.Logf("publisher:\n%s\nberlin's agent:\n%s", last(stage.fleet.Publisher().Log()), last(stage.berlin.Agent().Log()))
		default:
			t.Log(gather(ctx, t.Name()))
		}
		for _, step := range slices.Backward(stage.undo) {
			if err := step(ctx); err != nil {
				t.Errorf("undo what the scenario did: %v", err)
			}
		}
		stage.undo = nil
	})
}

// undo has something done at the end of the scenario that runs, the last first.
func undo(step func(context.Context) error) { stage.undo = append(stage.undo, step) }

// gather collects what explains a failure on kind, and says where it is.
func gather(ctx context.Context, name string) string {
	dir := filepath.Join(stage.failures, name)
	if err := stage.kind.Gather(ctx, dir); err != nil {
		return fmt.Sprintf("logs and state are in %s, but not all: %v", dir, err)
	}
	return "logs and state are in " + dir
}

func last(text string) string { return text[max(0, len(text)-4000):] }

// onKind skips a scenario that needs what only kind has, by its name.
func onKind(t *testing.T, needed string) {
	t.Helper()
	if stage.kind == nil {
		t.Skipf("needs %s: make test-kind", needed)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, seen func() (bool, string)) {
	t.Helper()
	must(t, fleet.Until(t.Context(), 2*time.Minute, what, seen))
}

func release(ctx context.Context, version string) error {
	stage.promoted = version
	return stage.fleet.Release(ctx, samplemodule.Module, samplemodule.Good().Component(), sample.Channel("regular", version))
}

// promotedImage is what the operator of the promoted version runs.
func promotedImage() string {
	if stage.promoted == samplemodule.VersionGood {
		return samplemodule.Image(samplemodule.VersionGood)
	}
	return samplemodule.Image(samplemodule.VersionBetter)
}

// promote offers a version that was never there and promotes it.
func promote(t *testing.T) (version string) {
	t.Helper()
	next := offer(t)
	must(t, release(t.Context(), next))
	return next
}

// offer makes a version that was never there and promotes it nowhere.
func offer(t *testing.T) (version string) {
	t.Helper()
	stage.patch++
	version = fmt.Sprintf("%s.%d", stage.line, stage.patch)
	must(t, stage.fleet.Offer(t.Context(), samplemodule.Patch(version)))
	return version
}

// well makes sure that a runtime has the promoted version of module beacon, whichever scenarios ran before.
func well(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	var kyma *v1beta2.Kyma
	until(t, r.ID+" has its Kyma", func() (bool, string) {
		var err error
		kyma, err = r.Kyma(t.Context())
		return err == nil, fmt.Sprint(err)
	})
	for _, m := range kyma.Spec.Modules {
		if m.Name == samplemodule.Module {
			must(t, r.UntilState(t.Context(), samplemodule.Module, stage.promoted, v1beta2.StateReady))
			return
		}
	}
	add(t, r)
}

// add lets the runtime's admin add module beacon, and waits until it is ready.
func add(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	must(t, r.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{Name: samplemodule.Module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete})
	}))
	must(t, r.UntilState(t.Context(), samplemodule.Module, stage.promoted, v1beta2.StateReady))
}

func settings(ctx context.Context, r *fleet.Runtime) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	err := r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: samplemodule.Settings}, config)
	return config, err
}

// drift changes a setting of the module as a person would, and waits until it is put back.
func drift(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	config, err := settings(t.Context(), r)
	must(t, err)
	before := config.DeepCopy()
	config.Data["level"] = "debug"
	must(t, r.API.Patch(t.Context(), config, client.MergeFrom(before)))
	untilCorrected(t, r)
}

func untilCorrected(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	until(t, "the setting in "+r.ID+" is put back", func() (bool, string) {
		config, err := settings(t.Context(), r)
		return err == nil && config.Data["level"] == "info", fmt.Sprint(config.Data, err)
	})
}

// kubectl runs what a person types.
func kubectl(t *testing.T, r *fleet.Runtime, args ...string) string {
	t.Helper()
	if stage.kind != nil {
		output, err := stage.kind.Kubectl(t.Context(), r.Cluster(), args...)
		must(t, err)
		return output
	}
	found, err := assets.Ensure(t.Context(), os.Stderr)
	must(t, err)
	if found.Kubectl == "" {
		t.Skip("needs kubectl in the PATH")
	}
	output, err := exec.CommandContext(t.Context(), found.Kubectl, append([]string{"--kubeconfig", r.Kubeconfig()}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// untilRunning waits until pods of the module's operator run an image, and none other; on the local ground there are no pods.
func untilRunning(t *testing.T, r *fleet.Runtime, image string) {
	t.Helper()
	if stage.kind == nil {
		return
	}
	until(t, fmt.Sprintf("the operator in %s runs %s", r.ID, image), func() (bool, string) {
		var pods corev1.PodList
		err := r.API.List(t.Context(), &pods, client.InNamespace(v1beta2.RuntimeNamespace), client.MatchingLabels{"app": samplemodule.Operator})
		if err != nil || len(pods.Items) == 0 {
			return false, fmt.Sprint("no pods ", err)
		}
		for _, p := range pods.Items {
			if p.Spec.Containers[0].Image != image || p.Status.Phase != corev1.PodRunning {
				return false, fmt.Sprintf("%s is %s with %s", p.Name, p.Status.Phase, p.Spec.Containers[0].Image)
			}
		}
		return true, ""
	})
}
