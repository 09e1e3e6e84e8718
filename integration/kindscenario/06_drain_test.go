package kindscenario

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestDrainEvictsOnePublisherAtATime(t *testing.T) {
	startScenario(t)
	ctx, control := t.Context(), stage.fleet.Control
	untilPromoted(t, stage.berlin)
	until(t, "two publishers are ready", func() (bool, string) {
		ready := readyPods(podsOf(t, control, sample.Namespace, "kcp-publisher"))
		return len(ready) == 2, fmt.Sprint(ready)
	})
	before := readyPods(podsOf(t, control, sample.Namespace, "kcp-publisher"))
	left := func() []string {
		return slices.DeleteFunc(readyPods(podsOf(t, control, sample.Namespace, "kcp-publisher")),
			func(name string) bool { return !slices.Contains(before, name) })
	}
	drained := drain(t, fleet.ControlPlane, "app.kubernetes.io/name=kcp-publisher")
	until(t, "one publisher is evicted, and its replacement waits for a node", func() (bool, string) {
		waiting := 0
		for _, p := range podsOf(t, control, sample.Namespace, "kcp-publisher") {
			if p.Status.Phase == corev1.PodPending {
				waiting++
			}
		}
		return waiting == 1 && len(left()) == 1, fmt.Sprint(waiting, " pending, ready ", left())
	})
	// The disruption budget protects the last ready publisher, so that one publisher always runs.
	if err := evict(ctx, control, sample.Namespace, left()[0]); !apierrors.IsTooManyRequests(err) {
		t.Errorf("eviction of the last publisher: got error %v, want TooManyRequests", err)
	}
	version := promote(t)
	must(t, stage.berlin.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	if stays := left(); len(stays) != 1 {
		t.Errorf("before a replacement was ready, publishers %v of %v remained, want one", before, stays)
	}
	must(t, uncordon(ctx, fleet.ControlPlane))
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if stays := left(); len(stays) != 0 {
		t.Errorf("publishers %v were not evicted by the drain", stays)
	}
	version = promote(t)
	must(t, stage.berlin.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
}

func TestEvictedAgentAndModuleRecover(t *testing.T) {
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	// The agent has a single replica, so it must not have a disruption budget, which would block a drain.
	drained := drain(t, r.Cluster(), "app.kubernetes.io/name=skr-agent")
	if err := <-drained; err != nil {
		t.Fatalf("drain: %v", err)
	}
	version := promote(t)
	must(t, uncordon(ctx, r.Cluster()))
	must(t, r.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))

	// Repeated evictions must also work for the agent and the module.
	evicted := 0
	for name, value := range map[string]string{"app.kubernetes.io/name": "skr-agent", "app": samplemodule.Operator} {
		var pods corev1.PodList
		must(t, r.API.List(ctx, &pods, client.InNamespace(v1beta2.RuntimeNamespace),
			client.MatchingLabels{name: value}))
		for _, p := range pods.Items {
			// Like kubectl drain, retry while the disruption budget does not allow the eviction.
			must(t, fleet.Until(ctx, time.Minute, "pod "+p.Name+" can be evicted", func() (bool, string) {
				err := evict(ctx, r.API, p.Namespace, p.Name)
				return client.IgnoreNotFound(err) == nil, fmt.Sprint(err)
			}))
			evicted++
		}
	}
	if evicted < 2 {
		t.Fatalf("evicted %d pods, want the pods of the agent and the module", evicted)
	}
	drift(t, r)
	version = promote(t)
	must(t, r.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	untilRunning(t, r, promotedImage())
}

// drain evicts the pods with a label from a cluster's only node, as kubectl drain does. The returned channel receives
// the result. At the end of the test, drain makes the node schedulable again.
func drain(t *testing.T, cluster, label string) <-chan error {
	t.Helper()
	node := nodeOf(t, cluster)
	addCleanup(func(ctx context.Context) error { return uncordon(ctx, cluster) })
	drained := make(chan error, 1)
	go func() {
		_, err := stage.kind.Kubectl(t.Context(), cluster, "drain", node, "--pod-selector", label,
			"--delete-emptydir-data", "--timeout=4m")
		drained <- err
	}()
	return drained
}

func nodeOf(t *testing.T, cluster string) string {
	t.Helper()
	node, err := stage.kind.Kubectl(t.Context(), cluster, "get", "nodes", "--output",
		"jsonpath={.items[0].metadata.name}")
	must(t, err)
	return node
}

func uncordon(ctx context.Context, cluster string) error {
	_, err := stage.kind.Kubectl(ctx, cluster, "uncordon", "--selector", "kubernetes.io/os=linux")
	return err
}

func evict(ctx context.Context, api client.Client, namespace, name string) error {
	p := &corev1.Pod{}
	p.Namespace, p.Name = namespace, name
	return api.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{})
}

func podsOf(t *testing.T, api client.Client, namespace, program string) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	must(t, api.List(t.Context(), &pods, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/name": program}))
	return pods.Items
}

// readyPods returns the names of pods that are ready and not terminating.
func readyPods(pods []corev1.Pod) []string {
	var names []string
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				names = append(names, p.Name)
			}
		}
	}
	return names
}
