package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	checksPerModule = 3
	// timeUntilIdle is how long to wait until an agent is idle. measuredTime is the duration of one measurement.
	timeUntilIdle = 20 * time.Second
	measuredTime  = 2 * time.Minute
)

// defaultIntervals are the agent's default intervals. A test fleet's agents otherwise poll several times per second,
// which would dominate an idle agent's CPU time.
var defaultIntervals = []string{"--agent-poll-interval=1m", "--agent-report-interval=5m"}

// measureChecks measures the cost of module checks for an idle agent with 20 modules. It compares an agent without
// checks with an agent that runs three checks of one kind per module every 30 seconds. This process replaces the Job
// controller, which the runtime does not have.
func measureChecks(ctx context.Context) ([]result, error) {
	f, err := fleet.Start(ctx, fleet.Options{Measured: true, PublisherFlags: defaultIntervals})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names := make([]string, modules)
	for i := range names {
		names[i] = "module-" + strings.Repeat(string(rune('a'+i)), 3)
		if err := offer(ctx, f, mailerAs(names[i], "1.0.0")); err != nil {
			return nil, err
		}
	}
	r, err := f.AddRuntime(ctx, "one", "regular", names...)
	if err != nil {
		return nil, err
	}
	if err := allReady(ctx, r, names, "1.0.0"); err != nil {
		return nil, err
	}
	plain, err := idleAgent(ctx)
	if err != nil {
		return nil, err
	}
	service, stop, err := serveChecks(ctx, r.API)
	if err != nil {
		return nil, err
	}
	defer stop()
	var all []result
	if err := allowJobs(ctx, r.API); err != nil {
		return nil, err
	}
	completing, stopCompleting := context.WithCancel(ctx)
	defer stopCompleting() // before the runtime's API server stops
	go completeJobs(completing, r.API)
	for i, kind := range []string{"cel", "http", "promql", "job"} {
		version := fmt.Sprintf("1.%d.0", i+1)
		with, err := checkedAgent(ctx, f, r, names, version, checksOf(kind, service))
		if err != nil {
			return nil, fmt.Errorf("%s checks: %w", kind, err)
		}
		what := fmt.Sprintf("%d modules with %d %s checks each, in an idle agent", modules, checksPerModule, kind)
		all = append(all, result{
			what + ": CPU",
			fmt.Sprintf("%.1f millicores, %.1f without", with.millicores, plain.millicores),
			"2 millicores more",
		}, result{
			what + ": anonymous memory",
			fmt.Sprintf("%d MiB, %d without", with.bytes>>20, plain.bytes>>20),
			"5 MiB more",
		})
	}
	return all, nil
}

// checkedAgent upgrades all modules to a version with these checks, and returns the idle agent's resource usage.
func checkedAgent(
	ctx context.Context, f *fleet.Fleet, r *fleet.Runtime, names []string, version string, checks []v1alpha1.Check,
) (idleUsage, error) {
	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "checked"}}
	_, err := controllerutil.CreateOrUpdate(ctx, f.Control, policy, func() error {
		// One wave updates all modules and outlasts the measurement.
		policy.Spec.Waves = []v1alpha1.Wave{{
			Name: "all", Percent: new(int32(100)), Soak: metav1.Duration{Duration: time.Hour}, Checks: checks,
		}}
		return nil
	})
	if err != nil {
		return idleUsage{}, err
	}
	for _, name := range names {
		if err := offer(ctx, f, withJobs(mailerAs(name, version), checks)); err != nil {
			return idleUsage{}, err
		}
	}
	if err := allReady(ctx, r, names, version); err != nil {
		return idleUsage{}, err
	}
	return idleAgent(ctx)
}

// mailerAs returns a version of the sample module mailer with a different name.
func mailerAs(name, version string) sample.Version {
	v := sample.Mailer(version)
	v.Module, v.Manifest, v.Manager = name, strings.ReplaceAll(v.Manifest, "mailer", name), name
	return v
}

// checksOf returns checks of one kind that succeed. A check of kind job has only a name, because only a module's
// content can contain the Job (see withJobs).
func checksOf(kind string, service v1alpha1.ServiceReference) (all []v1alpha1.Check) {
	for i := range checksPerModule {
		c := v1alpha1.Check{Name: fmt.Sprint("check-", i)}
		switch kind {
		case "cel":
			c.CEL = &v1alpha1.CELCheck{
				APIVersion: "apps/v1", Kind: "Deployment", Namespace: v1beta2.RuntimeNamespace,
				Expression: fmt.Sprintf("objects.all(o, o.spec.replicas < %d)", 5+i),
			}
		case "http":
			c.HTTP = &v1alpha1.HTTPCheck{
				Service: service, Path: "/healthz", MaxLatency: metav1.Duration{Duration: 5 * time.Second},
				Expression: fmt.Sprintf("body.queue < %d", 100+i),
			}
		case "promql":
			c.PromQL = &v1alpha1.PromQLCheck{
				Service: service, Query: fmt.Sprintf("sum(rate(errors_total[%dm]))", 5+i), Max: "0.5",
			}
		}
		all = append(all, c)
	}
	return all
}

func allReady(ctx context.Context, r *fleet.Runtime, names []string, version string) error {
	for _, name := range names {
		if err := r.UntilState(ctx, name, version, v1beta2.StateReady); err != nil {
			return err
		}
	}
	return nil
}

// idleUsage is an idle agent's resource usage.
type idleUsage struct {
	millicores float64
	bytes      int64
}

func idleAgent(ctx context.Context) (idleUsage, error) {
	pid, err := process.Child("skr-agent", "")
	if err != nil {
		return idleUsage{}, err
	}
	if err := rest(ctx, timeUntilIdle); err != nil {
		return idleUsage{}, err
	}
	before, err := process.UsageOf(pid)
	if err != nil {
		return idleUsage{}, err
	}
	if err := rest(ctx, measuredTime); err != nil {
		return idleUsage{}, err
	}
	after, err := process.UsageOf(pid)
	return idleUsage{float64((after.CPU - before.CPU).Milliseconds()) / measuredTime.Seconds(), after.Anonymous}, err
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
