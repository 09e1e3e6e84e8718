package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/sample"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sampled is the number of Kymas whose size is measured.
const sampled = 50

// measureSizes measures the size of Kymas and of their parts, such as the status. It also measures the memory of the
// programs.
func (w *world) measureSizes(ctx context.Context) error {
	if w.pending {
		if err := w.converge(ctx); err != nil {
			return err
		}
	}
	parts := map[string][]int{}
	for i := range min(sampled, w.Runtimes) {
		data, err := w.api.Get().AbsPath(kymasPath, runtimeID(i)).Timeout(time.Minute).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("measure the size of Kyma %s: %w", runtimeID(i), err)
		}
		var whole struct {
			Metadata struct{ ManagedFields json.RawMessage }
			Status   json.RawMessage
		}
		if err := json.Unmarshal(data, &whole); err != nil {
			return fmt.Errorf("measure the size of Kyma %s: %w", runtimeID(i), err)
		}
		var status struct{ Modules json.RawMessage }
		if err := json.Unmarshal(whole.Status, &status); err != nil {
			return fmt.Errorf("measure the size of Kyma %s: %w", runtimeID(i), err)
		}
		for part, data := range map[string][]byte{"the whole": data, "status": whole.Status,
			"status.modules": status.Modules, "managedFields": whole.Metadata.ManagedFields} {
			parts[part] = append(parts[part], len(data))
		}
	}
	for _, part := range []string{"the whole", "status", "status.modules", "managedFields"} {
		slices.Sort(parts[part])
		w.add(float64(parts[part][len(parts[part])/2]), size, "converged Kyma, "+part, "")
	}
	heap, err := w.liveHeap(ctx)
	if err != nil {
		return err
	}
	w.add(float64(heap), size, "publisher's live heap", "")
	w.add(float64(heap)/float64(w.Runtimes), size, "publisher's live heap for each runtime", "")
	for _, name := range []string{"kube-apiserver", "etcd", "registry"} {
		u, err := process.UsageOf(w.pid(name))
		if err != nil {
			return err
		}
		w.add(float64(u.Resident), size, "memory of "+name, fmt.Sprintf("peak %d MiB", u.Peak>>20))
	}
	return w.recordMemory("publisher's memory")
}

// measureIdleFleet measures a fleet without changes. Its programs only poll.
func (w *world) measureIdleFleet(ctx context.Context) error {
	if w.pending {
		if err := w.converge(ctx); err != nil {
			return err
		}
	}
	if _, err := w.untilIdle(ctx, time.Now()); err != nil {
		return err
	}
	w.agents.spread()
	w.agents.resume(false)
	defer w.agents.suspend()
	traffic, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	writes, err := w.writes(ctx)
	if err != nil {
		return err
	}
	defer w.profile(ctx)()
	spent, started := w.taken(), time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(w.Idle):
	}
	took, used := time.Since(started), w.taken().since(spent)
	written, err := w.writes(ctx)
	if err != nil {
		return err
	}
	now, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	written, now = written.since(writes), now.requestsSince(traffic)
	heartbeats := now.n(agentsHost, http.MethodPut, aboutReports)
	w.add(written.total()/took.Minutes(), perMinute, "API writes, without leases",
		strings.TrimSpace(fmt.Sprintf("%d heartbeats; %s", heartbeats, written)))
	w.add(float64(now.total(publisherHost))/took.Minutes(), perMinute, "registry requests of the publisher", "")
	for _, name := range processes {
		w.add(used.by[name].Seconds()*1000/took.Seconds(), millicores, "CPU of "+name, "")
	}
	return nil
}

// String lists the writes, most frequent first.
func (w writesByResource) String() string {
	kinds := make([]string, 0, len(w))
	for kind := range w {
		kinds = append(kinds, kind)
	}
	sort.Slice(kinds, func(i, j int) bool { return w[kinds[i]] > w[kinds[j]] })
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%.0f %s", w[kind], kind)
	}
	return strings.Join(kinds, ", ")
}

// rolloutWaves returns the waves of the measured rollout.
func rolloutWaves() v1alpha1.Course {
	percent := func(n int32) *int32 { return &n }
	return v1alpha1.Course{OnFailure: v1alpha1.OnFailureStop, Waves: []v1alpha1.Wave{
		{Name: "canary", Percent: percent(1)}, {Name: "tenth", Percent: percent(10)},
		{Name: "all", Percent: percent(100)},
	}}
}

// measureWaves measures a rollout in waves with regular polls.
func (w *world) measureWaves(ctx context.Context) error {
	if w.pending {
		if err := w.converge(ctx); err != nil {
			return err
		}
	}
	policy := &v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "careful"},
		Spec:       v1alpha1.RolloutPolicySpec{Modules: []string{promotedModule}, Course: rolloutWaves()},
	}
	if err := w.control.Create(ctx, policy); err != nil {
		return fmt.Errorf("create RolloutPolicy: %w", err)
	}
	if _, err := w.untilIdle(ctx, time.Now()); err != nil {
		return err
	}
	traffic, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	writes, err := w.writes(ctx)
	if err != nil {
		return err
	}
	metrics, err := w.publisherMetrics(ctx)
	if err != nil {
		return err
	}
	w.agents.resume(false)
	defer w.agents.suspend()
	started := time.Now()
	if err := w.promote(ctx); err != nil {
		return err
	}
	w.pending = true
	if err := w.untilProven(ctx, started); err != nil {
		return err
	}
	if _, err := w.untilRight(ctx, w.Runtimes, w.isUpToDate); err != nil {
		return err
	}
	w.pending = false
	if err := w.wavesCost(ctx, traffic, writes, metrics); err != nil {
		return err
	}
	w.agents.suspend()
	if err := w.control.Delete(ctx, policy); err != nil {
		return fmt.Errorf("delete RolloutPolicy: %w", err)
	}
	if err := w.control.DeleteAllOf(ctx, &v1alpha1.Rollout{}, client.InNamespace(sample.Namespace)); err != nil {
		return fmt.Errorf("delete Rollouts: %w", err)
	}
	_, err = w.untilIdle(ctx, time.Now())
	return err
}

// untilProven waits until the rollout has succeeded. It records the time until each wave has proven the version.
func (w *world) untilProven(ctx context.Context, started time.Time) error {
	proven := 0
	return w.waitUntil(ctx, "the rollout has succeeded", func() (bool, string) {
		var all v1alpha1.RolloutList
		if err := w.control.List(ctx, &all, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		for _, r := range all.Items {
			if r.Spec.To != promotedVersion(w.version) {
				continue
			}
			for proven < len(r.Status.Waves) && r.Status.Waves[proven].ProvenAt != nil {
				wave := r.Status.Waves[proven]
				w.add(time.Since(started).Seconds(), seconds, fmt.Sprintf("edit -> wave %s is proven", wave.Name),
					fmt.Sprintf("%d runtimes, %s", wave.Total, w.describePolling()))
				proven++
			}
			return r.Status.State == v1alpha1.RolloutSucceeded,
				fmt.Sprintf("%s: %s, %s", r.Status.State, r.Status.Wave, r.Status.Message)
		}
		return false, "no rollout"
	})
}

func (w *world) wavesCost(ctx context.Context, traffic requestCounts, writes writesByResource, metrics families) error {
	now, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	written, err := w.writes(ctx)
	if err != nil {
		return err
	}
	later, err := w.publisherMetrics(ctx)
	if err != nil {
		return err
	}
	n := float64(w.Runtimes)
	w.add(float64(now.requestsSince(traffic).n(publisherHost, http.MethodPut, aboutBundles))/n, number,
		"bundles pushed for each runtime", "")
	w.add(written.since(writes)[statusPatches]/n, number, "status patches for each runtime", "")
	steps, took := later.histogramTotals(reconcileTime, planner)
	stepsBefore, tookBefore := metrics.histogramTotals(reconcileTime, planner)
	if steps > stepsBefore {
		w.add((took-tookBefore)/float64(steps-stepsBefore)*1000, "ms", "planner's step",
			fmt.Sprintf("wall time, mean of %d steps; no metric reports its CPU time", steps-stepsBefore))
	}
	return nil
}

// reconcileTime is controller-runtime's metric for the duration of reconciliations.
const reconcileTime = "controller_runtime_reconcile_time_seconds"

var planner = map[string]string{"controller": "rollouts"}
