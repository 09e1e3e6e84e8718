// Package rendering renders Manifests' content to objects.
//
// Its input is a Manifest and the content store. Its output is the module's objects, with the runtime's values,
// redirected images and pull Secrets, or the problem in the module's content. It does not write to the cluster.
package rendering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/images"
	"github.com/kyma-pull/kyma-pull/internal/moduleinput"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// Rendering contains a Manifest's rendered objects.
type Rendering struct {
	Objects []*unstructured.Unstructured
	// DefaultCR is the Manifest's default CR with the runtime's values. It is nil if the Manifest has no default CR.
	DefaultCR *unstructured.Unstructured
	// Images is the finding from comparing the objects' images with the images that the component lists.
	Images outcome.Finding
}

// Renderer renders Manifests' content.
type Renderer struct {
	// Content contains the blobs that Manifests reference by digest.
	Content *contentstore.Store
	// Render renders content to objects, with limits for time and memory.
	Render func(context.Context, render.Input) ([]*unstructured.Unstructured, error)
	// Namespace is the default namespace for objects.
	Namespace string
}

// Module returns a Manifest's objects. Their images already refer to the configured mirrors. capabilities reads the API
// server's version and kinds, which only charts need. The finding is a problem that the module causes. All errors are
// temporary.
func (r Renderer) Module(
	ctx context.Context, m *v1beta2.Manifest, capabilities func() (render.Capabilities, error),
) (Rendering, *outcome.Finding, error) {
	in, problem, err := r.input(ctx, m, capabilities)
	if problem != nil || err != nil {
		return Rendering{}, problem, err
	}
	objects, err := r.Render(ctx, in)
	switch {
	case ctx.Err() != nil:
		return Rendering{}, nil, ctx.Err()
	case errors.Is(err, render.ErrNotRun):
		return Rendering{}, nil, err
	case err != nil:
		return Rendering{}, &outcome.Finding{Reason: v1beta2.ReasonContentBroken, Message: err.Error()}, nil
	}
	defaultCR, err := moduleinput.DefaultCR(m, in.Substitute)
	if err != nil {
		return Rendering{}, &outcome.Finding{Reason: v1beta2.ReasonContentBroken, Message: err.Error()}, nil
	}
	all := objects
	if defaultCR != nil {
		all = append(slices.Clone(objects), defaultCR)
	}
	listed, problem := redirect(m, all)
	return Rendering{objects, defaultCR, listed}, problem, nil
}

// input returns the input for rendering a Manifest.
func (r Renderer) input(
	ctx context.Context, m *v1beta2.Manifest, capabilities func() (render.Capabilities, error),
) (render.Input, *outcome.Finding, error) {
	sources := moduleinput.Sources{
		Load: func(blob digest.Digest) ([]byte, *moduleinput.Problem, error) {
			data, err := r.Content.Load(ctx, blob)
			switch {
			case errors.Is(err, contentstore.ErrMissing):
				return nil, &moduleinput.Problem{Reason: v1beta2.ReasonContentMissing, Message: err.Error()}, nil
			case errors.Is(err, contentstore.ErrBroken):
				return nil, &moduleinput.Problem{Reason: v1beta2.ReasonContentBroken, Message: err.Error()}, nil
			}
			return data, nil, err
		},
		Capabilities: capabilities,
	}
	in, problem, err := sources.Input(m, r.Namespace)
	if problem != nil {
		return in, &outcome.Finding{Reason: problem.Reason, Message: problem.Message}, nil
	}
	return in, nil, err
}

// redirect redirects images to their mirrors, adds the pull Secret, and compares the images with the component's
// list.
func redirect(m *v1beta2.Manifest, objects []*unstructured.Unstructured) (outcome.Finding, *outcome.Finding) {
	rules, err := images.RulesOf(m)
	if err != nil {
		return outcome.Finding{}, &outcome.Finding{Reason: v1beta2.ReasonImagesBroken, Message: err.Error()}
	}
	uses, unpinned, err := rules.Apply(objects, func(o *unstructured.Unstructured) bool { return isManager(m, o) })
	if err != nil {
		return outcome.Finding{}, &outcome.Finding{Reason: v1beta2.ReasonImagesBroken, Message: err.Error()}
	}
	if len(unpinned) > 0 {
		return outcome.Finding{}, &outcome.Finding{
			Reason: v1beta2.ReasonImagesNotListed,
			Message: "the root of trust has release keys, but no digest is released for " + excerpt.FirstFew(unpinned) +
				": list the image in the component, or use a digest in the content",
		}
	}
	count := distinct(uses)
	if len(m.Spec.LocalizedImages) == 0 {
		return outcome.Finding{
			OK:      true,
			Reason:  v1beta2.ReasonNoImagesListed,
			Message: fmt.Sprintf("the component does not list images, but its objects use %d", count),
		}, nil
	}
	if strange := images.UnlistedImages(uses, m.Spec.LocalizedImages); len(strange) > 0 {
		return outcome.Finding{
			Reason:  v1beta2.ReasonImagesNotListed,
			Message: "the component does not list " + excerpt.FirstFew(strange),
		}, nil
	}
	return outcome.Finding{
		OK:      true,
		Reason:  v1beta2.ReasonImagesListed,
		Message: fmt.Sprintf("the component lists the %d images of its objects", count),
	}, nil
}

// isManager reports whether a workload can be the operator of its module, according to spec.manager.
func isManager(m *v1beta2.Manifest, o *unstructured.Unstructured) bool {
	manager, gvk := m.Spec.Manager, o.GroupVersionKind()
	return manager == nil || manager.Name == o.GetName() && manager.Group == gvk.Group && manager.Kind == gvk.Kind &&
		cmp.Or(manager.Namespace, m.Namespace) == cmp.Or(o.GetNamespace(), m.Namespace)
}

func distinct(uses []images.Use) int {
	all := make([]string, len(uses))
	for i, use := range uses {
		all[i] = use.Image
	}
	slices.Sort(all)
	return len(slices.Compact(all))
}
