package content

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// Input is a module's rendered content.
type Input struct {
	Objects []*unstructured.Unstructured
	// DefaultCR is the module's default CR, or nil.
	DefaultCR *unstructured.Unstructured
	// SkipDefaultCRRules is true if the agent does not create the default CR, so that the rules of package guard do not
	// apply to it.
	SkipDefaultCRRules bool
	// Namespace is the agent's namespace, which is the default namespace for objects.
	Namespace string
	// Scope returns the scopes of kinds that a cluster serves. If nil, only the content's CRDs and Kubernetes' own
	// kinds are known.
	Scope Scope
}

// Checked is accepted content.
type Checked struct {
	// Objects contains the objects to install, with their namespaces and without the fields that other programs set.
	Objects []*unstructured.Unstructured
	// DefaultCR is the default CR with its namespace. It is nil if the kind is unknown or if Objects contains the CR.
	DefaultCR *unstructured.Unstructured
	// LeftOut contains the objects that cannot be installed in this cluster.
	LeftOut []LeftOut
	// Ignored lists the unknown fields of built-in kinds. Agents do not apply them.
	Ignored []string
	// Unserved contains the kinds of the content's CRDs that the API server does not serve yet.
	Unserved map[schema.GroupKind]bool
}

// LeftOut is an object that cannot be installed in a cluster.
type LeftOut struct {
	Object      *unstructured.Unstructured
	IsDefaultCR bool
	Reason      error
}

// Check returns the content as an agent installs it. It modifies the objects in place. It returns an error for content
// that agents refuse completely: a *guard.Refusal for a broken rule, or an error from Scope, which can be temporary.
func Check(in Input) (Checked, error) {
	defined := definedKinds(in.Objects)
	c := checker{namespace: in.Namespace, defined: defined, first: map[guard.Key]string{}}
	c.scope, c.checked.Unserved = withDefinitions(in.servedScope(), defined)
	for _, o := range in.Objects {
		if err := c.add(o); err != nil {
			return Checked{}, err
		}
	}
	if in.DefaultCR != nil {
		if err := c.addDefaultCR(in.DefaultCR.DeepCopy()); err != nil {
			return Checked{}, err
		}
	}
	return c.checked, guard.Check(c.checked.ruled(in.SkipDefaultCRRules), in.Namespace)
}

func (in Input) servedScope() Scope {
	if in.Scope == nil {
		return builtInScope
	}
	return in.Scope
}

// ruled returns the objects that the rules of package guard apply to. They include the objects in LeftOut, because
// other clusters can install those.
func (c Checked) ruled(skipDefaultCR bool) []*unstructured.Unstructured {
	objects := slices.Clone(c.Objects)
	for _, left := range c.LeftOut {
		if !left.IsDefaultCR || !skipDefaultCR {
			objects = append(objects, left.Object)
		}
	}
	if c.DefaultCR != nil && !skipDefaultCR {
		objects = append(objects, c.DefaultCR)
	}
	return objects
}

// checker collects objects from checked content.
type checker struct {
	checked   Checked
	namespace string
	scope     Scope
	defined   map[schema.GroupVersionKind]bool
	// first maps each checked object to its namespace in the content, or to the default namespace.
	first map[guard.Key]string
}

// add adds an object from the content. It leaves out an object that cannot be installed in this cluster, but could be
// in others.
func (c *checker) add(o *unstructured.Unstructured) error {
	if err := render.CheckInstallable(o.GroupVersionKind()); err != nil {
		c.leaveOut(o, err)
		return nil
	}
	c.checked.Ignored = append(c.checked.Ignored, render.UnknownFields(o)...)
	if err := normalized(o); err != nil {
		return err
	}
	if _, err := IgnoredFields(o); err != nil {
		return err
	}
	if _, err := MoveOf(o); err != nil {
		return err
	}
	reason, err := c.place(o)
	if err != nil {
		return err
	}
	dropForeignFields(o)
	utils.RemoveCABundleFromCRD(o)
	if reason != nil {
		c.leaveOut(o, reason)
		return nil
	}
	c.checked.Objects = append(c.checked.Objects, o)
	return nil
}

func (c *checker) leaveOut(o *unstructured.Unstructured, reason error) {
	c.checked.LeftOut = append(c.checked.LeftOut, LeftOut{Object: o, Reason: reason})
}

var errSeveralNamespaces = errors.New("the kind is cluster-scoped in this cluster, and the content contains " +
	"an object with the same name in another namespace: remove one of them")

// place sets an object's namespace. It returns a reason to leave the object out, or an error for a duplicate.
func (c *checker) place(o *unstructured.Unstructured) (reason, err error) {
	gvk, namespace := o.GroupVersionKind(), cmp.Or(o.GetNamespace(), c.namespace)
	namespaced, err := c.scope(gvk)
	k := guard.KeyOf(o)
	switch {
	case errors.Is(err, ErrUnknownKind):
		reason, k.Namespace = err, namespace
	case err != nil:
		return nil, fmt.Errorf("%s (%s): %w", k, o.GetAPIVersion(), err)
	default:
		render.Place(o, namespaced, c.namespace)
		k = guard.KeyOf(o)
	}
	switch first, twice := c.first[k]; {
	case !twice:
		c.first[k] = namespace
		return reason, nil
	case first != namespace && !c.isAlwaysClusterScoped(gvk):
		return errSeveralNamespaces, nil
	}
	return nil, fmt.Errorf("%s is in the content twice, with and without a namespace: remove one of them", k)
}

// isAlwaysClusterScoped reports whether a kind is cluster-scoped in all clusters.
func (c *checker) isAlwaysClusterScoped(gvk schema.GroupVersionKind) bool {
	if namespaced, ok := c.defined[gvk]; ok {
		return !namespaced
	}
	namespaced, err := builtInScope(gvk)
	return err == nil && !namespaced
}

// addDefaultCR adds the default CR, unless its kind is unknown or the content also contains it.
func (c *checker) addDefaultCR(o *unstructured.Unstructured) error {
	namespaced, err := c.scope(o.GroupVersionKind())
	switch render.Place(o, namespaced || err != nil, c.namespace); {
	case errors.Is(err, ErrUnknownKind):
		c.checked.LeftOut = append(c.checked.LeftOut, LeftOut{Object: o, IsDefaultCR: true, Reason: err})
	case err != nil:
		return fmt.Errorf("default CR %s (%s): %w", guard.KeyOf(o), o.GetAPIVersion(), err)
	default:
		if _, twice := c.first[guard.KeyOf(o)]; !twice {
			c.checked.DefaultCR = o
		}
	}
	return nil
}

// normalized converts an object of a built-in kind to the format that the API server stores. It skips custom resources,
// because the library panics for a custom resource whose kind is Status.
func normalized(o *unstructured.Unstructured) error {
	if !scheme.Scheme.Recognizes(o.GroupVersionKind()) {
		return nil
	}
	// normalize.Unstructured is not usable, because it would remove the rules from roles.
	return normalize.UnstructuredList([]*unstructured.Unstructured{o})
}
