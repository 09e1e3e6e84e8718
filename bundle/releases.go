package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// CheckReleases returns an error if some content of a desired state was not released; see CheckRelease. It also
// restricts other fields through which a publisher could add content: mirrors, the agent's image, and the default
// objects of modules.
func CheckReleases(r trust.Root, state DesiredState, documents map[digest.Digest][]byte, now time.Time) error {
	if !r.HasReleaseKeys() && len(r.Floors) == 0 {
		return nil
	}
	if err := state.Settings.checkAgentFloor(r); err != nil {
		return fmt.Errorf("settings.agent: %w", err)
	}
	if r.HasReleaseKeys() && len(state.Settings.Mirrors) > 0 {
		return errors.New(
			"settings.mirrors: not allowed if the root of trust has release keys, because mirrors could add images")
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
		if err := r.CheckRelease(m.released(), found, now); err != nil {
			return err
		}
		if !r.HasReleaseKeys() {
			continue
		}
		if err := m.checkLocked(); err != nil {
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

// checkLocked refuses manifest fields that could add content that Content does not list.
func (m Manifest) checkLocked() error {
	named := []v1beta2.ImageSpec{{}}
	if err := json.Unmarshal(m.Spec.Install.Source.Raw, &named[0]); err != nil {
		return fmt.Errorf("spec.install.source: %w", err)
	}
	if m.Spec.Config != nil {
		named = append(named, *m.Spec.Config)
	}
	for _, spec := range named {
		if !slices.ContainsFunc(m.Content, func(c Content) bool { return c.Digest.String() == spec.Ref }) {
			return fmt.Errorf("spec.install: %s is not part of the module's content", spec.Ref)
		}
	}
	if _, there := m.Annotations[v1beta2.AnnotationImages]; there {
		return fmt.Errorf("annotation %s can only be set by the agent", v1beta2.AnnotationImages)
	}
	if m.Spec.Resource == nil {
		return nil
	}
	gvk := m.Spec.Resource.GroupVersionKind()
	builtIn := !strings.Contains(gvk.Group, ".") || strings.HasSuffix(gvk.Group, ".k8s.io")
	ours := gvk.Group == v1beta2.Group &&
		slices.Contains([]string{"Kyma", "Manifest", "ModuleTemplate", "ModuleReleaseMeta", "Watcher"}, gvk.Kind)
	if builtIn || ours {
		return fmt.Errorf("spec.resource is a %s, must be a custom resource of the module", gvk.GroupKind())
	}
	return nil
}
