package upgrade

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// deploymentOnTrial returns a client with a Deployment whose image is not proven yet, and a function that returns the
// image and the counted starts.
func deploymentOnTrial(t *testing.T) (client.Client, func() (image, counted string)) {
	t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kyma-system", Name: "skr-agent",
		Annotations: map[string]string{v1beta2.AnnotationProvenImage: "proven"},
	}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: containerName, Image: "broken"}}
	c := fake.NewClientBuilder().WithObjects(deployment).Build()
	return c, func() (string, string) {
		t.Helper()
		var now appsv1.Deployment
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(deployment), &now); err != nil {
			t.Fatal(err)
		}
		return now.Spec.Template.Spec.Containers[0].Image, now.Annotations[v1beta2.AnnotationUnprovenStarts]
	}
}

func startPod(t *testing.T, c client.Client, pod string) {
	t.Helper()
	d := &Deployment{Client: c, Namespace: "kyma-system", Name: "skr-agent", Pod: pod, RunningImage: "broken"}
	if _, err := d.RecordStart(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenImageIsRolledBackWithSeveralReplicas(t *testing.T) {
	for _, replicas := range []int{1, 2, 3} {
		c, now := deploymentOnTrial(t)
		begun := 0
		for image, _ := now(); image == "broken"; image, _ = now() {
			if begun++; begun > 10*maxStarts*replicas {
				_, counted := now()
				t.Fatalf("%d replicas: the image is not rolled back after %d starts, counted %q", replicas, begun, counted)
			}
			startPod(t, c, fmt.Sprintf("pod-%d", begun%replicas))
		}
		if image, counted := now(); image != "proven" || counted != "" {
			t.Errorf("%d replicas: got image %s with counted starts %q after the rollback", replicas, image, counted)
		}
	}
}

func TestEvictedPodsDoNotRollBackAnImage(t *testing.T) {
	c, now := deploymentOnTrial(t)
	for i := range 100 {
		startPod(t, c, fmt.Sprintf("pod-%d", i))
	}
	image, counted := now()
	if image != "broken" || len(parseStarts(counted)) != maxCountedPods {
		t.Errorf("got image %s with counted starts %q, want no rollback and %d counted Pods", image, counted,
			maxCountedPods)
	}
}

func TestInvalidStartCountsAreIgnored(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a:1": "a:1", "a:1,b:2": "a:1,b:2", "a": "", "a:-1,b:2": "b:2", ":3": "", "a:x,b:1": "b:1",
		"a:1,,b:1": "a:1,b:1",
	} {
		if got := parseStarts(text).String(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
