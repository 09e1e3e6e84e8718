package images

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// step is one step of a path into an object: the name of a field, or all fields or items.
type step struct {
	name string
	all  bool
}

const maxSteps = 16

// parseField reads "spec.components[*].image", "spec.images.*" and the like.
func parseField(field string) ([]step, error) {
	var steps []step
	for _, part := range strings.Split(strings.ReplaceAll(field, "[*]", ".*"), ".") {
		if part == "" || strings.ContainsAny(part, "[]") {
			return nil, fmt.Errorf("field %q: want names divided by dots, with * or [*] for all of a map or list", field)
		}
		steps = append(steps, step{part, part == "*"})
	}
	if len(steps) > maxSteps {
		return nil, fmt.Errorf("field %q: has %d steps, at most %d", field, len(steps), maxSteps)
	}
	return steps, nil
}

// podPaths are where kinds of Kubernetes hold the spec of a pod.
var podPaths = map[string]string{
	"/Pod": "spec", "/ReplicationController": "spec.template.spec", "/PodTemplate": "template.spec",
	"apps/Deployment": "spec.template.spec", "apps/StatefulSet": "spec.template.spec", "apps/DaemonSet": "spec.template.spec",
	"apps/ReplicaSet": "spec.template.spec", "batch/Job": "spec.template.spec", "batch/CronJob": "spec.jobTemplate.spec.template.spec",
}

var imageFields = []string{"initContainers[*].image", "containers[*].image", "ephemeralContainers[*].image", "volumes[*].image.reference"}

var environment = []string{"initContainers[*].env[*].value", "containers[*].env[*].value", "ephemeralContainers[*].env[*].value"}

func (r rules) object(o *unstructured.Unstructured) ([]Use, error) {
	kind := o.GroupVersionKind().Group + "/" + o.GetKind()
	v := visit{object: name(o)}
	if pod, ok := podPaths[kind]; ok {
		for _, field := range imageFields {
			v.change = func(text string) (string, bool, error) {
				to, err := r.rewrite(text)
				return to, true, err
			}
			if err := v.all(o.Object, pod+"."+field); err != nil {
				return nil, err
			}
		}
		for _, field := range environment {
			v.change = r.variable
			if err := v.all(o.Object, pod+"."+field); err != nil {
				return nil, err
			}
		}
	}
	for _, steps := range r.paths[kind] {
		v.change = func(text string) (string, bool, error) {
			to, err := r.rewrite(text)
			return to, true, err
		}
		if _, err := v.walk(o.Object, steps, ""); err != nil {
			return nil, err
		}
	}
	return v.uses, nil
}

// variable rewrites the value of an environment variable that is, as a whole, an image with the name and tag of a localized one:
// operators are told the images of their workloads like that. What only looks like a reference is left alone.
func (r rules) variable(text string) (string, bool, error) {
	i, ok := parse(text)
	if !ok || i.tag == "" || !slices.ContainsFunc(r.localized, func(l image) bool { return l.base() == i.base() && l.tag == i.tag }) {
		return text, false, nil
	}
	to, err := r.rewrite(text)
	return to, true, err
}

// visit changes the texts that a path leads to. change gives the new text, and whether the old one is an image.
type visit struct {
	object string
	uses   []Use
	change func(string) (string, bool, error)
}

func (v *visit) all(tree any, field string) error {
	steps, err := parseField(field)
	if err != nil {
		panic(err) // ours
	}
	_, err = v.walk(tree, steps, "")
	return err
}

// walk gives the tree with its images changed. What is of another form than the path expects is passed over.
func (v *visit) walk(tree any, steps []step, at string) (any, error) {
	if len(steps) == 0 {
		text, ok := tree.(string)
		if !ok || text == "" {
			return tree, nil
		}
		to, isImage, err := v.change(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", v.object, strings.TrimPrefix(at, "."), err)
		}
		if isImage {
			v.uses = append(v.uses, Use{Object: v.object, Field: strings.TrimPrefix(at, "."), Image: text, Rewritten: to})
		}
		return to, nil
	}
	next := steps[0]
	switch t := tree.(type) {
	case map[string]any:
		names := []string{next.name}
		if next.all {
			names = slices.Sorted(maps.Keys(t))
		}
		for _, key := range names {
			child, ok := t[key]
			if !ok {
				continue
			}
			changed, err := v.walk(child, steps[1:], at+"."+key)
			if err != nil {
				return nil, err
			}
			t[key] = changed
		}
	case []any:
		if !next.all {
			return tree, nil
		}
		for i, child := range t {
			changed, err := v.walk(child, steps[1:], at+"["+strconv.Itoa(i)+"]")
			if err != nil {
				return nil, err
			}
			t[i] = changed
		}
	}
	return tree, nil
}

func name(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
