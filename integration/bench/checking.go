package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	checksPerModule = 3
	// quiet is the time until an agent is idle. watched is the duration of one measurement.
	quiet   = 20 * time.Second
	watched = 2 * time.Minute
)

// defaultIntervals are the agent's default intervals. The agents of a test fleet otherwise poll several times per
// second, which would dominate the CPU time of an idle agent.
var defaultIntervals = []string{"--agent-poll-interval=1m", "--agent-report-interval=5m"}

// checking measures the cost of module checks in an idle agent with 20 modules. It compares the agent without checks
// with the agent that runs three checks per module every 30 seconds.
func checking(ctx context.Context) ([]result, error) {
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
	if err := f.Control.Create(ctx, checked()); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := offer(ctx, f, mailerAs(name, "1.1.0")); err != nil {
			return nil, err
		}
	}
	if err := allReady(ctx, r, names, "1.1.0"); err != nil {
		return nil, err
	}
	with, err := idleAgent(ctx)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d modules with %d checks each, in an idle agent", modules, checksPerModule)
	return []result{
		{
			what + ": CPU",
			fmt.Sprintf("%.1f millicores, %.1f without", with.millicores, plain.millicores),
			"2 millicores more",
		},
		{
			what + ": anonymous memory",
			fmt.Sprintf("%d MiB, %d without", with.bytes>>20, plain.bytes>>20),
			"5 MiB more",
		},
	}, nil
}

// mailerAs returns a version of the sample module mailer with another name.
func mailerAs(name, version string) sample.Version {
	v := sample.Mailer(version)
	v.Module, v.Manifest, v.Manager = name, strings.ReplaceAll(v.Manifest, "mailer", name), name
	return v
}

// checked returns a policy that rolls out all modules in one wave with checks. The wave outlasts the measurement.
func checked() *v1alpha1.RolloutPolicy {
	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "checked"}}
	wave := v1alpha1.Wave{Name: "all", Percent: new(int32(100)), Soak: metav1.Duration{Duration: time.Hour}}
	for i := range checksPerModule {
		wave.Checks = append(wave.Checks, v1alpha1.Check{
			Name: fmt.Sprint("check-", i),
			CEL: &v1alpha1.CELCheck{
				APIVersion: "apps/v1", Kind: "Deployment", Namespace: v1beta2.RuntimeNamespace,
				Expression: fmt.Sprintf("objects.all(o, o.spec.replicas < %d)", 5+i),
			},
		})
	}
	policy.Spec.Waves = []v1alpha1.Wave{wave}
	return policy
}

func allReady(ctx context.Context, r *fleet.Runtime, names []string, version string) error {
	for _, name := range names {
		if err := r.UntilState(ctx, name, version, v1beta2.StateReady); err != nil {
			return err
		}
	}
	return nil
}

// idle is the resource usage of an idle agent.
type idle struct {
	millicores float64
	bytes      int64
}

func idleAgent(ctx context.Context) (idle, error) {
	pid, err := process.Child("skr-agent", "")
	if err != nil {
		return idle{}, err
	}
	if err := rest(ctx, quiet); err != nil {
		return idle{}, err
	}
	before, err := process.UsageOf(pid)
	if err != nil {
		return idle{}, err
	}
	if err := rest(ctx, watched); err != nil {
		return idle{}, err
	}
	after, err := process.UsageOf(pid)
	return idle{float64((after.CPU - before.CPU).Milliseconds()) / watched.Seconds(), after.Anonymous}, err
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
