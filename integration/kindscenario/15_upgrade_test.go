package kindscenario

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/kind"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestBundleUpgradesAgentPodAndSurvivesABadImage(t *testing.T) {
	suite.Long(t) // the short suite runs TestBundleUpgradesAgentAndRollsBackABadImage
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	first := agentDeployment(t).Spec.Template.Spec.Containers[0].Image
	untilTrusted(t, first)

	better, err := stage.kind.LoadAgent(ctx, r, kind.AgentBetter)
	must(t, err)
	must(t, r.WantAgent(ctx, better))
	untilTrusted(t, better)
	until(t, "the control plane shows the agent's version", func() (bool, string) {
		record, err := r.Record(ctx)
		if err != nil || record.Status.Runtime == nil || record.Status.Runtime.Observed == nil {
			return false, fmt.Sprint("the runtime has not reported yet ", err)
		}
		return record.Status.Runtime.Observed.AgentVersion == kind.AgentBetter,
			record.Status.Runtime.Observed.AgentVersion
	})
	drift(t, r)

	bad, err := stage.kind.LoadAgent(ctx, r, kind.AgentBad)
	must(t, err)
	must(t, r.WantAgent(ctx, bad))
	until(t, "the bad agent has ended and was restarted", func() (bool, string) {
		ends := 0
		for _, p := range agentPods(t) {
			if p.Spec.Containers[0].Image == bad && len(p.Status.ContainerStatuses) > 0 {
				ends += int(p.Status.ContainerStatuses[0].RestartCount)
			}
		}
		return ends > 0, fmt.Sprint(ends, " ends")
	})
	drift(t, r)
	until(t, "the control plane reports the rollback of the image", func() (bool, string) {
		record, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionAgent)
		return c != nil && c.Status == metav1.ConditionFalse &&
			strings.Contains(c.Message, "rolled back its image "+bad), fmt.Sprint(c)
	})
	untilOnly(t, better)
	version := promote(t)
	must(t, r.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))

	// A chart upgrade sets the chart's agent image again. Once the agent has proven that image, it installs the image from
	// the bundle again.
	must(t, r.WantAgent(ctx, better))
	must(t, r.StartAgent())
	if image := agentDeployment(t).Spec.Template.Spec.Containers[0].Image; image != first {
		t.Errorf("after an upgrade of the chart, the agent has image %s, want the chart's image %s", image, first)
	}
	drift(t, r)
	untilOnly(t, better)
	drift(t, r)
}

func agentDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	must(t, stage.berlin.API.Get(t.Context(), client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent"},
		deployment))
	return deployment
}

func agentPods(t *testing.T) []corev1.Pod {
	t.Helper()
	return podsOf(t, stage.berlin.API, v1beta2.RuntimeNamespace, "skr-agent")
}

// untilOnly waits until all pods of berlin's agent run an image.
func untilOnly(t *testing.T, image string) {
	t.Helper()
	until(t, "all agent pods have image "+image, func() (bool, string) {
		var images []string
		for _, p := range agentPods(t) {
			images = append(images, p.Spec.Containers[0].Image)
		}
		return len(images) == 1 && images[0] == image, fmt.Sprint(images, agentDeployment(t).Annotations)
	})
}

// untilTrusted waits until the agent in berlin has recorded the image as proven.
func untilTrusted(t *testing.T, image string) {
	t.Helper()
	until(t, "the agent trusts its image "+image, func() (bool, string) {
		deployment := agentDeployment(t)
		return deployment.Annotations["kyma-pull.dev/proven-image"] == image,
			fmt.Sprint(deployment.Annotations, deployment.Status)
	})
}
