package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Rendering tells which images a module uses, as references.
type Rendering func(context.Context, airgap.UsedQuestion) ([]string, error)

// maxUsedImages bounds the images of one module that it does not list: several times what the largest one uses.
const maxUsedImages = 1000

// usedImages remembers the answers, by what was asked: runtimes share most of their modules.
type usedImages map[digest.Digest][]string

// rendered adds the images that the modules of a bundle use and do not list.
func (g *gathering) rendered(ctx context.Context, needs []need, runtime string, b published) ([]need, error) {
	kubernetes := g.KubernetesVersion
	if kubernetes == "" {
		var err error
		if kubernetes, err = g.kubernetes(ctx, runtime); err != nil {
			return nil, err
		}
	}
	inForce := len(b.State.All())
	for i, m := range g.taken(b) {
		used, err := g.usedBy(ctx, m, b, kubernetes)
		if errors.As(err, new(notRenderedError)) && ctx.Err() == nil && i >= inForce {
			// Nobody has it: what is in force has to go out all the same.
			noted := g.modules[m.Module+" "+m.Version]
			noted.Rendered, noted.Problem = false, err.Error()
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("module %s: find the images of its objects: %w; --renderer=none carries only what modules list", m.Module, err)
		}
		for _, text := range unlisted(used, m.Spec.LocalizedImages) {
			if needs, err = g.image(ctx, needs, runtime, text, false); err != nil {
				return nil, fmt.Errorf("module %s uses it and does not list it: %w; --renderer=none carries only what modules list, --offers=false leaves out what is only offered", m.Module, err)
			}
		}
	}
	return needs, nil
}

// notRenderedError is why a module's objects are not known. It is the module's or the renderer's, not a registry's.
type notRenderedError struct{ error }

// Unwrap returns the reason.
func (e notRenderedError) Unwrap() error { return e.error }

// kubernetes returns what the runtime last reported to have, empty where it did not. Nothing is decided by it but how
// charts are rendered for this runtime, so that the report need not be proven.
func (g *gathering) kubernetes(ctx context.Context, runtime string) (string, error) {
	repository, err := g.Place.Reading(ctx, bundle.ReportRepository(runtime))
	if err != nil {
		return "", err
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagLatest)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read its report: %w", err)
	}
	report, _ := bundle.ClaimedReport(fetched) // one that nobody can read says nothing
	if _, err := version.ParseSemantic(report.KubernetesVersion); err != nil {
		return "", nil // nor does one that names no version: it must not end the export of others
	}
	return report.KubernetesVersion, nil
}

// usedBy renders a module with its contents.
func (g *gathering) usedBy(ctx context.Context, m bundle.Manifest, b published, version string) ([]string, error) {
	var source v1beta2.ImageSpec
	if err := json.Unmarshal(m.Spec.Install.Source.Raw, &source); err != nil {
		return nil, fmt.Errorf("spec.install.source: %w", err)
	}
	wanted := []string{source.Ref}
	if m.Spec.Config != nil {
		wanted = append(wanted, m.Spec.Config.Ref)
	}
	question := airgap.UsedQuestion{Manifest: m, ImagePaths: b.State.Settings.ImagePaths,
		Values: b.Statement.Predicate.Values.Only(m.UsedValues()), KubernetesVersion: version}
	asked, err := json.Marshal(question) // contents are in it by digest
	if err != nil {
		return nil, err
	}
	key := digest.FromBytes(asked)
	if known, ok := g.used[key]; ok {
		return known, nil
	}
	question.Contents = map[digest.Digest][]byte{}
	for _, c := range m.Content {
		if !slices.Contains(wanted, c.Digest.String()) {
			continue
		}
		from, err := store.Locate(ctx, g.Place, g.Registries, c.Repository, nil)
		if err != nil {
			return nil, err
		}
		if question.Contents[c.Digest], err = store.FetchBlob(ctx, from, c.Descriptor(), bundle.MaxLayerBytes); err != nil {
			return nil, fmt.Errorf("content %s: %w", c.Name, err)
		}
	}
	used, err := g.Rendering(ctx, question)
	if err == nil && len(used) > maxUsedImages {
		err = fmt.Errorf("are %d, at most %d", len(used), maxUsedImages)
	}
	if err != nil {
		return nil, notRenderedError{err}
	}
	g.used[key] = used
	return used, nil
}

// unlisted returns the used images that the list lacks. What cannot be read as a reference is left out: no registry has
// it.
func unlisted(used, listed []string) []string {
	known := map[string]bool{}
	for _, text := range listed {
		if name, ok := normalized(text); ok {
			known[name] = true
		}
	}
	var missing []string
	for _, text := range used {
		if name, ok := normalized(text); ok && !known[name] {
			missing = append(missing, text)
			known[name] = true
		}
	}
	return missing
}

func normalized(text string) (string, bool) {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return "", false
	}
	return reference.TagNameOnly(named).String(), true
}
