package install

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// input returns a file from testdata/inputs: module content that other tools could not handle.
func input(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata", "inputs"}, path...)...))
	require.NoError(t, err)
	return string(data)
}

// wantsInput creates a Manifest with the content of a module version in testdata/inputs.
func (w *world) wantsInput(folder, module, v string, change ...func(*v1beta2.Manifest)) {
	w.Helper()
	w.wants(module, input(w.T, folder, module, v, "a.yaml"), append(change, version(v))...)
}

func (w *world) uid(o client.Object, name string) types.UID {
	w.Helper()
	require.True(w, w.exists(o, home, name), name)
	return o.GetUID()
}

func custom(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func TestPruneDeletesObjectsOfUnservedVersions(t *testing.T) {
	w := newWorld(t)
	const folder, module = "unserved-version-is-an-orphan", "dropver"
	w.wantsInput(folder, module, "1.0.0")
	w.state(module, v1beta2.StateReady, "")
	w.wantsInput(folder, module, "2.0.0")
	old := custom("crane.example.org/v1", "Crane", home, "old")
	w.eventually("the object in the unserved version is deleted", func() bool { return !w.exists(old, home, "old") })
	w.state(module, v1beta2.StateReady, "")
	require.True(t, w.exists(custom("crane.example.org/v1", "Crane", home, "kept"), home, "kept"))

	t.Log("a CRD stops serving the version of an installed object, and the agent restarts")
	w.wants("other", strings.ReplaceAll(input(t, folder, module, "1.0.0", "a.yaml"), "crane", "derrick")+"---\n"+
		aConfigMap("beside"))
	w.state("other", v1beta2.StateReady, "")
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "derricks.derrick.example.org"}, definition))
	w.halt()
	versions := definition.Spec.Versions
	versions[0].Served, versions[0].Storage, versions[1].Storage = false, false, true
	definition.Annotations = map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/gone"}
	definition.Labels = nil
	require.NoError(t, w.client.Update(t.Context(), definition))
	_, resources, _ := strings.Cut(strings.ReplaceAll(input(t, folder, module, "1.0.0", "a.yaml"), "crane", "derrick"),
		"\n---\n")
	w.wants("other", resources+"---\n"+aConfigMap("beside"))
	w.eventually("the version is not served", func() bool {
		return account.IsUnserved(w.client.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "old"},
			custom("derrick.example.org/v1alpha1", "Crane", home, "old")))
	})
	require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), configMap("beside", nil))))
	w.start()
	w.state("other", v1beta2.StateError,
		"the API server does not serve this kind in this version: change apiVersion to derrick.example.org/v1")
	w.eventually("drift of another object is reverted", func() bool {
		return w.exists(&corev1.ConfigMap{}, home, "beside")
	})
	require.NoError(t, w.client.Delete(t.Context(), configMap("beside", nil)))
	w.eventually("drift is reverted again", func() bool { return w.exists(&corev1.ConfigMap{}, home, "beside") })

	t.Log("the CRD serves the version for some time, and the object stays")
	derrick := custom("derrick.example.org/v1", "Crane", home, "old")
	before := w.uid(derrick, "old")
	serve := func(served bool) {
		require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(definition), definition))
		definition.Spec.Versions[0].Served = served
		require.NoError(t, w.client.Update(t.Context(), definition))
	}
	serve(true)
	w.state("other", v1beta2.StateReady, "")
	require.Equal(t, before, w.uid(derrick, "old"))
	serve(false)
	w.eventually("the version is not served", func() bool {
		return account.IsUnserved(w.client.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "old"},
			custom("derrick.example.org/v1alpha1", "Crane", home, "old")))
	})

	t.Log("the removal deletes objects in a served version")
	w.remove("other")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "other") })
	require.False(t, w.exists(derrick, home, "old"))
}

func TestUpgradeKeepsData(t *testing.T) {
	w := newWorld(t)
	const claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: " +
		"[ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}\n---\n"
	w.wants("disk", claim+aConfigMap("disk"), version("1.0.0"))
	w.wantsInput("data-pruned", "nsprune", "1.0.0")
	w.state("nsprune", v1beta2.StateReady, "")
	require.NoError(t, w.client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "nsprune", Name: "users-data"},
	}))
	w.state("disk", v1beta2.StateProcessing, "PVC is not Bound")

	w.wants("disk", aConfigMap("disk"), version("2.0.0"))
	w.wantsInput("data-pruned", "nsprune", "2.0.0")
	w.state("disk", v1beta2.StateWarning,
		"PersistentVolumeClaim kyma-system/data is no longer part of the module and is kept while it may contain data")
	w.state("nsprune", v1beta2.StateWarning,
		"Namespace nsprune is no longer part of the module and is kept while it contains ConfigMap nsprune/users-data")
	live := &corev1.PersistentVolumeClaim{}
	require.True(t, w.exists(live, home, "data"))
	require.True(t, live.DeletionTimestamp.IsZero())
	namespace := &corev1.Namespace{}
	require.True(t, w.exists(namespace, "", "nsprune"))
	require.True(t, namespace.DeletionTimestamp.IsZero())

	t.Log("removing the module also keeps the namespace")
	w.remove("nsprune")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "nsprune") })
	require.True(t, w.exists(namespace, "", "nsprune"))
	require.True(t, namespace.DeletionTimestamp.IsZero())
	require.Empty(t, namespace.Annotations[v1beta2.AnnotationOwnedBy])

	t.Log("an empty namespace is deleted")
	w.wants("empty", "apiVersion: v1\nkind: Namespace\nmetadata: {name: empty}\n---\n"+aConfigMap("empty"),
		version("1.0.0"))
	w.state("empty", v1beta2.StateReady, "")
	w.wants("empty", aConfigMap("empty"), version("2.0.0"))
	w.eventually("the namespace is deleted", func() bool {
		return !w.exists(namespace, "", "empty") || !namespace.DeletionTimestamp.IsZero()
	})

	t.Log("a namespace with an object of a cluster-scoped controller is kept")
	w.wants("composed", "apiVersion: v1\nkind: Namespace\nmetadata: {name: composed}\n---\n"+aConfigMap("composed"),
		version("1.0.0"))
	w.state("composed", v1beta2.StateReady, "")
	database := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "composed", Name: "database", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "composite", UID: "1", Controller: new(true),
		}},
	}}
	require.NoError(t, w.client.Create(t.Context(), database))
	w.wants("composed", aConfigMap("composed"), version("2.0.0"))
	w.state("composed", v1beta2.StateWarning,
		"Namespace composed is no longer part of the module and is kept while it contains ConfigMap composed/database")

	t.Log("a namespace with a Secret that only looks like a token is kept")
	w.wants("secretive", "apiVersion: v1\nkind: Namespace\nmetadata: {name: secretive}\n---\n"+aConfigMap("secretive"),
		version("1.0.0"))
	w.state("secretive", v1beta2.StateReady, "")
	annotations := map[string]string{"kubernetes.io/service-account.name": "default"}
	require.NoError(t, w.client.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "secretive", Name: "default"},
	}))
	require.NoError(t, w.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "secretive", Name: "token", Annotations: annotations},
		Type:       corev1.SecretTypeServiceAccountToken,
	}))
	require.NoError(t, w.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "secretive", Name: "data", Annotations: annotations},
		StringData: map[string]string{"only": "copy"},
	}))
	w.wants("secretive", aConfigMap("secretive"), version("2.0.0"))
	w.state("secretive", v1beta2.StateWarning,
		"Namespace secretive is no longer part of the module and is kept while it contains Secret secretive/data: ")

	t.Log("an annotation allows the deletion of the claim")
	metav1.SetMetaDataAnnotation(&live.ObjectMeta, v1beta2.AnnotationDeleteWithData, v1beta2.True)
	require.NoError(t, w.client.Update(t.Context(), live))
	w.wants("disk", aConfigMap("disk"), version("3.0.0"))
	w.eventually("the claim is deleted", func() bool {
		return !w.exists(live, home, "data") || !live.DeletionTimestamp.IsZero()
	})
}

func TestObjectsMoveBetweenModulesWithoutDeletion(t *testing.T) {
	var incomplete atomic.Bool
	w := newWorldWith(t, Options{IsIncomplete: incomplete.Load})
	const folder = "move-between-modules"
	move := func(first, second string, firstLoses bool) {
		w.Helper()
		order := []string{first, second}
		if !firstLoses {
			order = []string{second, first}
		}
		incomplete.Store(true)
		for _, module := range order {
			w.wantsInput(folder, module, "2.0.0")
			if module == first {
				w.eventually(first+" is applied", func() bool { return planning.Installed(w.manifest(first)) })
			}
		}
		incomplete.Store(false)
	}
	for _, module := range []string{"shipfrom", "shipto", "movefrom", "moveto", "keepa", "keepb"} {
		w.wantsInput(folder, module, "1.0.0")
	}
	installedAs := func(module string) {
		w.Helper()
		w.eventually(module+" is installed", func() bool { return planning.Installed(w.manifest(module)) })
	}
	for _, module := range []string{"shipfrom", "shipto", "movefrom", "moveto", "keepa", "keepb"} {
		installedAs(module)
	}
	require.NoError(t, w.client.Create(t.Context(), custom("moved.example.org/v1", "Moved", "default", "users")))
	claim, config, definition := &corev1.PersistentVolumeClaim{}, &corev1.ConfigMap{},
		&apiextensionsv1.CustomResourceDefinition{}
	before := []types.UID{
		w.uid(claim, "ship-data"), w.uid(config, "ship-settings"), w.uid(config, "moved-settings"),
		w.uid(config, "keep-settings"),
	}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "moveds.moved.example.org"}, definition))

	move("shipfrom", "shipto", true)
	move("movefrom", "moveto", false)
	move("keepa", "keepb", true)
	for _, module := range []string{"shipfrom", "shipto", "movefrom", "moveto", "keepa", "keepb"} {
		installedAs(module)
	}
	has := func(module, object string) bool {
		return strings.Contains(named(w.manifest(module).Status.Synced), object)
	}
	for _, c := range []struct{ from, to, object string }{
		{"shipfrom", "shipto", "ship-data"}, {"shipfrom", "shipto", "ship-settings"},
		{"movefrom", "moveto", "moveds.moved.example.org"}, {"movefrom", "moveto", "moved-settings"},
		{"keepa", "keepb", "keep-settings"},
	} {
		w.eventually(c.object+" has moved to "+c.to, func() bool {
			return has(c.to, c.object) && !has(c.from, c.object)
		})
	}
	require.Equal(t, before, []types.UID{
		w.uid(claim, "ship-data"), w.uid(config, "ship-settings"), w.uid(config, "moved-settings"),
		w.uid(config, "keep-settings"),
	})
	require.Equal(t, "kyma-system/shipto", claim.Annotations[v1beta2.AnnotationOwnedBy])
	uid := definition.UID
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "moveds.moved.example.org"}, definition))
	require.Equal(t, uid, definition.UID)
	require.Equal(t, "kyma-system/moveto", definition.Annotations[v1beta2.AnnotationOwnedBy])
	w.state("movefrom", v1beta2.StateReady, "")
	w.state("moveto", v1beta2.StateReady, "")

	t.Log("a module takes over an object that another module kept")
	w.wants("keeper",
		strings.Replace(aConfigMap("late"), "{name: late}",
			"{name: late, annotations: {helm.sh/resource-policy: keep}}", 1)+aConfigMap("keeper"), version("1.0.0"))
	w.state("keeper", v1beta2.StateReady, "")
	w.wants("keeper", aConfigMap("keeper"), version("2.0.0"))
	w.eventually("the object is dropped", func() bool { return !has("keeper", "late") })
	w.wants("later", aConfigMap("late"), version("1.0.0"))
	w.state("later", v1beta2.StateReady, "")

	t.Log("a module takes over an object of a module that is removed")
	w.wants("left", aConfigMap("left")+aConfigMap("handed"), version("1.0.0"))
	w.state("left", v1beta2.StateReady, "")
	handed := w.uid(config, "handed")
	w.wants("right", aConfigMap("right")+aConfigMap("handed"), version("1.0.0"))
	w.state("right", v1beta2.StateError, "ConfigMap kyma-system/handed already belongs to module left")
	w.remove("left")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "left") })
	w.state("right", v1beta2.StateReady, "")
	require.Equal(t, handed, w.uid(config, "handed"))
}

func TestJobRunsOncePerVersion(t *testing.T) {
	w := newWorld(t)
	job := &batchv1.Job{}
	complete := func() {
		w.Helper()
		w.eventually("the Job exists", func() bool { return w.exists(job, home, "jobttl-migrate") })
		now := metav1.Now()
		job.Status = batchv1.JobStatus{StartTime: &now, Active: 1}
		require.NoError(t, w.client.Status().Update(t.Context(), job))
		w.state("jobttl", v1beta2.StateProcessing, "Job is running")
		job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1,
			Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {
					Type: batchv1.JobComplete, Status: corev1.ConditionTrue,
				},
			}}
		require.NoError(t, w.client.Status().Update(t.Context(), job))
		require.NoError(t,
			w.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		w.eventually("the Job is deleted", func() bool { return !w.exists(job, home, "jobttl-migrate") })
	}
	w.wantsInput("job-with-ttl", "jobttl", "1.0.0")
	complete()
	w.state("jobttl", v1beta2.StateReady, "")
	require.NoError(t, w.client.Delete(t.Context(), configMap("jobttl-settings", nil)))
	w.eventually("drift of another object is reverted", func() bool {
		return w.exists(&corev1.ConfigMap{}, home, "jobttl-settings")
	})
	require.False(t, w.exists(job, home, "jobttl-migrate"), "the Job must not run again")
	w.halt()
	w.start()
	require.NoError(t, w.client.Delete(t.Context(), configMap("jobttl-settings", nil)))
	w.eventually("drift is reverted after a restart", func() bool {
		return w.exists(&corev1.ConfigMap{}, home, "jobttl-settings")
	})
	require.False(t, w.exists(job, home, "jobttl-migrate"), "the Job must not run again after a restart")
	w.state("jobttl", v1beta2.StateReady, "")

	t.Log("the Job runs for the next version, and is created again if it is deleted before it completes")
	w.wantsInput("job-with-ttl", "jobttl", "2.0.0")
	w.eventually("the Job runs again", func() bool { return w.exists(job, home, "jobttl-migrate") })
	w.state("jobttl", v1beta2.StateProcessing, "Job has not started")
	first := job.UID
	require.NoError(t, w.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.eventually("the Job is created again", func() bool {
		return w.exists(job, home, "jobttl-migrate") && job.UID != first
	})
	complete()
	w.state("jobttl", v1beta2.StateReady, "")
}

func TestNewJobRunsAfterTheAgentsKeyIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.wants("late", aConfigMap("late"), version("1.0.0"))
	w.state("late", v1beta2.StateReady, "")
	w.halt()
	w.options.Signer = signer(t)
	w.start()
	const job = `apiVersion: batch/v1
kind: Job
metadata: {name: late-migrate}
spec:
  ttlSecondsAfterFinished: 60
  template: {spec: {restartPolicy: Never, containers: [{name: migrate, image: "example.org/migrate:1"}]}}
---
`
	w.wants("late", aConfigMap("late")+job, version("2.0.0"))
	w.eventually("the Job runs", func() bool { return w.exists(&batchv1.Job{}, home, "late-migrate") })
}

func TestFieldsOfOtherManagersAreNotReverted(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.wantsInput("aggregated-clusterrole", "aggrole", "1.0.0")
	w.state("aggrole", v1beta2.StateReady, "")
	w.wantsInput("placeholder-ca", "cabnl", "1.0.0")
	w.state("cabnl", v1beta2.StateReady, "")
	w.wantsInput("autoscaled-deployment", "hpa", "1.0.0")
	w.runs(home, "hpa")
	w.wants("notes",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes, annotations: {kyma-pull.dev/ignore-fields: "+
			"/data/theirs}}\ndata: {theirs: first, ours: kept}\n")
	w.state("notes", v1beta2.StateReady, "")
	w.wants("badly",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: badly, annotations: {kyma-pull.dev/ignore-fields: "+
			"data.theirs}}\n")
	w.state("badly", v1beta2.StateError, `"data.theirs" is not a JSON pointer`)

	roles := &rbacv1.ClusterRoleList{}
	require.NoError(t, w.client.List(ctx, roles, client.MatchingLabels{v1beta2.LabelModuleName: "aggrole"}))
	var aggregated rbacv1.ClusterRole
	for _, role := range roles.Items {
		if role.AggregationRule != nil {
			aggregated = role
		}
	}
	require.NotEmpty(t, aggregated.Name)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	aggregated.Rules = rules
	require.NoError(t, w.client.Update(ctx, &aggregated, client.FieldOwner("clusterrole-aggregation-controller")))

	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	require.True(t, w.exists(hooks, "", "cabnl"))
	require.Empty(t, hooks.Webhooks[0].ClientConfig.CABundle)
	hooks.Webhooks[0].ClientConfig.CABundle = []byte("injected")
	require.NoError(t, w.client.Update(ctx, hooks, client.FieldOwner("injector")))

	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "hpa"}}
	require.NoError(t, w.client.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale)))

	notes := &corev1.ConfigMap{}
	require.True(t, w.exists(notes, home, "notes"))
	notes.Data = map[string]string{"theirs": "second", "ours": "changed"}
	require.NoError(t, w.client.Update(ctx, notes))
	w.eventually("only the agent's field is reverted", func() bool {
		return w.exists(notes, home, "notes") && notes.Data["ours"] == "kept"
	})
	require.Equal(t, "second", notes.Data["theirs"])

	t.Log("a correction and an upgrade keep the fields of other managers")
	require.True(t, w.exists(deployment, home, "hpa"))
	deployment.Spec.Template.Spec.Containers[0].Image = "example.org/drift:1"
	require.NoError(t, w.client.Update(ctx, deployment))
	w.eventually("the image is reverted", func() bool {
		return w.exists(deployment, home, "hpa") &&
			deployment.Spec.Template.Spec.Containers[0].Image == "example.org/x:1"
	})
	require.EqualValues(t, 3, *deployment.Spec.Replicas)
	for folder, module := range map[string]string{"aggregated-clusterrole": "aggrole", "placeholder-ca": "cabnl",
		"autoscaled-deployment": "hpa"} {
		w.wants(module, input(t, folder, module, "1.0.0", "a.yaml")+"---\n"+aConfigMap(module), version("2.0.0"))
		w.eventually("the new version is applied", func() bool { return planning.Installed(w.manifest(module)) })
	}
	require.True(t, w.exists(deployment, home, "hpa"))
	require.EqualValues(t, 3, *deployment.Spec.Replicas)
	require.True(t, w.exists(hooks, "", "cabnl"))
	require.Equal(t, "injected", string(hooks.Webhooks[0].ClientConfig.CABundle))
	require.True(t, w.exists(&aggregated, "", aggregated.Name))
	require.Equal(t, rules, aggregated.Rules)

	t.Log("an autoscaler of KEDA scales to zero, and another autoscaler does not")
	hpa := &autoscalingv1.HorizontalPodAutoscaler{}
	require.True(t, w.exists(hpa, home, "hpa"))
	replicasAfterZero := func() int32 {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 0}}
		require.NoError(t, w.client.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale)))
		require.NoError(t, w.client.Patch(ctx, deployment, client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example.org/drift:1"}]`))))
		w.eventually("the image is reverted", func() bool {
			return w.exists(deployment, home, "hpa") &&
				deployment.Spec.Template.Spec.Containers[0].Image == "example.org/x:1"
		})
		return *deployment.Spec.Replicas
	}
	require.EqualValues(t, 1, replicasAfterZero())
	hpa.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "hpa", UID: "0"},
	}
	require.NoError(t, w.client.Update(ctx, hpa))
	require.EqualValues(t, 0, replicasAfterZero())

	t.Log("a Deployment without an autoscaler is scaled back")
	require.NoError(t, w.client.Delete(ctx, &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "hpa"},
	}))
	w.wants("hpa", strings.Split(input(t, "autoscaled-deployment", "hpa", "1.0.0", "a.yaml"), "---\n")[0],
		version("3.0.0"))
	w.eventually("the Deployment has one replica", func() bool {
		return w.exists(deployment, home, "hpa") && *deployment.Spec.Replicas == 1
	})
}

func TestVolumeClaimThatWaitsForAPodIsReady(t *testing.T) {
	w := newWorld(t)
	w.wantsInput("claim-that-waits-for-its-pod", "pvcwffc", "1.0.0")
	w.eventually("the claim exists", func() bool {
		return w.exists(&corev1.PersistentVolumeClaim{}, home, "pvcwffc-data")
	})
	w.state("pvcwffc", v1beta2.StateReady, "")
}

func TestOperatorStaysUntilCustomResourcesAreDeleted(t *testing.T) {
	w := newWorld(t)
	w.wantsInput("groups-below-k8s-io", "kgroup", "1.0.0")
	w.runs(home, "gate-operator")
	w.state("kgroup", v1beta2.StateReady, "")
	gate := custom("gate.toys.k8s.io/v1", "GateClass", "", "k8sgroup")
	require.True(t, w.exists(gate, "", "k8sgroup"))
	gate.SetFinalizers([]string{"gate.toys.k8s.io/slow"})
	require.NoError(t, w.client.Update(t.Context(), gate))
	w.remove("kgroup")
	w.state("kgroup", v1beta2.StateDeleting, "it has finalizers: gate.toys.k8s.io/slow")
	require.True(t, w.exists(&appsv1.Deployment{}, home, "gate-operator"))
	require.True(t, w.exists(gate, "", "k8sgroup"))
	gate.SetFinalizers(nil)
	require.NoError(t, w.client.Update(t.Context(), gate))
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "kgroup") })
}
