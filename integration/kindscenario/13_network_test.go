package kindscenario

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/kind"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// The other scenarios prove that the NetworkPolicies allow the necessary traffic.
func TestChartNetworkPoliciesBlockUnneededTraffic(t *testing.T) {
	startScenario(t)
	for _, p := range []policedProgram{
		{stage.berlin.ID, stage.berlin.API, v1beta2.RuntimeNamespace, "skr-agent"},
		{"kcp", stage.fleet.Control, sample.Namespace, "kcp-publisher"},
	} {
		t.Run(p.name, p.checkBlocked)
	}
}

// policedProgram is a program with a NetworkPolicy from its chart.
type policedProgram struct {
	cluster         string
	api             client.Client
	namespace, name string
}

// checkBlocked checks that the policy blocks unneeded traffic. It opens the same connections from a test pod with the
// program's labels, and from one without them.
func (p policedProgram) checkBlocked(t *testing.T) {
	labels := p.labels(t)
	const metrics, probes, registry, unknown = 8080, 8081, 5000, 5001
	double, doubleIP := p.run(t, p.namespace, "double", corev1.ContainerPort{Name: "metrics", ContainerPort: metrics},
		corev1.ContainerPort{ContainerPort: probes})
	stranger, strangerIP := p.run(t, metav1.NamespaceDefault, "stranger", corev1.ContainerPort{ContainerPort: registry},
		corev1.ContainerPort{ContainerPort: unknown})
	untilAll := func(when, refused string) {
		p.untilDialed(t, when, double, strangerIP, unknown, refused)
		p.untilDialed(t, when, stranger, doubleIP, probes, refused)
		p.untilDialed(t, when, double, strangerIP, registry, answers)
		p.untilDialed(t, when, stranger, doubleIP, metrics, answers)
	}
	untilAll("before the test pod has the program's labels", answers)
	p.label(t, double, labels)
	untilAll("while the test pod has the program's labels", refuses)
	p.label(t, double, nil)
	untilAll("after the labels are removed from the test pod", answers)
}

// labels returns the policy's pod selector, and checks that it matches the program's own pod.
func (p policedProgram) labels(t *testing.T) map[string]string {
	t.Helper()
	var policy networkingv1.NetworkPolicy
	must(t, p.api.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: p.name}, &policy))
	labels := policy.Spec.PodSelector.MatchLabels
	var pods corev1.PodList
	must(t, p.api.List(t.Context(), &pods, client.InNamespace(p.namespace), client.MatchingLabels(labels)))
	if len(labels) == 0 || len(pods.Items) == 0 {
		t.Fatalf("the policy selects labels %v, which %d pods have, want at least one", labels, len(pods.Items))
	}
	return labels
}

// run starts a pod that listens on ports and returns its address.
func (p policedProgram) run(t *testing.T, namespace, name string, ports ...corev1.ContainerPort) (*corev1.Pod, string) {
	t.Helper()
	args := []string{"listen"}
	for _, port := range ports {
		args = append(args, strconv.Itoa(int(port.ContainerPort)))
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "dialer", Image: kind.DialerImage, Args: args, Ports: ports}},
		},
	}
	must(t, p.api.Create(t.Context(), pod))
	addCleanup(func(ctx context.Context) error { return p.api.Delete(ctx, pod, client.GracePeriodSeconds(0)) })
	until(t, "pod "+name+" runs", func() (bool, string) {
		err := p.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
		return err == nil && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "",
			fmt.Sprint(pod.Status.Phase, err)
	})
	return pod, pod.Status.PodIP
}

func (p policedProgram) label(t *testing.T, pod *corev1.Pod, labels map[string]string) {
	t.Helper()
	before := pod.DeepCopy()
	pod.Labels = labels
	must(t, p.api.Patch(t.Context(), pod, client.MergeFrom(before)))
}

// Results from dialing a port.
const (
	answers = "answers"
	refuses = "refuses"
)

func (p policedProgram) untilDialed(t *testing.T, when string, from *corev1.Pod, to string, port int, want string) {
	t.Helper()
	until(t, fmt.Sprintf("%s, port %d %s pod %s", when, port, want, from.Name), func() (bool, string) {
		output, err := stage.kind.Kubectl(t.Context(), p.cluster, "-n", from.Namespace, "exec", from.Name, "--",
			"/dialer", "dial", fmt.Sprintf("%s:%d", to, port))
		return err == nil && output == want, fmt.Sprint(output, err)
	})
}
