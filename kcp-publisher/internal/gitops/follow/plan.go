// Package follow brings the control plane in line with a branch of a Git repository: the objects of its newest commit
// go in, and KCP has them, and nothing that only an earlier commit had. A commit is taken as one step: it is read as a
// whole, judged by the API as a whole without a change, and only then applied. What cannot be read or is not there is
// never taken for a wish to remove.
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

// Key names an object of the control plane's namespace.
type Key struct {
	Kind schema.GroupKind
	Name string
}

func (k Key) String() string { return k.Kind.Kind + " " + k.Name }

// kinds are what a commit may bring, in the order in which it is applied: what others refer to first.
var kinds = []string{"Watcher", "ModuleTemplate", "RolloutPolicy", "PromotionPolicy", "ModuleReleaseMeta", "Kyma"}

const kindKyma = "Kyma"

// Wanted returns the objects of a commit as they are to be in a namespace, in the order in which they are applied. Left
// out, by name, are Secrets: whose signatures count is not for whoever may write to the repository to say.
func Wanted(written []source.Written, namespace string) (wanted []source.Written, left []string, err error) {
	var problems []error
	for _, w := range written {
		object := *w.Object.DeepCopy()
		kind := object.GetKind()
		if !slices.Contains(kinds, kind) {
			left = append(left, fmt.Sprintf("%s: %s %s", w.Place, kind, object.GetName()))
			continue
		}
		if given := object.GetNamespace(); given != "" && given != namespace {
			problems = append(problems, fmt.Errorf("%s: metadata.namespace: is %q, the control plane's is %q", w.Place, given, namespace))
		}
		object.SetNamespace(namespace)
		strip(object.Object)
		wanted = append(wanted, source.Written{Object: object, Place: w.Place})
	}
	slices.SortStableFunc(wanted, func(a, b source.Written) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Object.GetKind()), slices.Index(kinds, b.Object.GetKind())), strings.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	for i := 1; i < len(wanted); i++ {
		if KeyOf(&wanted[i].Object) == KeyOf(&wanted[i-1].Object) {
			problems = append(problems, fmt.Errorf("%s: %s is there already, in %s", wanted[i].Place, KeyOf(&wanted[i].Object), wanted[i-1].Place))
		}
	}
	return wanted, left, errors.Join(problems...)
}

// KeyOf names an object.
func KeyOf(object *unstructured.Unstructured) Key {
	return Key{object.GroupVersionKind().GroupKind(), object.GetName()}
}

// strip takes out what only the API server and controllers write: finalizers and owners are of one control plane, not
// of a commit.
func strip(object map[string]any) {
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{
			"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "generateName", "generation", "managedFields",
			"ownerReferences", "resourceVersion", "selfLink", "uid",
		} {
			delete(metadata, field)
		}
		// An operator approves removals in the control plane: a commit does not approve its own.
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, v1beta2.AnnotationApprovedRemovals)
		}
	}
}

// Plan is what one commit changes.
type Plan struct {
	// Apply are objects that are not as the commit has them, with the commit noted on them.
	Apply []source.Written
	// Prune are objects that an earlier commit had and this one lacks, Protected those of them that an annotation keeps.
	Prune, Protected []Key
	// Disown are objects that only a commit brought that was never applied as a whole, and that were there before it: they
	// stay. Copies that others made of a commit's objects, with its annotations, are among them, so they do not count as a
	// difference.
	Disown []Key
	// Deleting are objects of the commit that somebody deletes; they are made again once they are gone.
	Deleting []Key
	// Inventory are all objects of the commit, and the protected ones.
	Inventory []Key
	// Held is why the commit waits for permission, nil when it does not.
	Held *PruneError
}

// Changes returns how many objects the plan changes.
func (p Plan) Changes() int { return len(p.Apply) + len(p.Prune) }

// equal reports whether the control plane has what the commit has.
func (p Plan) equal() bool { return p.Changes()+len(p.Deleting) == 0 }

// isHalf reports whether more than single Kymas differ from what the commit has: what is left is of what many runtimes
// are resolved by.
func (p Plan) isHalf() bool {
	isShared := func(key Key) bool { return key.Kind.Kind != kindKyma }
	return slices.ContainsFunc(p.differing(), isShared)
}

// differing names what is not as the commit has it.
func (p Plan) differing() []Key {
	keys := slices.Concat(p.Prune, p.Deleting)
	for _, w := range p.Apply {
		keys = append(keys, KeyOf(&w.Object))
	}
	return keys
}

// Inventory are the objects that earlier commits brought.
type Inventory struct {
	Keys []Key
	// Added are those of them that only commits brought that were not applied as a whole: taking such a commit back needs
	// no permission.
	Added []Key
}

// NewPlan decides. It is pure. Live are the objects as KCP has them, before those of earlier commits. That all objects
// go, or all Kymas, which empties every runtime, is refused unless that is meant; with less than that the commit may be
// held.
func NewPlan(
	wanted []source.Written, commit string, live map[Key]*unstructured.Unstructured, before Inventory, pruning Pruning,
) (Plan, error) {
	var plan Plan
	has := map[Key]bool{}
	for _, w := range wanted {
		key := KeyOf(&w.Object)
		has[key] = true
		plan.Inventory = append(plan.Inventory, key)
		digest, err := digestOf(&w.Object)
		if err != nil {
			return Plan{}, fmt.Errorf("%s: %w", w.Place, err)
		}
		found := live[key]
		if found != nil && found.GetDeletionTimestamp() != nil {
			plan.Deleting = append(plan.Deleting, key)
		}
		isApplied := found != nil && found.GetAnnotations()[v1beta2.AnnotationGitDigest] == digest && found.GetAnnotations()[v1beta2.AnnotationGitCommit] != ""
		if isApplied && covers(found.Object, w.Object.Object) && ownsSpec(found) {
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
	if pruning.allows(commit) {
		return plan, nil
	}
	if len(wanted) == 0 {
		return Plan{}, errNothing(commit)
	}
	var err error
	plan.Held, err = lost.permission(commit, pruning)
	return plan, err
}

// digestOf names what a commit says of an object.
func digestOf(object *unstructured.Unstructured) (string, error) {
	data, err := object.MarshalJSON()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// covers reports whether everything that is wanted is there, and no list has more than that.
func covers(live, wanted any) bool {
	switch w := wanted.(type) {
	case nil:
		return live == nil
	case map[string]any:
		l, ok := live.(map[string]any)
		for key, value := range w {
			if !ok || !covers(l[key], value) {
				return false
			}
		}
		return ok || len(w) == 0 && live == nil
	case []any:
		l, _ := live.([]any)
		return slices.EqualFunc(l, w, covers)
	}
	return fmt.Sprint(live) == fmt.Sprint(wanted) // numbers are integers here and floats there
}
