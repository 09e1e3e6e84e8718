// Package follow makes the control plane match a branch in a Git repository. It applies the newest commit's objects,
// and deletes objects from earlier commits that the newest commit does not contain. It first validates the whole commit
// in a dry run. After a read error, it does not delete objects.
package follow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

// Key identifies an object in the control plane's namespace.
type Key struct {
	Kind schema.GroupKind
	Name string
}

func (k Key) String() string { return k.Kind.Kind + " " + k.Name }

// kindOrder is the order in which kinds are applied. Each kind comes before the kinds that refer to it.
var kindOrder = []string{"Watcher", "ModuleTemplate", "RolloutPolicy", "PromotionPolicy", "ModuleReleaseMeta", "Kyma"}

const kindKyma = "Kyma"

// wantedObjects returns a commit's objects for a namespace, in the order in which they are applied. omitted contains
// the names of the commit's other objects, such as Secrets, which are not applied.
func wantedObjects(written []source.Written, namespace string) (wanted []source.Written, omitted []string, err error) {
	var problems []error
	for _, w := range written {
		object := *w.Object.DeepCopy()
		kind := object.GetKind()
		if !slices.Contains(kindOrder, kind) {
			omitted = append(omitted, fmt.Sprintf("%s: %s %s", w.Place, kind, object.GetName()))
			continue
		}
		if own := object.GetNamespace(); own != "" && own != namespace {
			problems = append(problems,
				fmt.Errorf("%s: metadata.namespace is %q, must be the control plane's namespace %q", w.Place, own,
					namespace))
		}
		object.SetNamespace(namespace)
		removeServerFields(object.Object)
		wanted = append(wanted, source.Written{Object: object, Place: w.Place})
	}
	slices.SortStableFunc(wanted, func(a, b source.Written) int {
		return cmp.Or(cmp.Compare(slices.Index(kindOrder, a.Object.GetKind()), slices.Index(kindOrder, b.Object.GetKind())),
			strings.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	for i := 1; i < len(wanted); i++ {
		if KeyOf(&wanted[i].Object) == KeyOf(&wanted[i-1].Object) {
			problems = append(problems,
				fmt.Errorf("%s: %s is already defined in %s", wanted[i].Place, KeyOf(&wanted[i].Object),
					wanted[i-1].Place))
		}
	}
	return wanted, omitted, errors.Join(problems...)
}

// KeyOf returns the key of an object.
func KeyOf(object *unstructured.Unstructured) Key {
	return Key{object.GroupVersionKind().GroupKind(), object.GetName()}
}

// removeServerFields removes fields that only the API server and controllers write.
func removeServerFields(object map[string]any) {
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{
			"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "generateName",
			"generation", "managedFields",
			"ownerReferences", "resourceVersion", "selfLink", "uid",
		} {
			delete(metadata, field)
		}
		// Operators approve removals in the control plane. A commit must not approve its own removals.
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, v1beta2.AnnotationApprovedRemovals)
		}
	}
}

// Plan contains the changes for one commit.
type Plan struct {
	// Apply contains the commit's objects that are missing or differ in the control plane.
	Apply []source.Written
	// Prune contains the objects to delete: objects from earlier commits that are not in this commit. An annotation
	// protects the objects in Protected from deletion.
	Prune, Protected []Key
	// Disown contains the objects that stay in the control plane but are not managed by the repository anymore.
	Disown []Key
	// Deleting contains the commit's objects that are being deleted. The follower creates them again after their
	// deletion.
	Deleting  []Key
	Inventory []Key
	// Held is the reason why the commit waits for approval, or nil.
	Held *PruneError
}

// Changes returns the number of objects that the plan changes.
func (p Plan) Changes() int { return len(p.Apply) + len(p.Prune) }

// isEmpty reports whether the control plane matches the commit.
func (p Plan) isEmpty() bool { return p.Changes()+len(p.Deleting) == 0 }

// sharedObjectsDiffer reports whether the plan changes objects other than Kymas. Such objects affect many runtimes.
func (p Plan) sharedObjectsDiffer() bool {
	isShared := func(key Key) bool { return key.Kind.Kind != kindKyma }
	return slices.ContainsFunc(p.differingKeys(), isShared)
}

func (p Plan) differingKeys() []Key {
	keys := slices.Concat(p.Prune, p.Deleting)
	for _, w := range p.Apply {
		keys = append(keys, KeyOf(&w.Object))
	}
	return keys
}

// Inventory contains the objects from earlier commits.
type Inventory struct {
	Keys []Key
	// Added contains the objects that were created by commits that were never completely applied.
	Added []Key
}

// newPlan computes the plan. live contains the control plane's objects, and before lists the objects from earlier
// commits. newPlan returns an error for a commit that removes all objects or all Kymas, unless an operator approved the
// commit.
func newPlan(
	wanted []source.Written, commit string, live map[Key]*unstructured.Unstructured, before Inventory, pruning Pruning,
) (Plan, error) {
	var plan Plan
	has := map[Key]bool{}
	for _, w := range wanted {
		key := KeyOf(&w.Object)
		has[key] = true
		plan.Inventory = append(plan.Inventory, key)
		digest, err := objectDigest(&w.Object)
		if err != nil {
			return Plan{}, fmt.Errorf("%s: %w", w.Place, err)
		}
		found := live[key]
		if found != nil && found.GetDeletionTimestamp() != nil {
			plan.Deleting = append(plan.Deleting, key)
		}
		isApplied := found != nil && found.GetAnnotations()[v1beta2.AnnotationGitDigest] == digest &&
			found.GetAnnotations()[v1beta2.AnnotationGitCommit] != ""
		if isApplied && isCovered(found.Object, w.Object.Object) && ownsSpec(found) {
			continue
		}
		next := w.Object.DeepCopy()
		annotations := next.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1beta2.AnnotationGitCommit], annotations[v1beta2.AnnotationGitDigest] = commit, digest
		next.SetAnnotations(annotations)
		plan.Apply = append(plan.Apply, source.Written{Object: *next, Place: w.Place})
	}
	plan.planDisown(live, before, has)
	lost := plan.planPrune(live, before, has)
	if pruning.isApproved(commit) {
		return plan, nil
	}
	if len(wanted) == 0 {
		return Plan{}, errNothing(commit)
	}
	var err error
	plan.Held, err = lost.permission(commit, pruning)
	return plan, err
}

func objectDigest(object *unstructured.Unstructured) (string, error) {
	data, err := object.MarshalJSON()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// isCovered reports whether the live object has all values of the wanted object and no additional list entries.
func isCovered(live, wanted any) bool {
	switch w := wanted.(type) {
	case nil:
		return live == nil
	case map[string]any:
		l, ok := live.(map[string]any)
		for key, value := range w {
			if !ok || !isCovered(l[key], value) {
				return false
			}
		}
		return ok || len(w) == 0 && live == nil
	case []any:
		l, _ := live.([]any)
		return slices.EqualFunc(l, w, isCovered)
	}
	return fmt.Sprint(live) == fmt.Sprint(wanted) // the same number can be encoded as an integer or a float
}
