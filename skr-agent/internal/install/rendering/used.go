package rendering

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/internal/images"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// UsedImages returns the images of a module's objects as an agent would apply them, without a cluster. All errors are
// caused by the module, except render.ErrNotRun and context errors.
func UsedImages(
	ctx context.Context, q airgap.UsedRequest,
	renderObjects func(context.Context, render.Input) ([]*unstructured.Unstructured, error),
) ([]string, error) {
	m := &v1beta2.Manifest{Spec: q.Manifest.Spec}
	m.Namespace, m.Name, m.Labels = v1beta2.RuntimeNamespace, q.Manifest.Name, q.Manifest.Labels
	if values := q.Values.For(q.Manifest).String(); values != "" {
		m.Annotations = map[string]string{v1beta2.AnnotationValues: values}
	}
	sources := inputSources{
		load: func(blob digest.Digest) ([]byte, *outcome.Finding, error) {
			data, ok := q.Contents[blob]
			if !ok || digest.FromBytes(data) != blob {
				return nil,
					&outcome.Finding{Reason: v1beta2.ReasonContentMissing, Message: fmt.Sprintf("content %s is missing", blob)},
					nil
			}
			return data, nil, nil
		},
		capabilities: func() (render.Capabilities, error) { return render.UsualCapabilities(q.KubernetesVersion), nil },
	}
	in, problem, err := sources.input(m, m.Namespace)
	switch {
	case err != nil:
		return nil, err
	case problem != nil:
		return nil, errors.New(problem.Message)
	}
	objects, err := renderObjects(ctx, in)
	if err != nil {
		return nil, err
	}
	uses, err := images.Rewrite(objects, images.Rewriting{Localized: m.Spec.LocalizedImages, Paths: q.ImagePaths})
	if err != nil {
		return nil, err
	}
	found := make([]string, len(uses))
	for n, use := range uses {
		found[n] = use.Rewritten
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
