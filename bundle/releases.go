package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// CheckReleases checks the desired state against the release keys and minimum versions in the root of trust r. It
// returns an error if a module's release is not proven or its version is too old. The map documents must contain the
// blobs that Manifest.Evidence lists for all modules. decode parses the default CR in a module's release.
func CheckReleases(
	r trust.Root, state DesiredState, documents map[digest.Digest][]byte,
	decode func([]byte) (*unstructured.Unstructured, error), now time.Time,
) error {
	if !r.HasReleaseKeys() && len(r.Floors) == 0 {
		return nil
	}
	if err := state.Settings.checkAgentFloor(r); err != nil {
		return fmt.Errorf("settings.agent: %w", err)
	}
	if r.HasReleaseKeys() && len(state.Settings.Mirrors) > 0 {
		return errors.New(
			"settings.mirrors: not allowed if the root of trust has release keys, because mirrors could supply other " +
				"images")
	}
	if r.HasReleaseKeys() && state.Settings.Agent != "" {
		return errors.New(
			"settings.agent: not allowed if the root of trust has release keys, which do not cover the agent")
	}
	for _, m := range slices.Concat(state.All(), state.Offers) {
		found := make(map[digest.Digest][]byte, len(m.Release))
		for _, document := range m.Release {
			if data, there := documents[document.Digest]; there {
				found[document.Digest] = data
			}
		}
		descriptor, err := r.CheckRelease(m.released(), found, now)
		if err != nil {
			return err
		}
		if !r.HasReleaseKeys() {
			continue
		}
		var released *unstructured.Unstructured
		if c, ok := m.releasedDefaultCR(); ok {
			if released, err = decode(documents[c.Digest]); err != nil {
				return fmt.Errorf("module %s: content %s: %w", m.Module, c.Name, err)
			}
		}
		if err := m.checkLocked(descriptor, released); err != nil {
			return fmt.Errorf("module %s: %w", m.Module, err)
		}
	}
	return nil
}

func (m Manifest) released() trust.Released {
	released := trust.Released{Component: m.Component, Version: m.Version, Images: m.Spec.LocalizedImages}
	for _, content := range m.Content {
		released.Contents = append(released.Contents, trust.ReleasedContent{Name: content.Name, Digest: content.Digest})
	}
	return released
}

// checkLocked compares the Manifest with the released component's descriptor and with the default CR in the release, or
// nil if the release has none. It returns an error if the Manifest installs resources that are not in the released
// component, or creates a different default CR.
func (m Manifest) checkLocked(descriptor ocm.Descriptor, released *unstructured.Unstructured) error {
	if _, there := m.Annotations[v1beta2.AnnotationImages]; there {
		return fmt.Errorf("annotation %s can only be set by the agent", v1beta2.AnnotationImages)
	}
	selected, err := Select(descriptor)
	if err != nil {
		return err
	}
	var source v1beta2.ImageSpec
	if err := json.Unmarshal(m.Spec.Install.Source.Raw, &source); err != nil {
		return fmt.Errorf("spec.install.source: %w", err)
	}
	if !m.isContent(source, selected.Install) || source.Type != selected.Type {
		return fmt.Errorf("spec.install.source is not the component's resource %q with type %s",
			selected.Install.Name, selected.Type)
	}
	switch values := selected.Values; {
	case values == nil && m.Spec.Config != nil:
		return errors.New("spec.config: the component does not contain values")
	case values != nil && (m.Spec.Config == nil || !m.isContent(*m.Spec.Config, *values)):
		return fmt.Errorf("spec.config is not the component's resource %q", values.Name)
	}
	return CheckReleaseOf(m.Module, m.Component, m.Spec.Resource, released)
}

func (m Manifest) isContent(spec v1beta2.ImageSpec, r ocm.Resource) bool {
	return slices.ContainsFunc(m.Content, func(c Content) bool {
		return c.Name == r.Name && c.Digest.String() == spec.Ref
	})
}

// ModuleOf returns the last part of a component's name, which is the module's default name.
func ModuleOf(component string) string { return component[strings.LastIndex(component, "/")+1:] }

// CheckReleaseOf checks that the component's name ends with the module's name and that defaultCR equals released, the
// default CR in the release. If defaultCR is nil, it checks only the name.
func CheckReleaseOf(module, component string, defaultCR, released *unstructured.Unstructured) error {
	if ModuleOf(component) != module {
		return fmt.Errorf(
			"component %s cannot be module %s: with release keys, the last part of a component's name must be the "+
				"module's name", component, module)
	}
	if defaultCR == nil {
		return nil
	}
	if released == nil {
		return fmt.Errorf(
			"spec.resource: the release has no default CR: with release keys, add it to the component as resource %q",
			ContentDefaultCR)
	}
	requested, err := json.Marshal(defaultCR.Object)
	if err != nil {
		return fmt.Errorf("spec.resource: %w", err)
	}
	expected, err := json.Marshal(released.Object)
	if err != nil {
		return fmt.Errorf("read the default CR of the release: %w", err)
	}
	if !bytes.Equal(requested, expected) {
		return fmt.Errorf("spec.resource: the default CR differs from the one in the release, which is the "+
			"component's resource %q", ContentDefaultCR)
	}
	return nil
}

// ContentDefaultCR is the name of the component resource with a module's released default CR. Kyma's modulectl uses the
// same name.
const ContentDefaultCR = "default-cr"

// Evidence returns the content that proves a module's release: the documents in Release, and the released default CR if
// the Manifest has a default CR.
func (m Manifest) Evidence() []Content {
	evidence := slices.Clone(m.Release)
	if c, ok := m.releasedDefaultCR(); ok {
		evidence = append(evidence, c)
	}
	return evidence
}

func (m Manifest) releasedDefaultCR() (Content, bool) {
	at := slices.IndexFunc(m.Content, func(c Content) bool { return c.Name == ContentDefaultCR })
	if at < 0 || m.Spec.Resource == nil {
		return Content{}, false
	}
	return m.Content[at], true
}

// CanProveRelease reports whether the Manifest contains the release proof that agents require if the root of trust has
// release keys.
func (m Manifest) CanProveRelease() bool {
	_, ok := m.releasedDefaultCR()
	return len(m.Release) > 0 && (ok || m.Spec.Resource == nil) && ModuleOf(m.Component) == m.Module
}
