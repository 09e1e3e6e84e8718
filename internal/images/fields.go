package images

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// podPaths maps a workload's group and kind to the field path for its pod spec.
var podPaths = map[string]string{
	"/Pod": "spec", "/ReplicationController": "spec.template.spec", "/PodTemplate": "template.spec",
	"apps/Deployment": "spec.template.spec", "apps/StatefulSet": "spec.template.spec",
	"apps/DaemonSet":  "spec.template.spec",
	"apps/ReplicaSet": "spec.template.spec", "batch/Job": "spec.template.spec",
	"batch/CronJob": "spec.jobTemplate.spec.template.spec",
}

// everyEntry is the path element that selects every entry in a map or list.
const everyEntry = "*"

var imageFields = []string{
	"initContainers[*].image", "containers[*].image", "ephemeralContainers[*].image", "volumes[*].image.reference",
}

var environmentPaths = []string{
	"initContainers[*].env[*].value", "containers[*].env[*].value", "ephemeralContainers[*].env[*].value",
}

func (r rules) rewriteObject(o *unstructured.Unstructured) ([]Use, error) {
	kind := o.GroupVersionKind().Group + "/" + o.GetKind()
	v := fieldVisitor{object: render.Name(o)}
	if pod, ok := podPaths[kind]; ok {
		for _, field := range imageFields {
			v.change = func(text string) (string, bool, error) {
				to, err := r.rewrite(text)
				return to, true, err
			}
			if err := v.visitField(o.Object, pod+"."+field); err != nil {
				return nil, err
			}
		}
		for _, field := range environmentPaths {
			v.change = r.rewriteVariable
			if err := v.visitField(o.Object, pod+"."+field); err != nil {
				return nil, err
			}
		}
	}
	for _, steps := range r.paths[kind] {
		v.change = func(text string) (string, bool, error) {
			to, err := r.rewrite(text)
			return to, true, err
		}
		if _, err := v.visitPath(o.Object, steps, ""); err != nil {
			return nil, err
		}
	}
	return v.uses, nil
}

// rewriteVariable replaces the value of an environment variable if the value is an image that has a localized
// reference. Operators receive their workloads' images in such variables.
func (r rules) rewriteVariable(text string) (string, bool, error) {
	i, ok := parse(text)
	if !ok || i.tag == "" ||
		!slices.ContainsFunc(r.localized, func(l image) bool { return l.baseName() == i.baseName() && l.tag == i.tag }) {
		return text, false, nil
	}
	to, err := r.rewrite(text)
	return to, true, err
}

// fieldVisitor changes the values at a field path. It calls change with each value. change returns the new value and
// whether the old value is an image.
type fieldVisitor struct {
	object string
	uses   []Use
	change func(string) (string, bool, error)
}

func (v *fieldVisitor) visitField(tree any, field string) error {
	steps, err := bundle.ImagePath{Field: field}.Steps()
	if err != nil {
		panic(err) // the paths are constants, so the error is a bug in this package
	}
	_, err = v.visitPath(tree, steps, "")
	return err
}

// visitPath returns the tree with changed images. It skips parts that do not match the path.
func (v *fieldVisitor) visitPath(tree any, steps []string, path string) (any, error) {
	if len(steps) == 0 {
		text, ok := tree.(string)
		if !ok || text == "" {
			return tree, nil
		}
		to, isImage, err := v.change(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", v.object, strings.TrimPrefix(path, "."), err)
		}
		if isImage {
			v.uses = append(v.uses, Use{
				Object: v.object, Field: strings.TrimPrefix(path, "."), Image: text, Rewritten: to,
			})
		}
		return to, nil
	}
	next := steps[0]
	switch t := tree.(type) {
	case map[string]any:
		names := []string{next}
		if next == everyEntry {
			names = slices.Sorted(maps.Keys(t))
		}
		for _, key := range names {
			child, ok := t[key]
			if !ok {
				continue
			}
			changed, err := v.visitPath(child, steps[1:], path+"."+key)
			if err != nil {
				return nil, err
			}
			t[key] = changed
		}
	case []any:
		if next != everyEntry {
			return tree, nil
		}
		for i, child := range t {
			changed, err := v.visitPath(child, steps[1:], path+"["+strconv.Itoa(i)+"]")
			if err != nil {
				return nil, err
			}
			t[i] = changed
		}
	}
	return tree, nil
}
