package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// A TokenReview is a request and not a stored object, so the API server cannot list TokenReviews.
func TestUnstoredKindDoesNotBlockOtherObjects(t *testing.T) {
	w := newWorld(t)
	const review = "apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nmetadata: {name: question}\n" +
		"spec: {token: x}\n---\n"
	w.wants("asking", review+aConfigMap("asking"), version("1.0.0"))
	w.state("asking", v1beta2.StateError,
		"TokenReview question (authentication.k8s.io/v1): the API server does not store objects of this kind: "+
			"remove the object from the content")
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "asking"), "the other object must be installed")
	w.wants("binding", "apiVersion: v1\nkind: Binding\nmetadata: {name: pod}\ntarget: {kind: Node, name: node}\n---\n"+
		aConfigMap("binding"), version("1.0.0"))
	w.state("binding", v1beta2.StateError, "Binding pod (v1): the API server does not store objects of this kind")
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "binding"), "the other object must be installed")

	t.Log("a version without the object is installed")
	w.wants("asking", aConfigMap("asking"), version("2.0.0"))
	w.state("asking", v1beta2.StateReady, "")

	t.Log("a module with the object is removed")
	w.wants("leaving", review+aConfigMap("leaving"), version("1.0.0"))
	w.state("leaving", v1beta2.StateError, "the API server does not store objects of this kind")
	w.remove("leaving")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "leaving") })
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "leaving"))
}

func TestModuleIsNotReadyWhileItsAggregatedAPIIsUnavailable(t *testing.T) {
	w := newWorld(t)
	w.wants("aggregated", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\n"+
		"metadata: {name: v1.absent.example.org}\nspec:\n  group: absent.example.org\n  version: v1\n"+
		"  groupPriorityMinimum: 100\n  versionPriority: 10\n  insecureSkipTLSVerify: true\n"+
		"  service: {name: absent, namespace: kyma-system}\n---\n"+aConfigMap("aggregated"))
	w.state("aggregated", v1beta2.StateProcessing, `service/absent in "kyma-system" is not present`)
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "aggregated"))
	w.remove("aggregated")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "aggregated") })
}

func TestPodWithImmutableFieldsIsRecreatedOnlyWithPermission(t *testing.T) {
	w := newWorld(t)
	pod := func(annotations, args string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: once, annotations: {" + annotations + "}}\n" +
			"spec: {restartPolicy: Never, containers: [{name: c, image: example.org/x, args: [" + args + "]}]}\n---\n"
	}
	w.wants("once", pod("", "first")+aConfigMap("once"), version("1.0.0"))
	w.state("once", v1beta2.StateProcessing, "Pending")
	live := &corev1.Pod{}
	before := w.uid(live, "once")

	w.wants("once", pod("", "second")+aConfigMap("twice"), version("2.0.0"))
	w.state("once", v1beta2.StateError, "nothing of version 2.0.0 was applied: Pod kyma-system/once: spec: Forbidden")
	operation := w.manifest("once").Status.LastOperation.Operation
	require.Contains(t, operation, "can only be changed by recreating it")
	require.NotContains(t, operation, "\n", "the message must not contain the difference of the specs")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "twice"))

	w.wants("once", pod(`kyma-pull.dev/recreate: "true"`, "second")+aConfigMap("twice"), version("3.0.0"))
	w.eventually("the Pod is recreated", func() bool {
		return w.exists(live, home, "once") && live.UID != before && live.Spec.Containers[0].Args[0] == "second"
	})
}

// A library panics on an API server response that was saved as a manifest. The agent also plans this module when it
// prunes other modules' objects.
func TestStatusObjectInContentAffectsOnlyItsModule(t *testing.T) {
	w := newWorld(t)
	w.wants("other", aConfigMap("dropped"), version("1.0.0"))
	w.state("other", v1beta2.StateReady, "")
	w.wants("response", "apiVersion: v1\nkind: Status\nmetadata: {name: response}\n---\n"+aConfigMap("response"))
	w.state("response", v1beta2.StateError, "Status response (v1): the API server does not store objects of this kind")
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "response"), "the other object must be installed")
	w.wants("other", aConfigMap("other"), version("2.0.0"))
	w.eventually("the object of the other module is pruned", func() bool {
		return !w.exists(&corev1.ConfigMap{}, home, "dropped")
	})
	w.state("other", v1beta2.StateReady, "")
}

func TestCustomResourceOfKindStatusIsInstalled(t *testing.T) {
	w := newWorld(t)
	definition := strings.NewReplacer("Sample", "Status", "samples", "statuses", "sample", "status").Replace(sampleCRD)
	w.wants("status", definition+"apiVersion: example.kyma-project.io/v1\nkind: Status\nmetadata: {name: page}\n")
	w.state("status", v1beta2.StateReady, "")
}

func TestUnknownFieldsOfBuiltInKindsAreReported(t *testing.T) {
	w := newWorld(t)
	service := func(port string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, " + port + ": 8080}]}\n"
	}
	condition := func() *metav1.Condition {
		return meta.FindStatusCondition(w.manifest("web").Status.Conditions, v1beta2.ConditionFields)
	}
	w.wants("web", service("targetPorts"), version("1.0.0"))
	w.state("web", v1beta2.StateReady, "")
	require.NotNil(t, condition())
	require.Equal(t, metav1.ConditionFalse, condition().Status)
	require.Equal(t, `ignored Service web: unknown field "spec.ports[0].targetPorts"`, condition().Message)

	w.wants("web", service("targetPort"), version("2.0.0"))
	w.eventually("the field is known", func() bool { return condition().Status == metav1.ConditionTrue })
	w.state("web", v1beta2.StateReady, "")
	live := &corev1.Service{}
	require.True(t, w.exists(live, home, "web"))
	require.Equal(t, 8080, live.Spec.Ports[0].TargetPort.IntValue())
}

func TestPrunedObjectWithFinalizerIsReported(t *testing.T) {
	w := newWorld(t)
	w.wants("held", strings.Replace(aConfigMap("kept"), "{name: kept}",
		"{name: kept, finalizers: [example.org/slow]}", 1), version("1.0.0"))
	w.state("held", v1beta2.StateReady, "")
	w.wants("held", aConfigMap("other"), version("2.0.0"))
	w.state("held", v1beta2.StateWarning,
		"waiting for the deletion of ConfigMap kyma-system/kept (it has finalizers: example.org/slow)")
}
