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
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// agentImage returns an agent image reference with a digest.
func agentImage(version string) string {
	return "registry.example/skr-agent:" + version + "@sha256:" + strings.Repeat(version[:1], 64)
}

// deployAgent creates the agent's Deployment and records its image as proven.
func deployAgent(t *testing.T, r *fleet.Runtime, image string) {
	t.Helper()
	labels := map[string]string{"app": "agent"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "skr-agent", Image: image}}},
	}
	must(t, r.API.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent",
			Annotations: map[string]string{"kyma-pull.dev/proven-image": image},
		},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}))
}

// becomePod creates a Pod with this image and runs the agent's process as if it were in this Pod.
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
	must(t, r.API.Get(t.Context(), client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent"},
		&deployment))
	return &deployment
}

func untilRuns(t *testing.T, r *fleet.Runtime, image string) {
	t.Helper()
	until(t, 60*time.Second, "the Deployment runs "+image, func() (bool, string) {
		got := deployed(t, r).Spec.Template.Spec.Containers[0].Image
		return got == image, got
	})
}

// untilAgentCondition waits until the agent's image condition has this status and its message contains part.
func untilAgentCondition(t *testing.T, r *fleet.Runtime, status metav1.ConditionStatus, part string) {
	t.Helper()
	until(t, 60*time.Second, "the control plane reports: "+part, func() (bool, string) {
		record, err := r.Record(t.Context())
		must(t, err)
		c := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionAgent)
		return c != nil && c.Status == status && strings.Contains(c.Message, part), fmt.Sprint(c)
	})
}

func TestBundleUpgradesAgentAndRollsBackABadImage(t *testing.T) {
	f := shareFleet(t)
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	first, second, third, fourth := agentImage("1.0"), agentImage("2.0"), agentImage("3.0"), agentImage("4.0")
	deployAgent(t, berlin, first)
	becomePod(t, berlin, "agent-1", first)

	// The running agent rolls back an image whose pods never become ready.
	must(t, berlin.WantAgent(t.Context(), second))
	untilRuns(t, berlin, second)
	until(t, 60*time.Second, "the Deployment runs "+first, func() (bool, string) {
		stuck := deployed(t, berlin)
		if stuck.Spec.Template.Spec.Containers[0].Image == first {
			return true, ""
		}
		stuck.Status.ObservedGeneration = stuck.Generation
		stuck.Status.Conditions = []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
		}
		// Retry, because kwok or the agent can change the Deployment at the same time.
		return false,
			fmt.Sprint(stuck.Spec.Template.Spec.Containers[0].Image, berlin.API.Status().Update(t.Context(), stuck))
	})
	untilAgentCondition(t, berlin, metav1.ConditionFalse, "rolled back its image "+second)
	must(t, berlin.UntilState(t.Context(), f.Own("scaler"), "1.7.0", v1beta2.StateReady))

	t.Run("agent rolls back its own image after repeated crashes", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestAgentImageMustProveItselfOrBeRolledBack
		must(t, berlin.WantAgent(t.Context(), third))
		untilRuns(t, berlin, third)
		becomePod(t, berlin, "agent-3", third)
		for start := 1; start <= 4; start++ {
			until(t, 60*time.Second, fmt.Sprintf("the agent counts start %d of an unproven image", start),
				func() (bool, string) {
					counted := deployed(t, berlin).Annotations["kyma-pull.dev/unproven-starts"]
					return counted == fmt.Sprint("agent-3:", start), counted
				})
			berlin.Agent().Stop()
			must(t, berlin.StartAgent())
		}
		untilRuns(t, berlin, first)
		becomePod(t, berlin, "agent-1-again", first)
		untilAgentCondition(t, berlin, metav1.ConditionFalse, "rolled back its image "+third)
	})

	// The agent records a working image as proven.
	must(t, berlin.WantAgent(t.Context(), fourth))
	untilRuns(t, berlin, fourth)
	becomePod(t, berlin, "agent-4", fourth)
	until(t, 120*time.Second, "the new image is recorded as proven", func() (bool, string) {
		annotations := deployed(t, berlin).Annotations
		return annotations["kyma-pull.dev/proven-image"] == fourth, fmt.Sprint(annotations)
	})
	untilAgentCondition(t, berlin, metav1.ConditionTrue, "runs the image of its bundle")
}

// An agent that cannot reach the registry could never receive a different image, so it must roll back its image. Once
// the registry is available again, the agent retries the image.
func TestAgentImageWithoutRegistryAccessIsRolledBack(t *testing.T) {
	suite.Long(t) // the short suite runs TestBundleUpgradesAgentAndRollsBackABadImage
	f := newFleet(t, fleet.Options{})
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	fourth, fifth := agentImage("4.0"), agentImage("5.0")
	deployAgent(t, berlin, fourth)
	becomePod(t, berlin, "agent-4", fourth)
	berlin.AgentFlags = append(berlin.AgentFlags, "--upgrade-deadline=70s")
	must(t, berlin.WantAgent(t.Context(), fifth))
	untilRuns(t, berlin, fifth)
	f.Registry.Stop()
	becomePod(t, berlin, "agent-5", fifth)
	until(t, 120*time.Second, "the agent's image is rolled back", func() (bool, string) {
		annotations := deployed(t, berlin).Annotations
		if annotations["kyma-pull.dev/proven-image"] != fourth {
			t.Fatalf("an agent without a registry is recorded as proven: %v", annotations)
		}
		return annotations["kyma-pull.dev/undecided-image"] == "1 "+fifth, fmt.Sprint(annotations)
	})
	untilRuns(t, berlin, fourth)
	must(t, f.Registry.Resume())
	becomePod(t, berlin, "agent-4-again", fourth)
	untilAgentCondition(t, berlin, metav1.ConditionFalse, "returned from its image "+fifth)
	until(t, 150*time.Second, "the agent tries the image again", func() (bool, string) {
		image := deployed(t, berlin).Spec.Template.Spec.Containers[0].Image
		return image == fifth, image
	})
	becomePod(t, berlin, "agent-5-again", fifth)
	until(t, 150*time.Second, "the image is recorded as proven", func() (bool, string) {
		annotations := deployed(t, berlin).Annotations
		return annotations["kyma-pull.dev/proven-image"] == fifth && annotations["kyma-pull.dev/undecided-image"] == "",
			fmt.Sprint(annotations)
	})
}
