package upgrade

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// container is the agent's in its pods.
const container = "skr-agent"

// Annotations of the Deployment, which outlive every pod.
const (
	annotationProven = "kyma-pull.dev/proven-image"
	annotationFailed = "kyma-pull.dev/failed-image"
	annotationStarts = "kyma-pull.dev/unproven-starts"
)

// Deployment is the agent's own.
type Deployment struct {
	Client                   client.Client
	Namespace, Name, Running string
}

// Find reads which image the pod with the name pod runs, of the Deployment called name.
func Find(ctx context.Context, uncached client.Client, namespace, name, pod string) (*Deployment, error) {
	var own corev1.Pod
	if err := uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, &own); err != nil {
		return nil, fmt.Errorf("read the agent's own Pod %s/%s: %w", namespace, pod, err)
	}
	running := imageOf(own.Spec)
	if running == nil {
		return nil, fmt.Errorf("Pod %s/%s has no container %s", namespace, pod, container)
	}
	return &Deployment{Client: uncached, Namespace: namespace, Name: name, Running: *running}, nil
}

// Start counts this start, and goes back to the image before when there were too many. It gives what it did, empty for nothing that
// a person must know.
func (d *Deployment) Start(ctx context.Context) (string, error) {
	_, said, err := d.decide(ctx, Start)
	return said, err
}

// Round follows the bundle after a round: see Round. It gives what it did, and why the image wanted does not run.
func (d *Deployment) Round(ctx context.Context, wanted string, worked time.Duration) (said, problem string, err error) {
	known, said, err := d.decide(ctx, func(k Known) Step { return Round(k, wanted, worked) })
	return said, known.Problem(wanted), err
}

// decide reads the Deployment and writes what was decided over exactly that state: two pods may decide at once. It gives the state
// that holds afterwards.
func (d *Deployment) decide(ctx context.Context, decide func(Known) Step) (Known, string, error) {
	var deployment appsv1.Deployment
	if err := d.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Name}, &deployment); err != nil {
		return Known{}, "", fmt.Errorf("read the agent's own Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	image := imageOf(deployment.Spec.Template.Spec)
	if image == nil {
		return Known{}, "", fmt.Errorf("Deployment %s/%s has no container %s", d.Namespace, d.Name, container)
	}
	known := knownOf(&deployment, *image, d.Running)
	step := decide(known)
	if !known.changes(step) {
		return known, "", nil
	}
	before := deployment.DeepCopy()
	*imageOf(deployment.Spec.Template.Spec) = step.Set
	annotate(&deployment, annotationProven, step.Proven)
	annotate(&deployment, annotationFailed, step.Failed)
	annotate(&deployment, annotationStarts, map[bool]string{true: strconv.Itoa(step.Starts)}[step.Starts > 0])
	if err := d.Client.Patch(ctx, &deployment, client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return known, "", fmt.Errorf("write the agent's own Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	known.Set, known.Proven, known.Failed, known.Starts = step.Set, step.Proven, step.Failed, step.Starts
	return known, step.Say, nil
}

func knownOf(deployment *appsv1.Deployment, set, running string) Known {
	starts, _ := strconv.Atoi(deployment.Annotations[annotationStarts])
	known := Known{
		Set: set, Running: running, Starts: max(starts, 0),
		Proven: deployment.Annotations[annotationProven], Failed: deployment.Annotations[annotationFailed],
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && deployment.Status.ObservedGeneration == deployment.Generation {
			known.Stuck = true
		}
	}
	return known
}

func imageOf(spec corev1.PodSpec) *string {
	for i := range spec.Containers {
		if spec.Containers[i].Name == container {
			return &spec.Containers[i].Image
		}
	}
	return nil
}

func annotate(deployment *appsv1.Deployment, name, value string) {
	if value == "" {
		delete(deployment.Annotations, name)
		return
	}
	if deployment.Annotations == nil {
		deployment.Annotations = map[string]string{}
	}
	deployment.Annotations[name] = value
}
