package resolve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// world contains the inputs of Resolve for a test case.
type world struct {
	templates         []v1beta2.ModuleTemplate
	metas             []v1beta2.ModuleReleaseMeta
	contents          map[ComponentRef]Content
	request           Request
	restrictedModules []string
}

func newWorld() *world {
	return &world{contents: map[ComponentRef]Content{}, request: Request{Requested: v1beta2.KymaSpec{Channel: "regular"}}}
}

// usualWorld returns a world with keda 1.0.0 in channel regular and keda 1.1.0 in channel fast. Its Kyma requests
// keda from channel regular.
func usualWorld() *world {
	return newWorld().template("keda", "1.0.0").
		template("keda", "1.1.0").
		meta("keda", "regular=1.0.0", "fast=1.1.0").
		ask("keda")
}

func (w *world) template(module, version string, changes ...func(*v1beta2.ModuleTemplate)) *world {
	t := v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: module + "-" + version},
		Spec: v1beta2.ModuleTemplateSpec{
			ModuleName: module,
			Version:    version,
			Descriptor: runtime.RawExtension{Raw: []byte("{}")},
		},
	}
	for _, change := range changes {
		change(&t)
	}
	w.templates = append(w.templates, t)
	w.content(module, version, module+version)
	return w
}

func (w *world) older(name, module, channel, version string, changes ...func(*v1beta2.ModuleTemplate)) *world {
	w.templates = append(w.templates, v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: name},
		Spec: v1beta2.ModuleTemplateSpec{
			Channel:    channel,
			Descriptor: runtime.RawExtension{Raw: descriptor(module, version)},
		},
	})
	for _, change := range changes {
		change(&w.templates[len(w.templates)-1])
	}
	return w.content(module, version, module+version)
}

func descriptor(module, version string) []byte {
	return []byte(
		`{"meta":{"schemaVersion":"v2"},"component":{"name":"` + prefix + module + `","version":"` + version +
			`","resources":[]}}`,
	)
}

func (w *world) content(module, version, data string) *world {
	return w.whole(module, version, Content{Install: part("raw-manifest", v1beta2.OCIDir, "application/x-tar", data)})
}

func (w *world) whole(module, version string, content Content) *world {
	w.contents[ComponentRef{Component: prefix + module, Version: version}] = content
	for _, t := range w.templates {
		w.contents[ComponentRef{Component: prefix + module, Version: version, Template: t.Namespace + "/" + t.Name}] = content
	}
	return w
}

func part(name string, kind v1beta2.ImageSpecType, mediaType, data string) Part {
	return Part{Type: kind, Content: bundle.Content{
		Name: name, Repository: "registry.example/modules", MediaType: mediaType, Digest: digest.FromString(data),
		SizeBytes: int64(len(data)),
	}}
}

// meta adds a ModuleReleaseMeta. The channels have the format "channel=version".
func (w *world) meta(module string, channels ...string) *world {
	m := v1beta2.ModuleReleaseMeta{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: module},
		Spec:       v1beta2.ModuleReleaseMetaSpec{ModuleName: module, OcmComponentName: prefix + module},
	}
	for _, c := range channels {
		channel, version, _ := strings.Cut(c, "=")
		m.Spec.Channels = append(m.Spec.Channels, v1beta2.ChannelVersion{Channel: channel, Version: version})
	}
	w.metas = append(w.metas, m)
	return w
}

func (w *world) edit(change func(*v1beta2.ModuleReleaseMetaSpec)) *world {
	change(&w.metas[len(w.metas)-1].Spec)
	return w
}

func (w *world) ask(module string, changes ...func(*v1beta2.Module)) *world {
	m := v1beta2.Module{Name: module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete}
	for _, change := range changes {
		change(&m)
	}
	w.request.Requested.Modules = append(w.request.Requested.Modules, m)
	return w
}

func (w *world) askNothingBut(module string, changes ...func(*v1beta2.Module)) *world {
	w.request.Requested.Modules = nil
	return w.ask(module, changes...)
}

func (w *world) labeled(labels ...string) *world {
	w.request.Labels = map[string]string{}
	for _, label := range labels {
		w.request.Labels[label] = v1beta2.True
	}
	return w
}

func (w *world) restricted(modules ...string) *world {
	w.restrictedModules = modules
	return w
}

func (w *world) channel(channel string) *world {
	w.request.Requested.Channel = channel
	return w
}

// published resolves the world and uses the result as the last published desired state.
func (w *world) published(t testing.TB) *world {
	state := w.resolve(t).State
	w.request.LastState = &state
	return w
}

func (w *world) snapshot(t testing.TB) *catalog.Snapshot {
	t.Helper()
	snapshot, err := catalog.New(w.templates, w.metas, w.restrictedModules...)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func (w *world) resolve(t testing.TB) Result {
	t.Helper()
	return Resolve(w.request, w.snapshot(t), w.contents)
}

func inChannel(channel string) func(*v1beta2.Module) {
	return func(m *v1beta2.Module) { m.Channel = channel }
}

func unmanaged(m *v1beta2.Module) { m.Managed = false }

func ignoringCR(m *v1beta2.Module) { m.CustomResourcePolicy = v1beta2.PolicyIgnore }

func mandatory(t *v1beta2.ModuleTemplate) { t.Spec.Mandatory = true }

func labelledTemplate(label, value string) func(*v1beta2.ModuleTemplate) {
	return func(t *v1beta2.ModuleTemplate) {
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		t.Labels[label] = value
	}
}

func described(module, version string) func(*v1beta2.ModuleTemplate) {
	return func(t *v1beta2.ModuleTemplate) { t.Spec.Descriptor.Raw = descriptor(module, version) }
}

func defaultCR(kind, name string) func(*v1beta2.ModuleTemplate) {
	return func(t *v1beta2.ModuleTemplate) {
		t.Spec.Data = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sample.example/v1", "kind": kind, "metadata": map[string]any{"name": name},
		}}
	}
}

func mandatoryMeta(version string) func(*v1beta2.ModuleReleaseMetaSpec) {
	return func(s *v1beta2.ModuleReleaseMetaSpec) { s.Mandatory = &v1beta2.Mandatory{Version: version} }
}

func outline(result Result) []string {
	lines := []string{}
	for _, m := range result.State.Manifests {
		line := m.Module + "@" + m.Version
		if m.Channel != "" {
			line += " " + m.Channel
		}
		if m.Spec.Resource != nil {
			line += " with " + m.Spec.Resource.GetKind()
		}
		if m.Labels[v1beta2.LabelMandatoryModule] == v1beta2.True {
			line += " mandatory"
		}
		if m.Unmanaged {
			line += " unmanaged"
		}
		lines = append(lines, line)
	}
	for _, p := range result.State.Problems {
		lines = append(lines, fmt.Sprintf("%s %s: %s", p.State, p.Reason, p.Message))
	}
	return lines
}
