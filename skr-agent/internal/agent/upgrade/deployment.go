package upgrade

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const containerName = "skr-agent"

// Deployment reads and patches the Deployment that runs this agent.
type Deployment struct {
	Client          client.Client
	Namespace, Name string
	// Pod is the name of the agent's Pod. RunningImage is this Pod's image.
	Pod, RunningImage string
}

// Outcome is the result of a decision about the agent's image.
type Outcome struct {
	// Message describes the change to the Deployment for the log. It is empty if the Deployment was not changed.
	Message string
	// Problem is the reason why the agent does not run the bundle's image. It is empty if the agent runs this image.
	Problem string
	// Proven is true if the running image ran for one minute without a failure.
	Proven bool
}

// Find returns the agent's Deployment. It reads the running image from the agent's Pod.
func Find(ctx context.Context, uncached client.Client, namespace, name, pod string) (*Deployment, error) {
	var own corev1.Pod
	if err := uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, &own); err != nil {
		return nil, fmt.Errorf("read the agent's own Pod %s/%s: %w", namespace, pod, err)
	}
	running := containerImage(own.Spec)
	if running == nil {
		return nil, fmt.Errorf("Pod %s/%s has no container %s", namespace, pod, containerName)
	}
	return &Deployment{Client: uncached, Namespace: namespace, Name: name, Pod: pod, RunningImage: *running}, nil
}

// RecordStart counts a start of the agent, and rolls back to the previous image after too many starts.
func (d *Deployment) RecordStart(ctx context.Context) (Outcome, error) {
	return d.decide(ctx, Target{}, onStart)
}

// RecordRestart applies onRestart's result before the agent restarts itself. uptime is the time since the agent
// started.
func (d *Deployment) RecordRestart(ctx context.Context, uptime time.Duration) error {
	_, err := d.decide(ctx, Target{}, func(k Snapshot) Step { return onRestart(k, uptime) })
	return err
}

// Reconcile applies onReconciled's result after a reconciliation. healthyFor is the time since the last failure.
func (d *Deployment) Reconcile(ctx context.Context, wanted Target, healthyFor time.Duration) (Outcome, error) {
	return d.decide(ctx, wanted, func(k Snapshot) Step { return onReconciled(k, wanted, healthyFor) })
}

// EnforceDeadline applies onDeadline's result at the deadline for a new image.
func (d *Deployment) EnforceDeadline(ctx context.Context, unreachable bool) (Outcome, error) {
	return d.decide(ctx, Target{}, func(k Snapshot) Step { return onDeadline(k, unreachable) })
}

// decide reads the Deployment, calls the given function, and applies its result. It returns a conflict error after a
// concurrent change to the Deployment.
func (d *Deployment) decide(ctx context.Context, wanted Target, decide func(Snapshot) Step) (Outcome, error) {
	var deployment appsv1.Deployment
	if err := d.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Name}, &deployment); err != nil {
		return Outcome{}, fmt.Errorf("read the agent's own Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	image := containerImage(deployment.Spec.Template.Spec)
	if image == nil {
		return Outcome{}, fmt.Errorf("Deployment %s/%s has no container %s", d.Namespace, d.Name, containerName)
	}
	known := d.snapshot(&deployment, *image)
	step := decide(known)
	if step.State != known.State {
		counted := d.readStarts(&deployment)
		if step.TemplateImage != known.TemplateImage || step.ProvenImage != known.ProvenImage {
			counted = nil // reset the counts, because the image is now proven or rolled back
		}
		if err := d.write(ctx, &deployment, step, counted.withCount(d.Pod, step.Starts)); err != nil {
			return Outcome{}, err
		}
	}
	known.State = step.State
	return Outcome{Message: step.Message, Problem: known.problem(wanted), Proven: known.ProvenImage == known.RunningImage},
		nil
}

func (d *Deployment) write(ctx context.Context, deployment *appsv1.Deployment, step Step, counted starts) error {
	before := deployment.DeepCopy()
	*containerImage(deployment.Spec.Template.Spec) = step.TemplateImage
	annotate(deployment, v1beta2.AnnotationProvenImage, step.ProvenImage)
	annotate(deployment, v1beta2.AnnotationFailedImage, step.FailedImage)
	annotate(deployment, v1beta2.AnnotationFormerImages, step.FormerDigests)
	annotate(deployment, v1beta2.AnnotationUndecidedImage,
		map[bool]string{true: strconv.Itoa(step.Trials) + " " + step.UndecidedImage}[step.UndecidedImage != ""])
	annotate(deployment, v1beta2.AnnotationRequestedImage, step.RequestedImage)
	annotate(deployment, v1beta2.AnnotationUnprovenStarts, counted.String())
	if err := d.Client.Patch(ctx, deployment,
		client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the agent's own Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// readStarts reads from a Deployment annotation how often each Pod with an unproven image has started.
func (d *Deployment) readStarts(deployment *appsv1.Deployment) starts {
	return parseStarts(deployment.Annotations[v1beta2.AnnotationUnprovenStarts])
}

// snapshot returns the Deployment's state and how often the agent's own Pod has started. It ignores other Pods' starts,
// because a user who can evict Pods can cause any number of starts.
func (d *Deployment) snapshot(deployment *appsv1.Deployment, set string) Snapshot {
	known := Snapshot{RunningImage: d.RunningImage, State: State{
		TemplateImage: set, Starts: d.readStarts(deployment).count(d.Pod),
		ProvenImage:    deployment.Annotations[v1beta2.AnnotationProvenImage],
		FailedImage:    deployment.Annotations[v1beta2.AnnotationFailedImage],
		FormerDigests:  deployment.Annotations[v1beta2.AnnotationFormerImages],
		RequestedImage: deployment.Annotations[v1beta2.AnnotationRequestedImage],
	}}
	// A webhook can replace the registry in the Pod's image, for example with a cache.
	if bundle.ImageDigest(d.RunningImage) == bundle.ImageDigest(set) {
		known.RunningImage = set
	}
	if count, image, ok := strings.Cut(deployment.Annotations[v1beta2.AnnotationUndecidedImage], " "); ok {
		trials, _ := strconv.Atoi(count)
		known.UndecidedImage, known.Trials = image, max(trials, 0)
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse &&
			deployment.Status.ObservedGeneration == deployment.Generation {
			known.IsStuck = true
		}
	}
	return known
}

func containerImage(spec corev1.PodSpec) *string {
	for i := range spec.Containers {
		if spec.Containers[i].Name == containerName {
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
