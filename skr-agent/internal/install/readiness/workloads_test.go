package readiness

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content/contenttest"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// The constants name the documents that define the expected states.
const (
	byKstatus     = "kstatus: cli-utils pkg/kstatus/status"
	byJobs        = "Kubernetes documentation, Jobs"
	byDeployment  = "Kubernetes documentation, Deployments"
	byUpdates     = "Kubernetes documentation, update strategies of DaemonSets and StatefulSets"
	byVolumes     = "Kubernetes documentation, Storage Classes: volume binding mode"
	byPods        = "Kubernetes documentation, Pod lifecycle"
	byCRDs        = "Kubernetes documentation, CustomResourceDefinition conditions"
	byAPIServices = "Kubernetes API reference, APIServiceStatus"
	byReplication = "Kubernetes API reference, ReplicationControllerStatus"
	byKyma        = "Kyma documentation, module CR: status.state"
	byExistence   = "kstatus: kinds without a status are current once they exist"
)

func TestObjectStatesMatchDocumentation(t *testing.T) {
	type row struct {
		name, source string
		object       string
		seen         Observation
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
	apiService := func(spec, status string) string {
		return "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: x}\nspec: " + spec +
			"\nstatus: " + status
	}
	custom := func(group, status string) string {
		return "apiVersion: " + group + "/v1\nkind: X\nmetadata: {name: x, generation: 2}\nstatus: " + status
	}
	const available = `conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]`
	onDelete := `{updateStrategy: {type: OnDelete}}`
	rows := []row{
		{"Job has not started", byJobs, job("{}", "{}"), Observation{}, processing},
		{
			"Job is running", byJobs, job("{}", `{startTime: "2026-01-01T00:00:00Z", active: 1}`), Observation{},
			processing,
		},
		{
			"Job retries a failed Pod", byJobs,
			job("{}", `{startTime: "2026-01-01T00:00:00Z", active: 1, failed: 2}`), Observation{}, processing,
		},
		{
			"some Pods of a Job have completed", byJobs,
			job("{completions: 3}", `{startTime: "2026-01-01T00:00:00Z", succeeded: 2, active: 1}`), Observation{},
			processing,
		},
		{
			"Job meets its success criteria but is not complete", byJobs,
			job("{}", `{startTime: "2026-01-01T00:00:00Z", conditions: [{type: SuccessCriteriaMet, status: "True"}]}`),
			Observation{}, processing,
		},
		{
			"Job is complete", byJobs,
			job("{}",
				`{startTime: "2026-01-01T00:00:00Z", succeeded: 1, conditions: [{type: Complete, status: "True"}]}`),
			Observation{}, ready,
		},
		{
			"Job has failed", byJobs,
			job("{}",
				`{startTime: "2026-01-01T00:00:00Z", failed: 7, conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded}]}`), Observation{}, failed,
		},
		{"suspended Job never ran", byJobs, job("{suspend: true}", "{}"), Observation{}, ready},
		{
			"suspended Job ran before", byJobs,
			job("{suspend: true}", `{conditions: [{type: Suspended, status: "True"}]}`), Observation{}, ready,
		},
		{
			"parallelism of a Job is 0", byJobs,
			job("{parallelism: 0}", `{startTime: "2026-01-01T00:00:00Z"}`), Observation{}, ready,
		},
		{
			"suspended Job has failed", byJobs,
			job("{suspend: true}", `{conditions: [{type: Failed, status: "True"}]}`), Observation{}, failed,
		},
		{
			"completed Job was deleted after its TTL", byJobs, "",
			Observation{Key: guard.Key{Group: "batch", Kind: "Job", Name: "x"}, Completed: true}, ready,
		},
		{
			"Job does not exist", byJobs, "", Observation{Key: guard.Key{Group: "batch", Kind: "Job", Name: "x"}},
			processing,
		},
		{
			"Job is being deleted", byKstatus,
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, deletionTimestamp: 2026-01-01T00:00:00Z}\n",
			Observation{}, processing,
		},
		{
			"CronJob is suspended", byExistence,
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\nspec: {suspend: true}", Observation{}, ready,
		},

		{"Deployment has no status", byKstatus, deployment("{replicas: 1}", "{}"), Observation{}, processing},
		{
			"Deployment is available", byKstatus,
			deployment("{replicas: 1}",
				"{observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, "+
					available+"}"), Observation{}, ready,
		},
		{
			"latest spec of a Deployment is not observed", byKstatus,
			deployment("{replicas: 1}",
				"{observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, "+
					available+"}"), Observation{}, processing,
		},
		{
			"Deployment is rolling out", byKstatus,
			deployment("{replicas: 2}",
				"{observedGeneration: 2, replicas: 3, updatedReplicas: 1, readyReplicas: 2, availableReplicas: 2}"),
			Observation{}, processing,
		},
		{
			"Deployment exceeded its progress deadline", byKstatus,
			deployment("{replicas: 1}",
				`{observedGeneration: 2, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`), Observation{}, failed,
		},
		{
			"Deployment is scaled to zero", byKstatus,
			deployment("{replicas: 0}", "{observedGeneration: 2, "+available+"}"), Observation{}, ready,
		},
		{
			"old Pods of a paused Deployment are available", byDeployment,
			deployment("{replicas: 2, paused: true}",
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2}"), Observation{}, ready,
		},
		{
			"paused Deployment was never rolled out", byDeployment,
			deployment("{replicas: 2, paused: true}", "{observedGeneration: 2}"), Observation{}, ready,
		},
		{
			"Pods of a paused Deployment are not available", byDeployment,
			deployment("{replicas: 2, paused: true}", "{observedGeneration: 2, replicas: 2, availableReplicas: 1}"),
			Observation{}, processing,
		},

		{
			"DaemonSet with OnDelete has ready Pods of an old revision", byUpdates,
			set("DaemonSet", onDelete,
				"{observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, "+
					"updatedNumberScheduled: 0, numberReady: 2, numberAvailable: 2}"), Observation{}, ready,
		},
		{
			"DaemonSet with OnDelete has Pods that are not ready", byUpdates,
			set("DaemonSet", onDelete,
				"{observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 1, "+
					"numberAvailable: 1}"), Observation{}, processing,
		},
		{
			"DaemonSet is rolling out", byKstatus,
			set("DaemonSet", "{}",
				"{observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, "+
					"updatedNumberScheduled: 1, numberReady: 2, numberAvailable: 2}"), Observation{}, processing,
		},
		{
			"DaemonSet selects no nodes", byKstatus,
			set("DaemonSet", "{}",
				"{observedGeneration: 2, desiredNumberScheduled: 0, currentNumberScheduled: 0, numberReady: 0}"),
			Observation{}, ready,
		},
		{
			"StatefulSet with OnDelete has ready Pods of an old revision", byUpdates,
			set("StatefulSet", onDelete,
				"{observedGeneration: 2, replicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}"),
			Observation{}, ready,
		},
		{
			"StatefulSet with OnDelete has no ready Pods", byUpdates,
			set("StatefulSet", onDelete, "{observedGeneration: 2, replicas: 1}"), Observation{}, processing,
		},
		{
			"StatefulSet is rolling out", byKstatus,
			set("StatefulSet", "{replicas: 2}",
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, currentReplicas: 1, updatedReplicas: 1, "+
					"currentRevision: a, updateRevision: b}"), Observation{}, processing,
		},
		{
			"partition of a StatefulSet is complete", byUpdates,
			set("StatefulSet", "{replicas: 2, updateStrategy: {rollingUpdate: {partition: 1}}}",
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, updatedReplicas: 1}"), Observation{}, ready,
		},
		{
			"ReplicaSet has too few Pods", byKstatus,
			set("ReplicaSet", "{replicas: 2}",
				"{observedGeneration: 2, replicas: 1, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1}"), Observation{}, processing,
		},

		{
			"ReplicationController has too few Pods", byReplication,
			"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: x, generation: 2}\nspec: {replicas: 2}\n" +
				"status: {observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 1}", Observation{}, processing,
		},
		{
			"latest spec of a ReplicationController is not observed", byReplication,
			"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: x, generation: 2}\nspec: {replicas: 1}\n" +
				"status: {observedGeneration: 1, replicas: 1, availableReplicas: 1}", Observation{}, processing,
		},
		{
			"Pods of a ReplicationController are available", byReplication,
			"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: x, generation: 2}\nspec: {replicas: 2}\n" +
				"status: {observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2}", Observation{}, ready,
		},

		{"claim is bound", byKstatus, core("PersistentVolumeClaim", "status: {phase: Bound}"), Observation{}, ready},
		{
			"claim is pending", byKstatus, core("PersistentVolumeClaim", "status: {phase: Pending}"), Observation{},
			processing,
		},
		{
			"pending claim waits for its first Pod", byVolumes,
			core("PersistentVolumeClaim", "status: {phase: Pending}"), Observation{WaitsForPod: true}, ready,
		},
		{
			"Pod of a pending claim was scheduled", byVolumes,
			"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x, annotations: " +
				"{volume.kubernetes.io/selected-node: node-1}}\nstatus: {phase: Pending}",
			Observation{WaitsForPod: true}, processing,
		},
		{
			"pending claim names its volume", byVolumes,
			core("PersistentVolumeClaim", "spec: {volumeName: pv}\nstatus: {phase: Pending}"),
			Observation{WaitsForPod: true}, processing,
		},
		{
			"claim is lost", byKstatus, core("PersistentVolumeClaim", "status: {phase: Lost}"),
			Observation{WaitsForPod: true}, processing,
		},

		{"Pod has succeeded", byPods, core("Pod", "status: {phase: Succeeded}"), Observation{}, ready},
		{
			"Pod has failed", byPods, core("Pod", "status: {phase: Failed, reason: Evicted}"), Observation{},
			failed,
		},
		{"Pod is not ready", byKstatus, core("Pod", "status: {phase: Running}"), Observation{}, processing},
		{
			"Pod is ready", byKstatus,
			core("Pod", `status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`), Observation{}, ready,
		},

		{
			"CRD is not established", byCRDs,
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n", Observation{},
			processing,
		},
		{
			"CRD is established", byCRDs,
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n" +
				`status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}`,
			Observation{}, ready,
		},
		{
			"server of an APIService does not respond", byAPIServices,
			apiService("{service: {name: x, namespace: y}}",
				`{conditions: [{type: Available, status: "False", message: no endpoints}]}`), Observation{}, processing,
		},
		{
			"APIService has no status", byAPIServices, apiService("{service: {name: x, namespace: y}}", "{}"),
			Observation{}, processing,
		},
		{
			"server of an APIService responds", byAPIServices,
			apiService("{service: {name: x, namespace: y}}", `{conditions: [{type: Available, status: "True"}]}`),
			Observation{}, ready,
		},
		{"APIService has no server", byAPIServices, apiService("{}", "{}"), Observation{}, ready},
		{"ConfigMap exists", byExistence, core("ConfigMap", ""), Observation{}, ready},

		{"custom resource has no status", byKstatus, custom("example.org", "{}"), Observation{}, ready},
		{
			"custom resource is not ready", byKstatus,
			custom("example.org", `{conditions: [{type: Ready, status: "False"}]}`), Observation{}, processing,
		},
		{
			"custom resource is stalled", byKstatus,
			custom("example.org", `{conditions: [{type: Stalled, status: "True"}]}`), Observation{}, failed,
		},
		{
			"custom resource in a k8s.io group is stalled", byKstatus,
			custom("gateway.networking.k8s.io", `{conditions: [{type: Stalled, status: "True"}]}`), Observation{},
			failed,
		},
		{
			"custom resource in a k8s.io group has state Error", byKyma,
			custom("snapshot.storage.k8s.io", "{state: Error}"), Observation{}, failed,
		},
		{
			"custom resource has state Warning", byKyma, custom("example.org", "{state: Warning}"), Observation{},
			warning,
		},
		{
			"conditions of a custom resource are a mapping", byKstatus,
			custom("example.org", "{conditions: {ready: true}}"), Observation{}, ready,
		},
		{
			"conditions of a custom resource are strings", byKstatus,
			custom("example.org", "{conditions: [ready, synced]}"), Observation{}, ready,
		},
		{
			"status of a condition is true", byKstatus,
			custom("example.org", "{conditions: [{type: Ready, status: true, message: 3}]}"), Observation{}, ready,
		},
		{
			"status of a condition is false", byKstatus,
			custom("example.org", "{conditions: [{type: Ready, status: false}]}"), Observation{}, processing,
		},
		{"status of a custom resource is a string", byKstatus, custom("example.org", "fine"), Observation{}, ready},
		{
			"observed generation of a custom resource is a string", byKstatus,
			custom("example.org", `{observedGeneration: "2", conditions: [{type: Stalled, status: "True"}]}`),
			Observation{}, failed,
		},
		{
			"custom resource with state Ready is being deleted", byKstatus,
			"apiVersion: example.org/v1\nkind: X\nmetadata: {name: x, deletionTimestamp: 2026-01-01T00:00:00Z}\n" +
				"status: {state: Ready}", Observation{}, processing,
		},
		{
			"partition of a StatefulSet exceeds its replicas", byUpdates,
			set("StatefulSet", "{replicas: 2, updateStrategy: {rollingUpdate: {partition: 5}}}",
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, currentRevision: a, updateRevision: b}"),
			Observation{}, ready,
		},
		{
			"custom resource cannot be read", byKstatus, "",
			Observation{Key: guard.Key{Group: "example.org", Kind: "X", Name: "x"}, Unreadable: "conversion webhook failed"},
			processing,
		},
	}
	require.GreaterOrEqual(t, len(rows), 40)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if r.object != "" {
				r.seen.Object = contenttest.Object(t, r.object)
				r.seen.Key = guard.KeyOf(r.seen.Object)
			}
			got := ModuleState([]Observation{r.seen})
			require.Equal(t, r.state, got.State, "%s (%s)", got.Message, r.source)
		})
	}
}

func TestStatusOfControllersAndClaimsIsRead(t *testing.T) {
	for _, c := range []struct {
		version, kind string
		want          bool
	}{
		{"v1", "ReplicationController", true}, {"v1", "Pod", true}, {"apps/v1", "ReplicaSet", true},
		{"example.org/v1", "ReplicationController", true}, {"v1", "ConfigMap", false}, {"batch/v1", "CronJob", false},
	} {
		o := contenttest.Object(t, "apiVersion: "+c.version+"\nkind: "+c.kind+"\nmetadata: {name: x}")
		require.Equal(t, c.want, HasStatus(object.ResourceOf(o)), c.kind)
	}
	claim := func(rest string) string {
		return StorageClass(contenttest.Object(t, "apiVersion: v1\nkind: PersistentVolumeClaim\n"+rest))
	}
	require.Equal(t, "fast", claim("spec: {storageClassName: fast}"))
	require.Equal(t, "slow", claim("metadata: {annotations: {volume.beta.kubernetes.io/storage-class: slow}}"))
	require.Empty(t, claim("spec: {storageClassName: ''}"))
}
