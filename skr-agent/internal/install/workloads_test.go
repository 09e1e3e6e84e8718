package install

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// Sources of the expected states.
const (
	byKstatus    = "kstatus: cli-utils pkg/kstatus/status"
	byJobs       = "Kubernetes documentation, Jobs"
	byDeployment = "Kubernetes documentation, Deployments"
	byUpdates    = "Kubernetes documentation, update strategies of DaemonSets and StatefulSets"
	byVolumes    = "Kubernetes documentation, Storage Classes: volume binding mode"
	byPods       = "Kubernetes documentation, Pod lifecycle"
	byCRDs       = "Kubernetes documentation, CustomResourceDefinition conditions"
	byKyma       = "Kyma documentation, module CR: status.state"
	byExistence  = "kstatus: kinds without a status are current once they exist"
)

func TestStatesOfKinds(t *testing.T) {
	type row struct {
		name, source string
		object       string
		seen         observation
		state        v1beta2.State
	}
	const ready, processing, failed, warning = v1beta2.StateReady, v1beta2.StateProcessing, v1beta2.StateError,
		v1beta2.StateWarning
	deployment := func(spec, status string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, generation: 2}\nspec: " + spec +
			"\nstatus: " + status
	}
	set := func(kind, spec, status string) string {
		return "apiVersion: apps/v1\nkind: " + kind + "\nmetadata: {name: x, generation: 2}\nspec: " + spec +
			"\nstatus: " + status
	}
	job := func(spec, status string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, generation: 1}\nspec: " + spec + "\nstatus: " +
			status
	}
	core := func(kind, rest string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: x}\n" + rest
	}
	custom := func(group, status string) string {
		return "apiVersion: " + group + "/v1\nkind: X\nmetadata: {name: x, generation: 2}\nstatus: " + status
	}
	const available = `conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]`
	onDelete := `{updateStrategy: {type: OnDelete}}`
	rows := []row{
		{"a Job that has not started", byJobs, job("{}", "{}"), observation{}, processing},
		{
			"a running Job", byJobs, job("{}", `{startTime: "2026-01-01T00:00:00Z", active: 1}`), observation{},
			processing,
		},
		{
			"a Job that retries a failed Pod", byJobs,
			job("{}", `{startTime: "2026-01-01T00:00:00Z", active: 1, failed: 2}`), observation{}, processing,
		},
		{
			"a Job that has completed in part", byJobs,
			job("{completions: 3}", `{startTime: "2026-01-01T00:00:00Z", succeeded: 2, active: 1}`), observation{},
			processing,
		},
		{
			"a Job whose success is not final yet", byJobs,
			job("{}", `{startTime: "2026-01-01T00:00:00Z", conditions: [{type: SuccessCriteriaMet, status: "True"}]}`),
			observation{}, processing,
		},
		{
			"a completed Job", byJobs,
			job("{}",
				`{startTime: "2026-01-01T00:00:00Z", succeeded: 1, conditions: [{type: Complete, status: "True"}]}`),
			observation{}, ready,
		},
		{
			"a failed Job", byJobs,
			job("{}",
				`{startTime: "2026-01-01T00:00:00Z", failed: 7, conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded}]}`), observation{}, failed,
		},
		{"a suspended Job that never ran", byJobs, job("{suspend: true}", "{}"), observation{}, ready},
		{
			"a suspended Job that ran before", byJobs,
			job("{suspend: true}", `{conditions: [{type: Suspended, status: "True"}]}`), observation{}, ready,
		},
		{
			"a suspended Job that has failed", byJobs,
			job("{suspend: true}", `{conditions: [{type: Failed, status: "True"}]}`), observation{}, failed,
		},
		{
			"a completed Job that its TTL removed", byJobs, "",
			observation{key: key{Group: "batch", Kind: "Job", Name: "x"}, completed: true}, ready,
		},
		{
			"a Job that is missing", byJobs, "", observation{key: key{Group: "batch", Kind: "Job", Name: "x"}},
			processing,
		},
		{
			"a Job that is being deleted", byKstatus,
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, deletionTimestamp: 2026-01-01T00:00:00Z}\n",
			observation{}, processing,
		},
		{
			"a suspended CronJob", byExistence,
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\nspec: {suspend: true}", observation{}, ready,
		},

		{"a Deployment without a status", byKstatus, deployment("{replicas: 1}", "{}"), observation{}, processing},
		{
			"an available Deployment", byKstatus,
			deployment("{replicas: 1}",
				"{observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, "+
					available+"}"), observation{}, ready,
		},
		{
			"a Deployment whose controller has not seen its spec", byKstatus,
			deployment("{replicas: 1}",
				"{observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, "+
					available+"}"), observation{}, processing,
		},
		{
			"a Deployment in a rollout", byKstatus,
			deployment("{replicas: 2}",
				"{observedGeneration: 2, replicas: 3, updatedReplicas: 1, readyReplicas: 2, availableReplicas: 2}"),
			observation{}, processing,
		},
		{
			"a Deployment past its deadline", byKstatus,
			deployment("{replicas: 1}",
				`{observedGeneration: 2, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`), observation{}, failed,
		},
		{
			"a Deployment scaled to zero", byKstatus,
			deployment("{replicas: 0}", "{observedGeneration: 2, "+available+"}"), observation{}, ready,
		},
		{
			"a paused Deployment whose old Pods are available", byDeployment,
			deployment("{replicas: 2, paused: true}",
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2}"), observation{}, ready,
		},
		{
			"a paused Deployment that was never rolled out", byDeployment,
			deployment("{replicas: 2, paused: true}", "{observedGeneration: 2}"), observation{}, ready,
		},
		{
			"a paused Deployment whose Pods are down", byDeployment,
			deployment("{replicas: 2, paused: true}", "{observedGeneration: 2, replicas: 2, availableReplicas: 1}"),
			observation{}, processing,
		},

		{
			"a DaemonSet with OnDelete and old Pods", byUpdates,
			set("DaemonSet", onDelete,
				"{observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, "+
					"updatedNumberScheduled: 0, numberReady: 2, numberAvailable: 2}"), observation{}, ready,
		},
		{
			"a DaemonSet with OnDelete and Pods that are down", byUpdates,
			set("DaemonSet", onDelete,
				"{observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 1, "+
					"numberAvailable: 1}"), observation{}, processing,
		},
		{
			"a DaemonSet in a rollout", byKstatus,
			set("DaemonSet", "{}",
				"{observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, "+
					"updatedNumberScheduled: 1, numberReady: 2, numberAvailable: 2}"), observation{}, processing,
		},
		{
			"a DaemonSet without nodes", byKstatus,
			set("DaemonSet", "{}",
				"{observedGeneration: 2, desiredNumberScheduled: 0, currentNumberScheduled: 0, numberReady: 0}"),
			observation{}, ready,
		},
		{
			"a StatefulSet with OnDelete and old Pods", byUpdates,
			set("StatefulSet", onDelete,
				"{observedGeneration: 2, replicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}"),
			observation{}, ready,
		},
		{
			"a StatefulSet with OnDelete and no ready Pod", byUpdates,
			set("StatefulSet", onDelete, "{observedGeneration: 2, replicas: 1}"), observation{}, processing,
		},
		{
			"a StatefulSet in a rollout", byKstatus,
			set("StatefulSet", "{replicas: 2}",
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, currentReplicas: 1, updatedReplicas: 1, "+
					"currentRevision: a, updateRevision: b}"), observation{}, processing,
		},
		{
			"a StatefulSet whose partition is complete", byUpdates,
			set("StatefulSet", "{replicas: 2, updateStrategy: {rollingUpdate: {partition: 1}}}",
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, updatedReplicas: 1}"), observation{}, ready,
		},
		{
			"a ReplicaSet with too few Pods", byKstatus,
			set("ReplicaSet", "{replicas: 2}",
				"{observedGeneration: 2, replicas: 1, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1}"), observation{}, processing,
		},

		{"a bound claim", byKstatus, core("PersistentVolumeClaim", "status: {phase: Bound}"), observation{}, ready},
		{
			"a pending claim", byKstatus, core("PersistentVolumeClaim", "status: {phase: Pending}"), observation{},
			processing,
		},
		{
			"a pending claim that waits for its first Pod", byVolumes,
			core("PersistentVolumeClaim", "status: {phase: Pending}"), observation{waitsForPod: true}, ready,
		},
		{
			"a pending claim whose Pod was scheduled", byVolumes,
			"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x, annotations: " +
				"{volume.kubernetes.io/selected-node: node-1}}\nstatus: {phase: Pending}",
			observation{waitsForPod: true}, processing,
		},
		{
			"a lost claim", byKstatus, core("PersistentVolumeClaim", "status: {phase: Lost}"),
			observation{waitsForPod: true}, processing,
		},

		{"a Pod that has succeeded", byPods, core("Pod", "status: {phase: Succeeded}"), observation{}, ready},
		{
			"a Pod that has failed", byPods, core("Pod", "status: {phase: Failed, reason: Evicted}"), observation{},
			failed,
		},
		{"a Pod that is not ready", byKstatus, core("Pod", "status: {phase: Running}"), observation{}, processing},
		{
			"a ready Pod", byKstatus,
			core("Pod", `status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`), observation{}, ready,
		},

		{
			"a definition that is not established", byCRDs,
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n", observation{},
			processing,
		},
		{
			"an established definition", byCRDs,
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n" +
				`status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}`,
			observation{}, ready,
		},
		{"a ConfigMap", byExistence, core("ConfigMap", ""), observation{}, ready},

		{"a custom resource without a status", byKstatus, custom("example.org", "{}"), observation{}, ready},
		{
			"a custom resource that is not ready", byKstatus,
			custom("example.org", `{conditions: [{type: Ready, status: "False"}]}`), observation{}, processing,
		},
		{
			"a custom resource that is stalled", byKstatus,
			custom("example.org", `{conditions: [{type: Stalled, status: "True"}]}`), observation{}, failed,
		},
		{
			"a custom resource of an approved group that is stalled", byKstatus,
			custom("gateway.networking.k8s.io", `{conditions: [{type: Stalled, status: "True"}]}`), observation{},
			failed,
		},
		{
			"a custom resource of an approved group in state Error", byKyma,
			custom("snapshot.storage.k8s.io", "{state: Error}"), observation{}, failed,
		},
		{
			"a custom resource in state Warning", byKyma, custom("example.org", "{state: Warning}"), observation{},
			warning,
		},
		{
			"a custom resource that cannot be read", byKstatus, "",
			observation{key: key{Group: "example.org", Kind: "X", Name: "x"}, unreadable: "conversion webhook failed"},
			processing,
		},
	}
	require.GreaterOrEqual(t, len(rows), 40)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if r.object != "" {
				r.seen.object = liveObject(t, r.object)
				r.seen.key = guard.KeyOf(r.seen.object)
			}
			got := judge([]observation{r.seen})
			require.Equal(t, r.state, got.state, "%s (%s)", got.message, r.source)
		})
	}
}

func TestCustomResourcesAreRemovedBeforeTheirOperator(t *testing.T) {
	gate := resource("Gateway", "gateway.networking.k8s.io", "x")
	require.True(t, hasStatus(gate))
	stages := removalStages([]v1beta2.Resource{resource("Deployment", "apps", "operator"), gate})
	require.Equal(t, "Gateway x", named(stages[0]))
	require.Equal(t, 3,
		stageOf(liveObject(t, "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: x}")))
	require.Equal(t, 2, stageOf(liveObject(t, "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: x}")))
}
