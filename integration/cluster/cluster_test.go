package cluster

import (
	"context"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

func TestWorkloadsBecomeReadyUnlessBroken(t *testing.T) {
	ctx := t.Context()
	started := time.Now()
	c, err := Start(ctx, Options{Workloads: true, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("cluster up after %s", time.Since(started).Round(time.Millisecond))
	client := kubernetes.NewForConfigOrDie(c.Config)
	deployments := client.AppsV1().Deployments("default")
	good, broken := deployment("good"), deployment("broken")
	broken.Annotations = map[string]string{"kyma-pull.dev/simulate": "broken"}
	for _, d := range []*appsv1.Deployment{good, broken} {
		if _, err := deployments.Create(ctx, d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(name string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			d, err := deployments.Get(ctx, name, metav1.GetOptions{})
			return err == nil && d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == *d.Spec.Replicas, err
		}
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, ready("good")); err != nil {
		log, _ := os.ReadFile(c.kwok.log.Name())
		t.Fatalf("good: %v\n%s", err, log)
	}
	scaled, err := deployments.Get(ctx, "good", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scaled.Spec.Replicas = new(int32(3))
	if _, err := deployments.Update(ctx, scaled, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, ready("good")); err != nil {
		t.Fatalf("good after a change: %v", err)
	}
	if ok, err := ready("broken")(ctx); ok || err != nil {
		t.Errorf("broken is ready: %v %v", ok, err)
	}
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example/app:1"}}},
			},
		},
	}
}
