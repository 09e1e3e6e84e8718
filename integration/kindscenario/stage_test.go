// Package kindscenario contains the scenarios that need pods, nodes or networks. `make test-kind` runs them on kind
// clusters. Each file is one scenario. The scenarios run in the order of their file names on one fleet with a control
// plane and runtimes berlin and tokyo.
package kindscenario

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/kind"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

var (
	onKind = flag.Bool("kind", false, "start kind clusters and run the scenarios on them")
	keep   = flag.Bool("keep", false, "do not delete the kind clusters, and print their kubeconfigs")
	dist   = flag.String("release", "",
		"output folder of make release, whose charts and images are installed instead of those of the checkout")
)

// airGappedRuntime is the air-gapped runtime, which only one scenario starts.
const airGappedRuntime = "ship"

// moduleAccount is the ServiceAccount for modules in tokyo.
const moduleAccount = "modules"

// stage is the fleet for all scenarios.
var stage struct {
	fleet         *fleet.Fleet
	berlin, tokyo *fleet.Runtime
	kind          *kind.Environment
	promoted      string                        // version of module beacon in channel regular
	patch         int                           // patch number of the last promoted version 1.1.PATCH
	undo          []func(context.Context) error // cleanup steps of the running scenario
	dir, failures string                        // folders for the run's files and for diagnostics
}

func TestMain(m *testing.M) {
	flag.Parse()
	if !*onKind {
		fmt.Println("kindscenario: skipped without -kind: run make test-kind")
		return
	}
	log.SetLogger(logr.Discard())
	os.Exit(runScenarios(m))
}

// runScenarios starts the stage, runs the scenarios, and removes the stage, even after an interrupt.
func runScenarios(m *testing.M) int {
	started, meter := time.Now(), kind.NewMeter()
	if err := prepareEnvironment(); err != nil {
		fmt.Fprintln(os.Stderr, "kindscenario:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	played := make(chan int, 1)
	go func() { played <- runStages(ctx, m) }()
	var code int
	select {
	case code = <-played:
	case <-ctx.Done():
	}
	var err error
	// The programs of a scenario also receive the signal. A scenario can therefore fail before the interrupt is handled
	// here.
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "kindscenario: interrupted")
		code, err = 130, removeAfterInterrupt()
	} else {
		err = removeAll()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kindscenario: remove the kind clusters:", err)
		code = max(code, 1)
	}
	memory := "memory usage not available"
	if peak, err := meter.Peak(); err == nil {
		memory = fmt.Sprintf("at most %d MiB of memory, including all other programs on this machine", peak>>20)
	}
	fmt.Printf("kind clusters: %s, %s\n", time.Since(started).Round(time.Second), memory)
	return code
}

// prepareEnvironment prepares the scenarios' environment, without clusters.
func prepareEnvironment() error {
	checkout, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	stage.dir, stage.failures = filepath.Join(checkout, "bin", "kind"), filepath.Join(checkout, "bin", "kind-failures")
	if stage.kind, err = kind.New(context.Background(), kind.Options{
		Checkout: checkout, Dir: stage.dir, Progress: os.Stderr, AirGapped: []string{airGappedRuntime},
		ModuleAccounts: map[string]string{"tokyo": moduleAccount},
		Release:        *dist,
	}); err != nil {
		return err
	}
	if err := os.RemoveAll(stage.failures); err != nil {
		return err
	}
	// After an API server outage, clients retry at increasing intervals of up to a minute.
	stage.fleet = fleet.New(fleet.Options{
		Dir: stage.dir, Environment: stage.kind, Progress: os.Stderr, SingleCluster: true, Links: true,
		TimeLimit: 4 * time.Minute,
	})
	return nil
}

func runStages(ctx context.Context, m *testing.M) int {
	if err := build(ctx); err != nil {
		if ctx.Err() != nil {
			return 130
		}
		fmt.Fprintln(os.Stderr, "kindscenario:", err)
		fmt.Fprintln(os.Stderr, gather(ctx, "setup"))
		return 1
	}
	return m.Run()
}

func build(ctx context.Context) error {
	if err := stage.kind.Prepare(ctx); err != nil {
		return err
	}
	if err := stage.fleet.Up(ctx); err != nil {
		return err
	}
	if err := stage.fleet.Offer(ctx, samplemodule.Good(), samplemodule.Prioritized(),
		samplemodule.Better()); err != nil {
		return err
	}
	if err := release(ctx, samplemodule.VersionGood); err != nil {
		return err
	}
	var err error
	if stage.berlin, err = stage.fleet.AddRuntime(ctx, "berlin", "regular", samplemodule.Module); err != nil {
		return err
	}
	if stage.tokyo, err = stage.fleet.AddRuntime(ctx, "tokyo", "regular"); err != nil {
		return err
	}
	return employModules(ctx, stage.tokyo)
}

// removeAll removes the scenarios' Docker objects. With -keep, it prints the kubeconfigs instead.
func removeAll() error {
	if *keep {
		kubeconfigs := stage.kind.Kubeconfigs()
		for _, name := range slices.Sorted(maps.Keys(kubeconfigs)) {
			fmt.Printf("export KUBECONFIG=%s  # %s\n", kubeconfigs[name], name)
		}
		return nil
	}
	return errors.Join(stage.fleet.Close(), os.RemoveAll(stage.dir))
}

// removeAfterInterrupt calls removeAll after an interrupted scenario.
func removeAfterInterrupt() error {
	if *keep {
		fmt.Printf("kept the kind clusters; their kubeconfigs are in %s\n", stage.dir)
		return nil
	}
	return errors.Join(stage.kind.Close(), os.RemoveAll(stage.dir))
}

// startScenario starts a scenario. When the scenario ends, it gathers diagnostics if the scenario failed, and then runs
// the cleanup steps.
func startScenario(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			t.Log(gather(ctx, t.Name()))
		}
		for _, step := range slices.Backward(stage.undo) {
			if err := step(ctx); err != nil {
				t.Errorf("undo the scenario's changes: %v", err)
			}
		}
		stage.undo = nil
	})
}

// addCleanup registers a cleanup step for the end of the running scenario. The steps run in reverse order.
func addCleanup(step func(context.Context) error) { stage.undo = append(stage.undo, step) }

// gather collects diagnostics after a failure and returns their folder.
func gather(ctx context.Context, name string) string {
	dir := filepath.Join(stage.failures, name)
	if err := stage.kind.Gather(ctx, dir); err != nil {
		return fmt.Sprintf("logs and state are in %s, but some are missing: %v", dir, err)
	}
	return "logs and state are in " + dir
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
	return stage.fleet.Release(ctx, samplemodule.Module, samplemodule.Good().Component(),
		sample.Channel("regular", version))
}

func promotedImage() string {
	if stage.promoted == samplemodule.VersionGood {
		return samplemodule.Image(samplemodule.VersionGood)
	}
	return samplemodule.Image(samplemodule.VersionBetter)
}

// promote releases a new version of module beacon and promotes it in channel regular.
func promote(t *testing.T) (version string) {
	t.Helper()
	stage.patch++
	version = fmt.Sprintf("1.1.%d", stage.patch)
	must(t, stage.fleet.Offer(t.Context(), samplemodule.Patch(version)))
	must(t, release(t.Context(), version))
	return version
}

// untilPromoted waits until a runtime has the promoted version of module beacon.
func untilPromoted(t *testing.T, r *fleet.Runtime) {
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

// add acts as the runtime's admin: it adds module beacon and waits until the module is ready.
func add(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	must(t, r.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: samplemodule.Module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}))
	must(t, r.UntilState(t.Context(), samplemodule.Module, stage.promoted, v1beta2.StateReady))
}

func settings(ctx context.Context, r *fleet.Runtime) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	err := r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: samplemodule.Settings}, config)
	return config, err
}

// drift changes one of the module's settings and waits until the agent corrects it.
func drift(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	config, err := settings(t.Context(), r)
	must(t, err)
	before := config.DeepCopy()
	config.Data["level"] = "debug"
	must(t, r.API.Patch(t.Context(), config, client.MergeFrom(before)))
	until(t, "the setting in "+r.ID+" is corrected", func() (bool, string) {
		config, err := settings(t.Context(), r)
		return err == nil && config.Data["level"] == "info", fmt.Sprint(config.Data, err)
	})
}

// untilRunning waits until all of the module operator's pods run an image.
func untilRunning(t *testing.T, r *fleet.Runtime, image string) {
	t.Helper()
	until(t, fmt.Sprintf("the operator in %s runs %s", r.ID, image), func() (bool, string) {
		var pods corev1.PodList
		err := r.API.List(t.Context(), &pods, client.InNamespace(v1beta2.RuntimeNamespace),
			client.MatchingLabels{"app": samplemodule.Operator})
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
