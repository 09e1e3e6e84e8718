package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// agentImage is the image of an agent, by a digest that nobody pulls here.
func agentImage(version string) string {
	return "registry.example/skr-agent:" + version + "@sha256:" + strings.Repeat(version[:1], 64)
}

// deployAgent makes the Deployment that the agent believes to be its own, with a first image that has proven itself.
func deployAgent(t *testing.T, r *fleet.Runtime, image string) {
	t.Helper()
	labels := map[string]string{"app": "agent"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "skr-agent", Image: image}}},
	}
	must(t, r.API.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent", Annotations: map[string]string{"kyma-pull.dev/proven-image": image}},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}))
}

// becomePod lets the agent run as the Pod of an image.
func becomePod(t *testing.T, r *fleet.Runtime, name, image string) {
	t.Helper()
	must(t, r.API.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "skr-agent", Image: image}}},
	}))
	r.AgentFlags = append(r.AgentFlags, "--deployment", "skr-agent", "--pod", name)
	r.Agent().Stop()
	must(t, r.StartAgent())
}

func deployed(t *testing.T, r *fleet.Runtime) *appsv1.Deployment {
	t.Helper()
	var deployment appsv1.Deployment
	must(t, r.API.Get(t.Context(), client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent"}, &deployment))
	return &deployment
}

func TestABundleUpgradesTheAgentAndABadImageIsGivenUp(t *testing.T) {
	f := newFleet(t, fleet.Options{})
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	first, second, third, fourth, fifth := agentImage("1.0"), agentImage("2.0"), agentImage("3.0"), agentImage("4.0"), agentImage("5.0")
	runs := func(image string) {
		t.Helper()
		until(t, 60*time.Second, "the Deployment runs "+image, func() (bool, string) {
			got := deployed(t, berlin).Spec.Template.Spec.Containers[0].Image
			return got == image, got
		})
	}
	told := func(status metav1.ConditionStatus, part string) {
		t.Helper()
		until(t, 60*time.Second, "the control plane is told: "+part, func() (bool, string) {
			record, err := berlin.Record(t.Context())
			must(t, err)
			c := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionAgent)
			return c != nil && c.Status == status && strings.Contains(c.Message, part), fmt.Sprint(c)
		})
	}
	deployAgent(t, berlin, first)
	becomePod(t, berlin, "agent-1", first)

	// One whose pods never get ready: the old agent takes it back.
	must(t, berlin.WantAgent(t.Context(), second))
	runs(second)
	stuck := deployed(t, berlin)
	stuck.Status.ObservedGeneration = stuck.Generation
	stuck.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
	must(t, berlin.API.Status().Update(t.Context(), stuck))
	runs(first)
	told(metav1.ConditionFalse, "gave up its image "+second)
	must(t, berlin.UntilState(t.Context(), "scaler", "1.7.0", v1beta2.StateReady))

	// One that gets ready, and then ends again and again: it takes itself back.
	must(t, berlin.WantAgent(t.Context(), third))
	runs(third)
	becomePod(t, berlin, "agent-3", third)
	for start := 1; start <= 4; start++ {
		until(t, 60*time.Second, fmt.Sprintf("start %d of an unproven image was counted", start), func() (bool, string) {
			counted := deployed(t, berlin).Annotations["kyma-pull.dev/unproven-starts"]
			return counted == fmt.Sprint("agent-3:", start), counted
		})
		berlin.Agent().Stop()
		must(t, berlin.StartAgent())
	}
	runs(first)
	becomePod(t, berlin, "agent-1-again", first)
	told(metav1.ConditionFalse, "gave up its image "+third)

	// One that works.
	must(t, berlin.WantAgent(t.Context(), fourth))
	runs(fourth)
	becomePod(t, berlin, "agent-4", fourth)
	until(t, 120*time.Second, "the new image has proven itself", func() (bool, string) {
		annotations := deployed(t, berlin).Annotations
		return annotations["kyma-pull.dev/proven-image"] == fourth, fmt.Sprint(annotations)
	})
	told(metav1.ConditionTrue, "runs what its bundle names")

	// One that runs, and cannot read what is in the registry: as an agent that knows nothing of it, it would never be replaced.
	berlin.AgentFlags = append(berlin.AgentFlags, "--upgrade-deadline=70s")
	must(t, berlin.WantAgent(t.Context(), fifth))
	runs(fifth)
	f.Registry.Stop()
	becomePod(t, berlin, "agent-5", fifth)
	until(t, 120*time.Second, "it is given up", func() (bool, string) {
		annotations := deployed(t, berlin).Annotations
		if annotations["kyma-pull.dev/proven-image"] != fourth {
			t.Fatalf("an agent without a registry has proven itself: %v", annotations)
		}
		return annotations["kyma-pull.dev/failed-image"] == fifth, fmt.Sprint(annotations)
	})
	runs(fourth)
	must(t, f.Registry.Resume())
	becomePod(t, berlin, "agent-4-again", fourth)
	told(metav1.ConditionFalse, "gave up its image "+fifth)
}
