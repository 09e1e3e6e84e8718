package ui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// hostile combines several ways in which text in a runtime's report could break out of its element.
const hostile = `</title></td><script>document.title="owned"</script><img src=x onerror="document.title='owned'"> "'&{{.}}` + "\u202e\x1b[31m"

const regionLabel = "topology.kubernetes.io/region"

// sampleFleet returns a fleet of n runtimes. If well is false, a few of every hundred runtimes have problems.
func sampleFleet(n int, well bool) fleet.Fleet {
	f := fleet.Fleet{Time: noon}
	for i := range n {
		f.Runtimes = append(f.Runtimes, sampleRuntime(i, well))
	}
	slices.SortFunc(f.Runtimes, func(a, b fleet.Runtime) int { return cmp.Compare(a.ID, b.ID) })
	f.Modules = []fleet.Module{
		{Name: "keda", Channels: map[string]string{"fast": "1.8.0", "regular": "1.7.0"}},
		{Name: "serverless", Channels: map[string]string{"fast": "2.1.0", "regular": "2.1.0"}},
	}
	for at, name := range []string{"keda", "serverless"} {
		versions := map[string]map[v1beta2.State]int{}
		for i := range f.Runtimes {
			for _, m := range f.Runtimes[i].Modules {
				if m.Name != name {
					continue
				}
				if versions[m.Version] == nil {
					versions[m.Version] = map[v1beta2.State]int{}
				}
				versions[m.Version][m.State]++
			}
		}
		for version, states := range versions {
			f.Modules[at].Versions = append(f.Modules[at].Versions,
				fleet.ModuleVersion{Version: version, States: states})
		}
		slices.SortFunc(f.Modules[at].Versions, func(a, b fleet.ModuleVersion) int {
			return cmp.Compare(b.Version, a.Version)
		})
	}
	if n > 1 {
		f.Rollouts = sampleRollouts(well)
	}
	if !well {
		f.Warnings = []fleet.Cause{
			{
				Situation: fleet.RootExpiresSoon, Message: "the root of trust expires at 2026-12-10T00:00:00Z",
				Advice: "Sign the next root with `kcp-publisher keys rotate` before that.",
			},
		}
	}
	return f
}

func sampleRuntime(i int, well bool) fleet.Runtime {
	reportedAt := noon.Add(-time.Duration(i%7) * time.Minute)
	keda := "1.7.0"
	if i%10 < 3 {
		keda = "1.8.0"
	}
	r := fleet.Runtime{
		ID: fmt.Sprintf("r-%05d", i), Namespace: "kcp-system", Kyma: fmt.Sprintf("kyma-%05d", i),
		Channel: []string{"regular", "regular", "fast"}[i%3],
		Labels: map[string]string{
			regionLabel:            []string{"eu-central-1", "us-east-1", "ap-south-1"}[i%3],
			"kyma-project.io/plan": []string{"aws", "gcp"}[i%2],
		},
		State: v1beta2.StateReady, Health: fleet.Healthy, LastReport: &reportedAt, Reporting: true,
		Published: 1763812000000 + int64(i), InForce: 1763812000000 + int64(i),
		Agent: "0.9.0", Kubernetes: "v1.36.3", Modules: []fleet.RuntimeModule{
			{Name: "keda", Channel: "regular", Version: keda, Asked: keda, State: v1beta2.StateReady},
			{Name: "serverless", Channel: "regular", Version: "2.1.0", Asked: "2.1.0", State: v1beta2.StateReady},
		},
	}
	if well {
		return r
	}
	began := noon.Add(-3 * time.Hour)
	switch i % 100 {
	case 1, 2, 3:
		r.Health, r.State, r.Since = fleet.Failing, v1beta2.StateError, &began
		r.Cause = &fleet.Cause{
			Situation: fleet.ModuleBroken,
			Message: "module keda is Error: Deployment kyma-system/keda-operator: container keda-operator crashes " +
				"(CrashLoopBackOff), restarted 14 times",
			Advice: "See the log of the workload in the runtime. To roll back a broken version, run " +
				"`kcp-publisher rollout undo`.",
		}
		r.Modules[0].State, r.Modules[0].Message = v1beta2.StateError,
			"Deployment kyma-system/keda-operator: container keda-operator crashes (CrashLoopBackOff), restarted 14 "+
				"times"
		r.Modules[0].Asked = "1.8.0"
	case 4:
		r.Health, r.State, r.Since = fleet.Failing, v1beta2.StateError, &began
		r.Cause = &fleet.Cause{
			Situation: fleet.BundleKeyUnknown,
			Message:   "the runtime refused the bundle: it is signed with a key that its root of trust does not name",
			Advice:    "Give the runtime the newest root of trust, or publish with a key that its root names.",
		}
	case 5:
		long := noon.Add(-26 * time.Hour)
		r.Health, r.Reporting, r.LastReport, r.Since = fleet.Silent, false, &long, &long
		r.Cause = &fleet.Cause{
			Situation: fleet.SilentRuntime, Message: "the runtime has not reported for 26h0m0s",
			Advice: "See whether the agent runs and reaches the registry: `kubectl -n kyma-system logs " +
				"deploy/skr-agent`.",
		}
	case 6:
		r.Health, r.Reporting, r.LastReport, r.InForce, r.Agent, r.Kubernetes, r.State = fleet.NeverReported, false,
			nil, 0, "", "", v1beta2.StateProcessing
		r.Cause = &fleet.Cause{
			Situation: fleet.NeverEnrolled, Message: "no agent of this runtime has reported yet",
			Advice: "Enroll it with `kcp-publisher enroll`, and install the agent with what that prints.",
		}
		for m := range r.Modules {
			r.Modules[m].Version, r.Modules[m].State = "", v1beta2.StateProcessing
		}
	case 7, 8:
		r.Health, r.State, r.InForce = fleet.Behind, v1beta2.StateProcessing, r.InForce-5000
		r.Cause = &fleet.Cause{
			Situation: fleet.BundlePending, Message: "the newest bundle is published and not in force yet",
			Advice: "Nothing to do: the agent asks every minute.",
		}
		r.Modules[0].Asked, r.Modules[0].State = "1.8.0", v1beta2.StateProcessing
	case 9:
		r.Health = fleet.Suspended
		r.Cause = &fleet.Cause{
			Situation: fleet.Suspension, Message: "the Kyma is labeled operator.kyma-project.io/skip-reconciliation",
			Advice: "Nothing is published until the label is gone.",
		}
	case 10:
		r.Modules[0].Held = "rollout keda-regular-4 holds version 1.8.0 back: wave rest has not begun"
	}
	return r
}

func sampleRollouts(well bool) []fleet.Rollout {
	started, ready, end, over := metav1.NewTime(noon.Add(-95*time.Minute)), metav1.NewTime(noon.Add(-10*time.Minute)),
		metav1.NewTime(noon.Add(70*time.Minute)), metav1.NewTime(noon.Add(-50*time.Hour))
	under := fleet.Rollout{
		Name: "keda-regular-4", Namespace: "kcp-system", Active: true,
		Spec: v1alpha1.RolloutSpec{Policy: "careful", Module: "keda", Channel: "regular", Revision: 4, From: "1.7.0",
			To: "1.8.0", Course: v1alpha1.Course{Waves: []v1alpha1.Wave{
				{Name: "canaries"}, {Name: "tenth", Soak: metav1.Duration{Duration: 30 * time.Minute}},
				{Name: "rest", Approval: true},
			}}},
		Status: v1alpha1.RolloutStatus{
			State: v1alpha1.RolloutProgressing, Message: "wave tenth: soaking before the next wave starts",
			Wave: "2/3 tenth", Progress: "98/1000", Total: 1000, Updated: 98, Failed: 3, Deferred: 2,
			StartedAt: &started, EstimatedEnd: &end,
			Waves: []v1alpha1.WaveStatus{
				{Name: "canaries", State: v1alpha1.WaveProven, Total: 10, Updated: 10},
				{Name: "tenth", State: v1alpha1.WaveSoaking, Total: 100, Updated: 88, InFlight: 7, Failed: 3,
					Deferred: 2, ReadyAt: &ready,
					Checks: []v1alpha1.CheckSummary{{
						Name: "latency", Passed: 86, Failed: 1, Inconclusive: 8,
						Median: "0.23", MedianBefore: "0.21", Worst: "0.92", WorstBefore: "0.25",
						WorstRuntime: "r-00001",
					}}},
				{Name: "rest", State: v1alpha1.WavePending, Total: 890},
			},
			Failures: []v1alpha1.RuntimeFailure{
				{
					Runtime: "r-00001", Wave: "tenth",
					Reason: "module is Error: Deployment kyma-system/keda-operator: container keda-operator crashes",
				},
				{Runtime: "r-00002", Wave: "tenth", Reason: "not ready within 30m0s"},
			},
		},
	}
	done := fleet.Rollout{
		Name: "serverless-regular-2", Namespace: "kcp-system", Spec: v1alpha1.RolloutSpec{
			Policy: "careful", Module: "serverless", Channel: "regular", From: "2.0.0", To: "2.1.0",
		},
		Status: v1alpha1.RolloutStatus{
			State: v1alpha1.RolloutSucceeded, Message: "all waves are through", Total: 1000, Updated: 998, Deferred: 2,
			StartedAt: &over, FinishedAt: &over,
		},
	}
	if well {
		under.Status.Failed, under.Status.Failures, under.Status.Waves[1].Failed, under.Status.Waves[1].Updated = 0,
			nil, 0, 91
	}
	return []fleet.Rollout{under, done}
}

func sampleKyma(_ context.Context, r *fleet.Runtime) (*v1beta2.Kyma, error) {
	versions := map[string]string{}
	for _, m := range r.Modules {
		versions[m.Name] = m.Asked
	}
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: r.Kyma, Namespace: r.Namespace}}
	if r.Health == fleet.Failing {
		kyma.Annotations = map[string]string{v1beta2.AnnotationReportDetails: "events,logs,objects"}
	}
	kyma.Status.LastOperation = &v1beta2.LastOperation{
		Operation: "kyma is " + string(r.State), LastUpdateTime: metav1.NewTime(noon.Add(-2 * time.Hour)),
	}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{
		Epoch: 1, Sequence: r.Published,
		Digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Time:   metav1.NewTime(noon.Add(-4 * time.Minute)), Versions: versions,
		Given: map[string]v1beta2.GivenVersion{"keda": {Rollout: "keda-regular-4", Checks: []v1beta2.CheckOutcome{{
			Name: "latency", Result: v1beta2.CheckInconclusive, Value: "0.4", Before: "0.1", Message: "no data" + hostile,
		}}}},
	}}
	if r.InForce != 0 {
		kyma.Status.Runtime.Observed = &v1beta2.ObservedBundle{
			Epoch: 1, Sequence: r.InForce, Digest: sampleInForce, Time: metav1.NewTime(noon.Add(-3 * time.Hour)),
		}
	}
	kyma.Status.Runtime.History = sampleHistory(kyma.Status.Runtime)
	if newest := &kyma.Status.Runtime.History[0]; r.InForce == r.Published {
		applied := metav1.NewTime(noon.Add(-2 * time.Minute))
		newest.Applied, newest.State = &applied, r.State
		kyma.Status.Runtime.Observed.Digest = newest.Digest
	}
	return kyma, nil
}

const (
	sampleInForce = "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
	sampleRefused = "sha256:fd61a03af4f77d870fc21e05e7e80678095c92d808cfb3b5c279ee04c74aca13"
	sampleOldest  = "sha256:a4e624d686e03ed2767c0abd85c14426b0b1157d2ce81d27bb4fe4f6f01d688a"
	sampleCommit  = "5d41402abc4b2a76b9719d911017c592aabbccdd"
)

// sampleHistory returns the newest bundle, the applied bundle, a refused bundle, and a bundle with hostile text.
func sampleHistory(r *v1beta2.RuntimeStatus) []v1beta2.BundleRecord {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }
	applied, before := ago(3*time.Hour), ago(50*time.Hour)
	return []v1beta2.BundleRecord{
		{
			Epoch: 1, Sequence: r.Published.Sequence, Digest: r.Published.Digest, Published: r.Published.Time,
			Changes: []v1beta2.VersionChange{{Module: "keda", From: "1.7.0", To: "1.8.0"}},
		},
		{Epoch: 1, Sequence: 1763801000000, Digest: sampleInForce, Published: ago(4 * time.Hour), Applied: &applied,
			State: v1beta2.StateReady, Commit: sampleCommit,
			Changes: []v1beta2.VersionChange{{Module: "keda", From: "1.6.0", To: "1.7.0"},
				{Module: "mailer", From: "0.3.0"}, {Module: "serverless", To: "2.1.0"}}, More: 2},
		{
			Epoch: 1, Sequence: 1763701000000, Digest: sampleRefused, Published: ago(30 * time.Hour),
			Refused: "Downgrade",
		},
		{Epoch: 1, Sequence: 1763601000000, Digest: sampleOldest, Published: ago(51 * time.Hour), Applied: &before,
			State: v1beta2.StateError, Commit: hostile,
			Changes: []v1beta2.VersionChange{{Module: hostile, From: hostile, To: hostile}}},
	}
}

func sampleChain(_ context.Context, kyma *v1beta2.Kyma) (fleet.Chain, error) {
	p := kyma.Status.Runtime.Published
	signed := func(sequence int64, of string, at time.Time) bundle.BundleIdentity {
		return bundle.BundleIdentity{Digest: digest.Digest(of), Epoch: 1, Sequence: sequence, IssuedAt: at,
			ExpiresAt: at.Add(720 * time.Hour), RootVersion: 3,
			PublisherKey: "RSTxaS7Vbo7ycU1bUnnEaFo2Yd9P7zLYuOeH3SrKXVY=", Source: &bundle.Source{
				Repository: "https://git.example.org/fleet", Commit: sampleCommit,
			}}
	}
	return fleet.Chain{Asked: true, EndReason: "bundle " + sampleRefused + ": not found in registry.example.org",
		Bundles: []bundle.BundleIdentity{
			signed(p.Sequence, p.Digest, p.Time.Time), signed(1763801000000, sampleInForce, noon.Add(-4*time.Hour)),
		}}, nil
}
