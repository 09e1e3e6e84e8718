package kindscenario

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// The egress rules in the agent's chart apply to HTTP checks. The chart allows one of the Service's two ports. The
// rollout waits until an operator allows the other port, too.
func TestNetworkPolicyLimitsCheckRequests(t *testing.T) {
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	setStage(t, "canary")
	const allowed, forbidden = 5000, 5001
	p := policedProgram{r.ID, r.API, v1beta2.RuntimeNamespace, "skr-agent"}
	pod, _ := p.run(t, metav1.NamespaceDefault, "measured", corev1.ContainerPort{ContainerPort: allowed},
		corev1.ContainerPort{ContainerPort: forbidden})
	labels := map[string]string{"app": "measured"}
	p.label(t, pod, labels)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "measured"},
		Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{
			{Name: "allowed", Port: allowed}, {Name: "forbidden", Port: forbidden},
		}},
	}
	must(t, r.API.Create(ctx, service))
	addCleanup(func(ctx context.Context) error { return r.API.Delete(ctx, service) })
	check := func(name string, port int32) v1alpha1.Check {
		at := v1alpha1.ServiceReference{Namespace: service.Namespace, Name: service.Name, Port: port}
		return v1alpha1.Check{
			Name: name, HTTP: &v1alpha1.HTTPCheck{Service: at}, SuccessThreshold: 1,
			Interval: metav1.Duration{Duration: 10 * time.Second}, Timeout: metav1.Duration{Duration: 3 * time.Second},
		}
	}
	must(t, stage.fleet.CreatePolicy(ctx, samplemodule.Module, v1alpha1.Course{Waves: []v1alpha1.Wave{
		{
			Name:     "canary",
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelStage: "canary"}},
			Checks:   []v1alpha1.Check{check("allowed", allowed), check("forbidden", forbidden)},
		},
		{Name: "rest", Percent: new(int32(100))},
	}}))
	addCleanup(deleteRollouts)
	version, name := promote(t), samplemodule.Module+"-regular-1"
	const blocked = "check forbidden is Inconclusive: the measurement did not end within 3s"
	must(t, stage.fleet.UntilRollout(ctx, name, "one check is blocked", func(s v1alpha1.RolloutStatus) bool {
		return len(s.Waves) == 2 && len(s.Waves[0].Checks) == 2 && s.Waves[0].Checks[0].Passed == 1 &&
			strings.Contains(s.Message, "berlin ("+blocked+")")
	}))
	text, err := stage.fleet.Ask(ctx, "why", r.ID, samplemodule.Module)
	if err != nil || !strings.Contains(text, "did not end within 3s") {
		t.Errorf("why: got error %v, want the message of check forbidden in\n%s", err, text)
	}

	p.allow(t, forbidden)
	must(t, stage.fleet.UntilRollout(ctx, name, "both checks are Passed", func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutSucceeded && s.Waves[0].Checks[0].Passed == 1 &&
			s.Waves[0].Checks[1].Passed == 1
	}))
	must(t, r.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
}

// allow adds an egress rule for a port to the program's NetworkPolicy and removes it when the scenario ends.
func (p policedProgram) allow(t *testing.T, port int32) {
	t.Helper()
	var before networkingv1.NetworkPolicy
	must(t, p.api.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: p.name}, &before))
	after := before.DeepCopy()
	after.Spec.Egress = append(after.Spec.Egress, networkingv1.NetworkPolicyEgressRule{
		Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(port))}},
	})
	must(t, p.api.Patch(t.Context(), after, client.MergeFrom(&before)))
	addCleanup(func(ctx context.Context) error {
		restored := after.DeepCopy()
		restored.Spec = before.Spec
		if err := p.api.Patch(ctx, restored, client.MergeFrom(after)); err != nil {
			return fmt.Errorf("restore NetworkPolicy %s: %w", p.name, err)
		}
		return nil
	})
}
