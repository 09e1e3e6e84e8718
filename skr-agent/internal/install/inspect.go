package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
)

// Limits for one module's details.
const (
	maxListedPods   = 100
	maxListedEvents = 100
	maxFailingPods  = 2 // for each workload
)

// Inspect returns the requested details for a module. It reads them with the module account's permissions. The result's
// field Problem contains the first read error.
func (i *Installer) Inspect(ctx context.Context, m *v1beta2.Manifest, wanted []bundle.Detail) *bundle.ModuleDetails {
	found := inspection{actor: i.planner.accounts.Of(m), wanted: wanted,
		details: bundle.ModuleDetails{Taken: i.pacer.now().UTC().Truncate(time.Second)}}
	telling, _ := i.observer.statusObjects(m, m.Status.Synced)
	seen, err := i.observer.readAll(ctx, m, &memo{}, telling, func(v1beta2.Resource) bool { return false })
	if err != nil {
		found.recordError(err)
		return &found.details
	}
	states := map[guard.Key]bundle.DetailedObject{}
	var failing []readiness.Observation
	for n := range seen {
		o := &seen[n]
		if r, ok := i.planner.defaultCR(m); ok && o.Key == object.KeyOf(r) {
			o.Checks = readiness.Checks(m)
		}
		o.Completed = o.Object == nil && planning.CompletedJobs(m).Has(o.Key)
		state, message := readiness.ObjectState(*o)
		states[o.Key] = newDetailedObject(o.Key, string(state), message)
		if state != v1beta2.StateReady {
			failing = append(failing, *o)
		}
	}
	if found.isWanted(bundle.DetailObjects) {
		found.addObjects(m.Status.Synced, telling, states, i.watches)
	}
	if found.isWanted(bundle.DetailEvents) || found.isWanted(bundle.DetailLogs) {
		for _, o := range failing {
			found.addFailing(ctx, o, states[o.Key])
		}
	}
	return &found.details
}

// newDetailedObject returns an object for a report, with shortened names.
func newDetailedObject(k guard.Key, state, message string) bundle.DetailedObject {
	short := func(text string) string { return bundle.Bounded(text, bundle.MaxModuleNameBytes) }
	return bundle.DetailedObject{
		Group: short(k.Group), Kind: short(k.Kind), Namespace: short(k.Namespace), Name: short(k.Name), State: state,
		Message: excerpt.RedactLine(message),
	}
}

type inspection struct {
	actor   *account.Account
	wanted  []bundle.Detail
	details bundle.ModuleDetails
}

func (n *inspection) isWanted(d bundle.Detail) bool { return slices.Contains(n.wanted, d) }

// recordError records an error from reading details. Only the first error is kept.
func (n *inspection) recordError(err error) {
	if n.details.Problem == "" {
		n.details.Problem = bundle.Bounded(excerpt.Redact(err.Error()), bundle.MaxMessageBytes)
	}
}

// addObjects adds the module's objects to the details. Objects that are not ready come first.
func (n *inspection) addObjects(inventory, telling []v1beta2.Resource, states map[guard.Key]bundle.DetailedObject,
	seen *drift.Watches) {
	var all []bundle.DetailedObject
	for _, r := range object.Union(inventory, telling) {
		o, known := states[object.KeyOf(r)]
		if !known {
			o = newDetailedObject(object.KeyOf(r), "", "")
			if seen.Version(r) != "" {
				o.State = string(v1beta2.StateReady)
			}
		}
		all = append(all, o)
	}
	rank := func(o bundle.DetailedObject) int {
		return slices.Index([]string{string(v1beta2.StateError), string(v1beta2.StateProcessing),
			string(v1beta2.StateWarning), "", string(v1beta2.StateReady)}, o.State)
	}
	slices.SortStableFunc(all, func(a, b bundle.DetailedObject) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace,
			b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	n.details.LeftOut += max(0, len(all)-bundle.MaxDetailedObjects)
	n.details.Objects = all[:min(len(all), bundle.MaxDetailedObjects)]
}

// addFailing adds a failing object to the details. For a workload, it also adds failing Pods.
func (n *inspection) addFailing(ctx context.Context, o readiness.Observation, as bundle.DetailedObject) {
	if len(n.details.Failing) >= bundle.MaxFailingObjects {
		n.details.LeftOut++
		return
	}
	found := bundle.FailingObject{DetailedObject: as}
	if o.Object != nil {
		n.addExplanation(ctx, o.Object, &found)
		if isPod(o.Object) {
			n.addPod(ctx, o.Object, &found)
		}
	}
	n.details.Failing = append(n.details.Failing, found)
	for _, pod := range n.listFailingPods(ctx, o.Object) {
		if len(n.details.Failing) >= bundle.MaxFailingObjects {
			n.details.LeftOut++
			continue
		}
		k := object.KeyIn(object.PodKind, pod.GetNamespace(), pod.GetName())
		one := bundle.FailingObject{DetailedObject: newDetailedObject(k, string(v1beta2.StateProcessing),
			"Pod phase is "+object.Text(pod, "status", "phase"))}
		n.addExplanation(ctx, pod, &one)
		n.addPod(ctx, pod, &one)
		n.details.Failing = append(n.details.Failing, one)
	}
}

// addExplanation adds an object's conditions and Events to found, if Events are requested.
func (n *inspection) addExplanation(ctx context.Context, o *unstructured.Unstructured, found *bundle.FailingObject) {
	if n.isWanted(bundle.DetailEvents) {
		found.Conditions, found.Events = failedConditions(o), n.listEvents(ctx, o)
	}
}

func isPod(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == object.PodKind
}

// failedConditions returns an object's conditions that report a failure or are not True.
func failedConditions(o *unstructured.Unstructured) []string {
	var lines []string
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		kind, _ := condition["type"].(string)
		status, _ := condition["status"].(string)
		if status == "True" && !strings.Contains(kind, "Fail") || len(lines) == bundle.MaxDetailLines {
			continue
		}
		reason, _ := condition["reason"].(string)
		message, _ := condition["message"].(string)
		lines = append(lines, excerpt.RedactLine(fmt.Sprintf("%s=%s %s: %s", kind, status, reason, message)))
	}
	return lines
}

// listEvents returns an object's latest Events, newest last.
func (n *inspection) listEvents(ctx context.Context, o *unstructured.Unstructured) []string {
	if o.GetNamespace() == "" {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "EventList"})
	err := n.actor.Client.List(ctx, list, &client.ListOptions{
		Namespace: o.GetNamespace(), FieldSelector: fields.OneTermEqualSelector("involvedObject.uid",
			string(o.GetUID())), Limit: maxListedEvents,
	})
	if err != nil {
		n.recordError(fmt.Errorf("list Events in %s: %w", o.GetNamespace(), err))
		return nil
	}
	last := func(e unstructured.Unstructured) string {
		return cmp.Or(object.Text(&e, "series", "lastObservedTime"), object.Text(&e, "lastTimestamp"),
			object.Text(&e, "eventTime"),
			object.Text(&e, "metadata", "creationTimestamp"))
	}
	slices.SortStableFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(last(a), last(b)) })
	var lines []string
	for _, e := range list.Items[max(0, len(list.Items)-bundle.MaxDetailLines):] {
		count := max(object.Integer(&e, 1, "count"), object.Integer(&e, 1, "series", "count"))
		lines = append(
			lines, excerpt.RedactLine(fmt.Sprintf("%s %s %s (x%d): %s", last(e), object.Text(&e, "type"), object.Text(&e,
				"reason"), count, object.Text(&e, "message"))))
	}
	return lines
}

// listFailingPods returns a workload's newest Pods that are not ready.
func (n *inspection) listFailingPods(ctx context.Context,
	workload *unstructured.Unstructured) []*unstructured.Unstructured {
	if workload == nil || !slices.Contains([]string{"apps", "batch"}, workload.GroupVersionKind().Group) {
		return nil
	}
	field, found, _ := unstructured.NestedMap(workload.Object, "spec", "selector")
	var by metav1.LabelSelector
	if !found || runtime.DefaultUnstructuredConverter.FromUnstructured(field, &by) != nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&by)
	if err != nil || selector.Empty() || selector.String() == labels.Nothing().String() {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "PodList"})
	if err := n.actor.Client.List(ctx, list, &client.ListOptions{Namespace: workload.GetNamespace(),
		LabelSelector: selector, Limit: maxListedPods}); err != nil {
		n.recordError(fmt.Errorf("list Pods in %s: %w", workload.GetNamespace(), err))
		return nil
	}
	slices.SortStableFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time)
	})
	var pods []*unstructured.Unstructured
	for n := range list.Items {
		pod := &list.Items[n]
		if isControlledBy(pod, workload) && !readiness.IsTrue(pod, "Ready") && object.Text(pod, "status",
			"phase") != "Succeeded" && len(pods) < maxFailingPods {
			pods = append(pods, pod)
		}
	}
	return pods
}

// isControlledBy reports whether a workload controls a Pod, directly or through a ReplicaSet. It compares the
// ReplicaSet's whole name. With only a prefix, the Deployment app could select Pods from the Deployment app-server,
// whose logs do not belong to the module.
//
// Source: Kubernetes, pkg/controller/deployment, the name of a new ReplicaSet.
func isControlledBy(pod, workload *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	return owner.UID == workload.GetUID() ||
		workload.GetKind() == "Deployment" && owner.Kind == "ReplicaSet" &&
			owner.Name == workload.GetName()+"-"+pod.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
}

// addPod adds the states and logs of a Pod's failing containers to found.
func (n *inspection) addPod(ctx context.Context, pod *unstructured.Unstructured, found *bundle.FailingObject) {
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", list)
		for _, s := range statuses {
			status, _ := s.(map[string]any)
			c := &unstructured.Unstructured{Object: status}
			ready, _, _ := unstructured.NestedBool(status, "ready")
			if status == nil || ready || object.Text(c, "state", "terminated", "reason") == "Completed" {
				continue
			}
			n.addContainer(ctx, pod, c, found)
		}
	}
}

func (n *inspection) addContainer(ctx context.Context, pod, status *unstructured.Unstructured,
	found *bundle.FailingObject) {
	name, restarts := object.Text(status, "name"), object.Integer(status, 0, "restartCount")
	for _, state := range []string{"waiting", "terminated", "running"} {
		if _, is, _ := unstructured.NestedMap(status.Object, "state",
			state); !is || !n.isWanted(bundle.DetailEvents) || len(found.Conditions) >= bundle.MaxDetailLines {
			continue
		}
		found.Conditions = append(found.Conditions, excerpt.RedactLine(fmt.Sprintf(
			"container %s is %s after %d restarts: %s: %s", name, state, restarts,
			object.Text(status, "state", state, "reason"), object.Text(status, "state", state, "message"))))
	}
	_, waits, _ := unstructured.NestedMap(status.Object, "state", "waiting")
	if !n.isWanted(bundle.DetailLogs) || len(found.Logs) == bundle.MaxDetailLogs || waits && restarts == 0 {
		return // the container has not run yet
	}
	text, err := n.actor.Log(ctx, pod.GetNamespace(), pod.GetName(), name, waits)
	if err != nil {
		n.recordError(fmt.Errorf("read log of container %s in Pod %s/%s: %w", name, pod.GetNamespace(), pod.GetName(),
			err))
		return
	}
	found.Logs = append(found.Logs, bundle.ContainerLog{Container: bundle.Bounded(name, bundle.MaxModuleNameBytes),
		Previous: waits, Text: excerpt.RedactTail(text)})
}
