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

const container = "skr-agent"

// Deployment reads and patches the Deployment that runs this agent.
type Deployment struct {
	Client          client.Client
	Namespace, Name string
	// Pod is the name of the agent's Pod. Running is the image of this Pod.
	Pod, Running string
}

// Outcome is the result of a decision about the agent's image.
type Outcome struct {
	// Message describes the change of the Deployment for the log. Empty if the Deployment was not changed.
	Message string
	// Problem is the reason why the agent does not run the bundle's image. Empty if it does.
	Problem string
	// Proven is true if the running image ran for one minute without a failure.
	Proven bool
}

// Find returns the agent's Deployment with the image of the agent's Pod.
func Find(ctx context.Context, uncached client.Client, namespace, name, pod string) (*Deployment, error) {
	var own corev1.Pod
	if err := uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, &own); err != nil {
		return nil, fmt.Errorf("read the agent's own Pod %s/%s: %w", namespace, pod, err)
	}
	running := imageOf(own.Spec)
	if running == nil {
		return nil, fmt.Errorf("Pod %s/%s has no container %s", namespace, pod, container)
	}
	return &Deployment{Client: uncached, Namespace: namespace, Name: name, Pod: pod, Running: *running}, nil
}

// Start counts a start of the agent, and rolls back to the previous image after too many starts.
func (d *Deployment) Start(ctx context.Context) (Outcome, error) {
	return d.decide(ctx, Wanted{}, Start)
}

// Again applies the result of the package function Again, before the agent restarts itself. ran is the time since the
// agent's start.
func (d *Deployment) Again(ctx context.Context, ran time.Duration) error {
	_, err := d.decide(ctx, Wanted{}, func(k Known) Step { return Again(k, ran) })
	return err
}

// Round applies the result of the package function Round, after a reconciliation.
func (d *Deployment) Round(ctx context.Context, wanted Wanted, well time.Duration) (Outcome, error) {
	return d.decide(ctx, wanted, func(k Known) Step { return Round(k, wanted, well) })
}

// Overdue applies the result of the package function Overdue, at the deadline for a new image.
func (d *Deployment) Overdue(ctx context.Context, unreachable bool) (Outcome, error) {
	return d.decide(ctx, Wanted{}, func(k Known) Step { return Overdue(k, unreachable) })
}

// decide reads the Deployment, calls the function decide and applies its result. It returns a conflict error after a
// concurrent change of the Deployment.
func (d *Deployment) decide(ctx context.Context, wanted Wanted, decide func(Known) Step) (Outcome, error) {
	var deployment appsv1.Deployment
	if err := d.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Name}, &deployment); err != nil {
		return Outcome{}, fmt.Errorf("read the agent's own Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	image := imageOf(deployment.Spec.Template.Spec)
	if image == nil {
		return Outcome{}, fmt.Errorf("Deployment %s/%s has no container %s", d.Namespace, d.Name, container)
	}
	known := d.known(&deployment, *image)
	step := decide(known)
	if step.State != known.State {
		counted := d.starts(&deployment)
		if step.Set != known.Set || step.Proven != known.Proven {
			counted = nil // reset the counts, because the image is now proven or rolled back
		}
		if err := d.write(ctx, &deployment, step, counted.with(d.Pod, step.Starts)); err != nil {
			return Outcome{}, err
		}
	}
	known.State = step.State
	return Outcome{Message: step.Message, Problem: known.Problem(wanted), Proven: known.Proven == known.Running}, nil
}

func (d *Deployment) write(ctx context.Context, deployment *appsv1.Deployment, step Step, counted starts) error {
	before := deployment.DeepCopy()
	*imageOf(deployment.Spec.Template.Spec) = step.Set
	annotate(deployment, v1beta2.AnnotationProvenImage, step.Proven)
	annotate(deployment, v1beta2.AnnotationFailedImage, step.Failed)
	annotate(deployment, v1beta2.AnnotationFormerImages, step.Former)
	annotate(deployment, v1beta2.AnnotationUndecidedImage,
		map[bool]string{true: strconv.Itoa(step.Trials) + " " + step.Undecided}[step.Undecided != ""])
	annotate(deployment, v1beta2.AnnotationRequestedImage, step.Requested)
	annotate(deployment, v1beta2.AnnotationUnprovenStarts, counted.String())
	if err := d.Client.Patch(ctx, deployment,
		client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the agent's own Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// starts returns the number of starts of each Pod with an unproven image, from an annotation of the Deployment.
func (d *Deployment) starts(deployment *appsv1.Deployment) starts {
	return parseStarts(deployment.Annotations[v1beta2.AnnotationUnprovenStarts])
}

// known returns the state of the Deployment and the starts of the agent's own Pod. It ignores starts of other Pods,
// because a user who can evict Pods can cause any number of starts.
func (d *Deployment) known(deployment *appsv1.Deployment, set string) Known {
	known := Known{Running: d.Running, State: State{
		Set: set, Starts: d.starts(deployment).of(d.Pod),
		Proven:    deployment.Annotations[v1beta2.AnnotationProvenImage],
		Failed:    deployment.Annotations[v1beta2.AnnotationFailedImage],
		Former:    deployment.Annotations[v1beta2.AnnotationFormerImages],
		Requested: deployment.Annotations[v1beta2.AnnotationRequestedImage],
	}}
	// A webhook can replace the registry in the Pod's image, for example with a cache.
	if bundle.ImageDigest(d.Running) == bundle.ImageDigest(set) {
		known.Running = set
	}
	if count, image, ok := strings.Cut(deployment.Annotations[v1beta2.AnnotationUndecidedImage], " "); ok {
		trials, _ := strconv.Atoi(count)
		known.Undecided, known.Trials = image, max(trials, 0)
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse &&
			deployment.Status.ObservedGeneration == deployment.Generation {
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
