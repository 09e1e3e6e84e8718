package assemble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// Tests are a chart's test hooks, converted to module checks.
type Tests struct {
	// Names lists the checks, and File contains them. Both are empty if the chart has no test hooks.
	Names []string
	File  []byte
	// Omitted is the reason why the test hooks cannot become checks, or "".
	Omitted string
}

// These constants apply to a check that was converted from a test. testTimeout is the longest timeout that agents
// accept.
const (
	testInterval  = 10 * time.Minute
	testTimeout   = bundle.MaxCheckTimeout
	testSuccesses = 1
)

// tests converts a chart's test hooks to checks of kind job. installed contains the objects that agents
// install from the chart. The function converts either all test hooks or none, because a test can depend on other
// objects that are also test hooks.
func (f Files) tests(
	ctx context.Context, module string, renderer Renderer, installed []*unstructured.Unstructured,
) (Tests, error) {
	if f.Type != typeChart {
		return Tests{}, nil
	}
	in, err := f.input(module)
	if err != nil {
		return Tests{}, err
	}
	in.TestHooks = true
	hooks, err := renderer(ctx, in)
	switch {
	case errors.Is(err, render.ErrNotRun) || ctx.Err() != nil:
		return Tests{}, err
	case err != nil:
		return Tests{Omitted: err.Error()}, nil
	case len(hooks) == 0:
		return Tests{}, nil
	}
	found, err := checksOf(hooks, installed)
	if err != nil {
		return Tests{Omitted: err.Error()}, nil
	}
	text, err := yaml.Marshal(map[string]any{"checks": found})
	if err != nil {
		return Tests{}, err
	}
	if _, err := checks.ParseShipped(text); err != nil {
		return Tests{Omitted: err.Error()}, nil
	}
	tests := Tests{File: text}
	for _, c := range found {
		tests.Names = append(tests.Names, c.Name)
	}
	return tests, nil
}

func checksOf(hooks, installed []*unstructured.Unstructured) ([]fleet.Check, error) {
	namespaces := map[string]bool{}
	for _, o := range installed {
		namespaces[withNamespace(o).GetNamespace()] = true
	}
	var found []fleet.Check
	for _, o := range hooks {
		job, err := testJob(withNamespace(o))
		if err == nil && !namespaces[job.GetNamespace()] {
			err = fmt.Errorf("the chart installs no object in its namespace %s", job.GetNamespace())
		}
		if err == nil {
			err = guard.Check([]*unstructured.Unstructured{job}, moduleNamespace)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", render.Name(o), err)
		}
		template, err := json.Marshal(job.Object["spec"])
		if err != nil {
			return nil, err
		}
		if err := strict.JSON(template, &batchv1.JobSpec{}, strict.MaxJSONDepth); err != nil {
			return nil, fmt.Errorf("%s: %w", render.Name(o), err)
		}
		found = append(found, fleet.Check{
			Name:     strings.ReplaceAll(o.GetName(), ".", "-"),
			Interval: metav1.Duration{Duration: testInterval}, Timeout: metav1.Duration{Duration: testTimeout},
			SuccessThreshold: testSuccesses,
			Job:              &fleet.JobCheck{Namespace: job.GetNamespace(), Template: runtime.RawExtension{Raw: template}},
		})
	}
	slices.SortFunc(found, func(a, b fleet.Check) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// testJob returns the Job that runs a test, which is a Pod or a Job.
func testJob(test *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	gvk := test.GroupVersionKind()
	isPod := gvk.Group == "" && gvk.Kind == "Pod"
	if !isPod && (gvk.Group != batchv1.GroupName || gvk.Kind != "Job") {
		return nil, errors.New("only Pods and Jobs can become checks: remove the test hook, so that agents install the " +
			"object with the module")
	}
	spec, _, err := unstructured.NestedMap(test.Object, "spec")
	if err != nil || spec == nil {
		return nil, errors.New("spec is required")
	}
	if isPod {
		spec = jobOf(test, spec)
	}
	job := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	job.SetAPIVersion(batchv1.SchemeGroupVersion.String())
	job.SetKind("Job")
	job.SetNamespace(test.GetNamespace())
	job.SetName(test.GetName())
	return job, nil
}

// jobOf returns the spec for the Job that runs a Pod.
func jobOf(pod *unstructured.Unstructured, spec map[string]any) map[string]any {
	// A Job requires the restart policy Never or OnFailure, but a Pod's default is Always.
	if spec["restartPolicy"] != "OnFailure" {
		spec["restartPolicy"] = "Never"
	}
	annotations := pod.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool { return strings.HasPrefix(name, "helm.sh/") })
	template := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	template.SetLabels(pod.GetLabels())
	template.SetAnnotations(annotations)
	return map[string]any{"template": template.Object}
}
