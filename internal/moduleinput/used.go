package moduleinput

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/internal/images"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// UsedCommand is the name of the hidden command that calls AnswerUsedRequest.
const UsedCommand = "used-images"

// maxUsedRequestBytes limits the size of the command's input: a module's content and values in base64, and its
// Manifest.
const maxUsedRequestBytes = 3*bundle.MaxLayerBytes + bundle.MaxDocumentBytes

// AnswerUsedRequest reads an airgap.UsedRequest and writes the airgap.UsedResponse. To render, it starts its own
// program as a child process with the command renderCommand, which must only call render.Child.
func AnswerUsedRequest(ctx context.Context, in io.Reader, out io.Writer, renderCommand string) error {
	var request airgap.UsedRequest
	if err := json.NewDecoder(io.LimitReader(in, maxUsedRequestBytes)).Decode(&request); err != nil {
		return fmt.Errorf("read the request that kcp-publisher sends to standard input: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	found, err := UsedImages(ctx, request, render.Confined{Command: []string{self, renderCommand}}.Render)
	answer := airgap.UsedResponse{Images: found}
	switch {
	case errors.Is(err, render.ErrNotRun) || ctx.Err() != nil:
		return err
	case err != nil:
		answer.Refused = bundle.Bounded(err.Error(), bundle.MaxMessageBytes) // a chart can produce text of any length
	}
	return json.NewEncoder(out).Encode(answer)
}

// UsedImages returns the images that a module's objects would have after an agent applied them. It does not need a
// cluster. All errors are caused by the module, except render.ErrNotRun and context errors.
func UsedImages(
	ctx context.Context, q airgap.UsedRequest,
	renderObjects func(context.Context, render.Input) ([]*unstructured.Unstructured, error),
) ([]string, error) {
	m := &v1beta2.Manifest{Spec: q.Manifest.Spec}
	m.Namespace, m.Name, m.Labels = v1beta2.RuntimeNamespace, q.Manifest.Name, q.Manifest.Labels
	if values := q.Values.For(q.Manifest).String(); values != "" {
		m.Annotations = map[string]string{v1beta2.AnnotationValues: values}
	}
	sources := Sources{
		Load: func(blob digest.Digest) ([]byte, *Problem, error) {
			data, ok := q.Contents[blob]
			if !ok || digest.FromBytes(data) != blob {
				return nil,
					&Problem{Reason: v1beta2.ReasonContentMissing, Message: fmt.Sprintf("content %s is missing", blob)},
					nil
			}
			return data, nil, nil
		},
		Capabilities: func() (render.Capabilities, error) { return render.UsualCapabilities(q.KubernetesVersion), nil },
	}
	in, problem, err := sources.Input(m, m.Namespace)
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
	defaultCR, err := DefaultCR(m, in.Substitute)
	if err != nil {
		return nil, err
	}
	if defaultCR != nil {
		objects = append(objects, defaultCR)
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
