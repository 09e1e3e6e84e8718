package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
)

// crdOf returns a CRD with one version, v1. kind must be capitalized, and its plural must end with s.
func crdOf(kind, group string) string {
	return strings.NewReplacer("Sample", kind, "sample", strings.ToLower(kind), "example.kyma-project.io", group).
		Replace(sampleCRD)
}

func customText(kind, group, name string) string {
	return "apiVersion: " + group + "/v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\n---\n"
}

func deploymentText(name string) string {
	return strings.NewReplacer("NAME", name).Replace(`apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: c, image: example.org/x:1}]}
---
`)
}

func TestUpgradeKeepsOperatorUntilItsCustomResourceIsDeleted(t *testing.T) {
	w := newWorld(t)
	const group = "slow.example.org"
	w.wants("slow", crdOf("Gadget", group)+strings.Replace(customText("Gadget", group, "g"), "{name: g}",
		"{name: g, finalizers: [example.org/slow]}", 1)+deploymentText("gadget-operator")+aConfigMap("rest"),
		version("1.0.0"))
	w.runs(home, "gadget-operator")
	w.state("slow", v1beta2.StateReady, "")
	w.wants("slow", aConfigMap("rest"), version("2.0.0"))
	w.state("slow", v1beta2.StateWarning,
		"waiting for the deletion of Gadget kyma-system/g (it has finalizers: example.org/slow)")
	require.True(t, w.exists(&appsv1.Deployment{}, home, "gadget-operator"))
	gadget := custom(group+"/v1", "Gadget", home, "g")
	require.NoError(t, w.client.Patch(t.Context(), gadget,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	w.state("slow", v1beta2.StateReady, "")
	require.False(t, w.exists(&appsv1.Deployment{}, home, "gadget-operator"))

	t.Log("a refused CRD of a first installation does not block the custom resources of another CRD")
	broken := strings.Replace(crdOf("Bad", "bad.example.org"), "type: object", "type: unknown", 1)
	w.wants("first", broken+crdOf("Fine", "fine.example.org")+customText("Bad", "bad.example.org", "b")+
		customText("Fine", "fine.example.org", "f")+aConfigMap("first"), version("1.0.0"))
	w.state("first", v1beta2.StateError, "CustomResourceDefinition bads.bad.example.org")
	require.True(t, w.exists(custom("fine.example.org/v1", "Fine", home, "f"), home, "f"))
}

func TestScaledAndExpandedObjectsKeepTheirSize(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	t.Log("a paused ScaledObject of KEDA has no HorizontalPodAutoscaler")
	scaler := "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: scaled}\n" +
		"spec: {scaleTargetRef: {name: scaled}}\n---\n"
	w.wants("scaled", strings.ReplaceAll(crdOf("ScaledObject", "keda.sh"), "name: v1\n", "name: v1alpha1\n")+
		deploymentText("scaled")+scaler, version("1.0.0"))
	w.runs(home, "scaled")
	w.state("scaled", v1beta2.StateReady, "")
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "scaled"}}
	require.NoError(t, w.client.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale)))
	require.NoError(t, w.client.Patch(ctx, deployment, client.RawPatch(types.JSONPatchType,
		[]byte(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example.org/drift:1"}]`))))
	w.eventually("the image is reverted", func() bool {
		return w.exists(deployment, home, "scaled") &&
			deployment.Spec.Template.Spec.Containers[0].Image == "example.org/x:1"
	})
	require.EqualValues(t, 4, *deployment.Spec.Replicas)

	t.Log("the API server stops serving the version of the ScaledObject that the agent knows")
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, w.client.Get(ctx, client.ObjectKey{Name: "scaledobjects.keda.sh"}, definition))
	next := definition.Spec.Versions[0]
	next.Name, definition.Spec.Versions[0].Served, definition.Spec.Versions[0].Storage = "v1", false, false
	definition.Spec.Versions = append(definition.Spec.Versions, next)
	delete(definition.Annotations, v1beta2.AnnotationOwnedBy)
	w.halt()
	require.NoError(t, w.client.Update(ctx, definition))
	w.eventually("only the new version is served", func() bool {
		return w.client.Get(ctx, client.ObjectKey{Namespace: home, Name: "scaled"},
			custom("keda.sh/v1", "ScaledObject", home, "scaled")) == nil && account.IsUnserved(w.client.Get(ctx,
			client.ObjectKey{Namespace: home, Name: "scaled"}, custom("keda.sh/v1alpha1", "ScaledObject", home, "scaled")))
	})
	scaled, err := w.installer.planner.accounts.Own().IsAutoscaled(ctx, v1beta2.Resource{
		GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Namespace:        home, Name: "scaled",
	}, 4, nil)
	require.NoError(t, err)
	require.True(t, scaled)
	w.remove("scaled")
	w.start()

	t.Log("a user expands a claim, and the module is upgraded")
	content := "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: growing}\n" +
		"provisioner: example.org/none\nallowVolumeExpansion: true\n---\n" +
		"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: grown}\nspec: {accessModes: [ReadWriteOnce], " +
		"storageClassName: growing, resources: {requests: {storage: 1Gi}}}\n---\n"
	w.wants("grown", content, version("1.0.0"))
	claim := &corev1.PersistentVolumeClaim{}
	w.eventually("the claim exists", func() bool { return w.exists(claim, home, "grown") })
	size := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
	}
	// The agent also writes the claim, so the test uses patches, which cannot conflict.
	patch := func(change func()) {
		before := claim.DeepCopy()
		change()
		require.NoError(t, w.client.Patch(ctx, claim, client.MergeFrom(before)))
	}
	patchStatus := func(change func()) {
		before := claim.DeepCopy()
		change()
		require.NoError(t, w.client.Status().Patch(ctx, claim, client.MergeFrom(before)))
	}
	patch(func() { claim.Spec.VolumeName = "volume" })
	patchStatus(func() { claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, size("1Gi") })
	w.state("grown", v1beta2.StateReady, "")
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(claim), claim))
	patch(func() { claim.Spec.Resources.Requests = size("5Gi") })
	patchStatus(func() { claim.Status.Capacity = size("5Gi") })
	w.wants("grown", content+aConfigMap("grown"), version("2.0.0"))
	w.eventually("the upgrade is applied", func() bool { return w.exists(&corev1.ConfigMap{}, home, "grown") })
	w.state("grown", v1beta2.StateReady, "")
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(claim), claim))
	require.Equal(t, "5Gi", claim.Spec.Resources.Requests.Storage().String())
}

func TestDeadAggregatedAPIAffectsOnlyItsObjects(t *testing.T) {
	w := newWorld(t)
	const group = "dead.example.org"
	service := `apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.dead.example.org}
spec:
  {group: dead.example.org, version: v1, groupPriorityMinimum: 100, versionPriority: 10,
    service: {name: dead, namespace: kyma-system}}
---
`
	w.wants("api", service+aConfigMap("api"), version("1.0.0"))
	w.state("api", v1beta2.StateProcessing, `service/dead in "kyma-system" is not present`)
	w.wants("user", customText("Risen", group, "u")+aConfigMap("user"), version("1.0.0"))
	w.state("user", v1beta2.StateError,
		"the API server does not serve this kind: the API of group dead.example.org is currently not available")
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "user"))

	t.Log("another module is upgraded and removed")
	w.wants("other", aConfigMap("other")+aConfigMap("dropped"), version("1.0.0"))
	w.state("other", v1beta2.StateReady, "")
	w.wants("other", aConfigMap("other"), version("2.0.0"))
	w.eventually("an object is pruned", func() bool { return !w.exists(&corev1.ConfigMap{}, home, "dropped") })
	w.remove("other")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "other") })

	t.Log("a CRD replaces the aggregated API")
	w.wants("api", crdOf("Risen", group)+customText("Risen", group, "r")+aConfigMap("api"), version("2.0.0"))
	w.state("api", v1beta2.StateReady, "")
	require.True(t, w.exists(custom(group+"/v1", "Risen", home, "r"), home, "r"))
	w.state("user", v1beta2.StateReady, "")
}
