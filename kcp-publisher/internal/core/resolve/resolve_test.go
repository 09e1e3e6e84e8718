package resolve

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

const prefix = "kyma-pull.dev/module/"

// resolveCase is a test case: a world with the expected manifests and problems.
type resolveCase struct {
	world *world
	// then changes the world after the first bundle. If it is nil, the test checks the first bundle.
	then func(*world)
	want []string
}

func (s resolveCase) check(t *testing.T) {
	if s.then != nil {
		s.then(s.world.published(t))
	}
	if got := outline(s.world.resolve(t)); !slices.Equal(got, s.want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(s.want, "\n  "))
	}
}

func TestRequestedModulesAreResolvedToVersions(t *testing.T) {
	for name, c := range map[string]resolveCase{
		"A module without a channel follows the Kyma's": {world: usualWorld(), want: []string{"keda@1.0.0 regular"}},
		"A module's own channel wins over the Kyma's": {
			world: usualWorld().askNothingBut("keda", inChannel("fast")), want: []string{"keda@1.1.0 fast"}},
		"A Kyma without modules gets none": {world: newWorld(), want: []string{}},
		"A Kyma that switches to a faster channel is upgraded": {
			world: usualWorld(), then: func(w *world) { w.channel("fast") }, want: []string{"keda@1.1.0 fast"}},
		"A module that switches to a faster channel is upgraded": {
			world: usualWorld(), then: func(w *world) { w.askNothingBut("keda", inChannel("fast")) },
			want: []string{"keda@1.1.0 fast"}},
		"A switch to a slower channel keeps the newer version": {
			world: usualWorld().channel("fast"), then: func(w *world) { w.channel("regular") },
			want: []string{
				"keda@1.1.0 fast",
				`Warning OlderVersionAsked: module keda stays at version 1.1.0: channel "regular" has 1.0.0, which is older`,
			}},
		"A switch between channels with the same version changes only the channel": {
			world: newWorld().template("keda", "1.0.0").meta("keda", "regular=1.0.0", "fast=1.0.0").ask("keda"),
			then:  func(w *world) { w.channel("fast") }, want: []string{"keda@1.0.0 fast"}},
		"A channel without a version is a problem that names the object and the fix": {
			world: usualWorld().channel("slow"),
			want: []string{
				`Warning ChannelMissing: module keda: channel "slow" has no version: add one to ModuleReleaseMeta kcp-system/keda spec.channels`,
			}},
		"A channel with an empty version has no version": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "" }),
			want: []string{
				`Warning ChannelMissing: module keda: channel "regular" has no version: add one to ModuleReleaseMeta kcp-system/keda spec.channels`,
			}},
		"A channel that loses its version keeps the last good Manifest": {
			world: usualWorld(), then: func(w *world) { w.metas[0].Spec.Channels = nil },
			want: []string{
				"keda@1.0.0 regular",
				`Warning ChannelMissing: module keda: channel "regular" has no version: add one to ModuleReleaseMeta kcp-system/keda spec.channels`,
			}},
		"An unknown module does not affect other modules": {
			world: usualWorld().ask("nope"),
			want: []string{
				"keda@1.0.0 regular",
				"Warning ModuleUnknown: module nope is unknown: no ModuleReleaseMeta or ModuleTemplate has that name",
			}},
		"A module that disappears from the catalog keeps the last good Manifest": {
			world: usualWorld(), then: func(w *world) { w.templates, w.metas = nil, nil },
			want: []string{
				"keda@1.0.0 regular",
				"Warning ModuleUnknown: module keda is unknown: no ModuleReleaseMeta or ModuleTemplate has that name",
			}},
		"A module that is no longer requested is removed": {
			world: usualWorld(), then: func(w *world) { w.request.Requested.Modules = nil }, want: []string{}},
		"A version without a ModuleTemplate is a problem that names the missing template": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "3.0.0" }),
			want: []string{
				`Warning TemplateMissing: module keda: version 3.0.0 in channel "regular" has no ModuleTemplate: add keda-3.0.0`,
			}},
		"Two ModuleTemplates for one version are a problem that names them": {
			world: usualWorld().template("keda", "1.0.0", func(t *v1beta2.ModuleTemplate) { t.Name = "keda-again" }),
			want: []string{
				"Warning TemplateDoubled: module keda: version 1.0.0 has two ModuleTemplates: remove " +
					"kcp-system/keda-1.0.0 or kcp-system/keda-again",
			}},
		"A second ModuleTemplate for the running version keeps the last good Manifest": {
			world: usualWorld(), then: func(w *world) {
				w.template("keda", "1.0.0", func(t *v1beta2.ModuleTemplate) { t.Name = "keda-again" })
			},
			want: []string{
				"keda@1.0.0 regular",
				"Warning TemplateDoubled: module keda: version 1.0.0 has two ModuleTemplates: remove " +
					"kcp-system/keda-1.0.0 or kcp-system/keda-again",
			}},
		"A ModuleTemplate without a module name is found by its object name": {
			world: newWorld().
				template("keda", "1.0.0",
					func(t *v1beta2.ModuleTemplate) { t.Spec.ModuleName, t.Spec.Version = "", "" }).
				meta("keda", "regular=1.0.0").ask("keda"),
			want: []string{"keda@1.0.0 regular"}},
		"A ModuleTemplate's version can come from its descriptor": {
			world: newWorld().template("keda", "1.0.0", described("keda", "1.0.0"),
				func(t *v1beta2.ModuleTemplate) { t.Name, t.Spec.Version = "some", "" }).
				meta("keda", "regular=1.0.0").ask("keda"),
			want: []string{"keda@1.0.0 regular"}},
		"A component can come from the ModuleTemplate's descriptor": {
			world: newWorld().template("keda", "1.0.0", described("keda", "1.0.0")).meta("keda", "regular=1.0.0").
				edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.OcmComponentName = "" }).ask("keda"),
			want: []string{"keda@1.0.0 regular"}},
		"A module without a component name is a problem": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.OcmComponentName = "" }),
			want: []string{
				"Warning CatalogInvalid: module keda has no component name: set ModuleReleaseMeta kcp-system/keda " +
					"spec.ocmComponentName",
			}},
		"A component that was not read cannot be installed": {
			world: usualWorld().edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.OcmComponentName = prefix + "other" }),
			want: []string{
				"Error ComponentBroken: module keda: component kyma-pull.dev/module/other:1.0.0 was not read",
			}},
		"A component that cannot be read is a problem with its error": {
			world: broken(usualWorld(), "1.0.0", "component kyma-pull.dev/module/keda:1.0.0 in registry.example: 503"),
			want: []string{
				"Error ComponentBroken: module keda: component kyma-pull.dev/module/keda:1.0.0 in registry.example: 503",
			}},
		"A component that becomes unreadable keeps the last good Manifest": {
			world: usualWorld(), then: func(w *world) { broken(w, "1.0.0", "connection refused") },
			want: []string{"keda@1.0.0 regular", "Error ComponentBroken: module keda: connection refused"}},
		"An upgrade whose component cannot be read keeps the last good version": {
			world: usualWorld(), then: func(w *world) { broken(w, "1.1.0", "digest mismatch").channel("fast") },
			want: []string{"keda@1.0.0 regular", "Error ComponentBroken: module keda: digest mismatch"}},
		"A raw-manifest larger than the limit is refused": {
			world: oversized(usualWorld()),
			want: []string{
				`Error ComponentBroken: module keda: component kyma-pull.dev/module/keda:1.0.0: resource "raw-manifest" ` +
					`is 33554433 bytes, limit 33554432`,
			}},
		"A module is pinned to a version that no channel has": {
			world: usualWorld().template("keda", "1.0.5").askNothingBut("keda", pinned("1.0.5")),
			want:  []string{"keda@1.0.5"}},
		"A pinned module stays while its channel gets a newer version": {
			world: usualWorld().askNothingBut("keda", pinned("1.0.0")), then: func(w *world) {
				w.metas[0].Spec.Channels[0].Version = "1.1.0"
			},
			want: []string{"keda@1.0.0"}},
		"A module that is no longer pinned follows its channel": {
			world: usualWorld().askNothingBut("keda", pinned("1.0.0")), then: func(w *world) {
				w.askNothingBut("keda").channel("fast")
			},
			want: []string{"keda@1.1.0 fast"}},
		"A pinned older version does not downgrade the module": {
			world: usualWorld().channel("fast"), then: func(w *world) { w.askNothingBut("keda", pinned("1.0.0")) },
			want: []string{
				"keda@1.1.0 fast",
				"Warning OlderVersionAsked: module keda stays at version 1.1.0: the Kyma pins it to 1.0.0, which is " +
					"older",
			}},
		"A pinned version without a ModuleTemplate is a problem": {
			world: usualWorld().askNothingBut("keda", pinned("9.0.0")),
			want: []string{
				"Warning PinUnavailable: module keda: pinned version 9.0.0 is not available: " +
					"ModuleTemplate keda-9.0.0 does not exist",
			}},
		"A pinned version is ignored if a channel is set": {
			world: usualWorld().askNothingBut("keda", pinned("1.0.0"), func(m *v1beta2.Module) { m.Channel = "fast" }),
			want:  []string{"keda@1.1.0 fast"}},
		"A version cannot be pinned without a ModuleReleaseMeta": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0").ask("keda", pinned("1.0.0")),
			want: []string{
				"Warning PinUnavailable: module keda: version 1.0.0 cannot be pinned without a ModuleReleaseMeta: " +
					"request a channel instead",
			}},
		"A lookup without a ModuleReleaseMeta finds a ModuleTemplate by its label": {
			world: newWorld().older("any", "keda", "regular", "1.0.0",
				labelledTemplate(v1beta2.LabelModuleName, "keda")).ask("keda"),
			want: []string{"keda@1.0.0 regular"}},
		"A lookup without a ModuleReleaseMeta finds a ModuleTemplate by its name": {
			world: newWorld().older("keda-regular", "keda", "regular", "1.0.0").ask("keda-regular"),
			want:  []string{"keda-regular@1.0.0 regular"}},
		"A lookup without a ModuleReleaseMeta finds a ModuleTemplate by namespace and name": {
			world: newWorld().older("keda-regular", "keda", "regular", "1.0.0").ask("kcp-system/keda-regular"),
			want:  []string{"kcp-system/keda-regular@1.0.0 regular"}},
		"A lookup without a ModuleReleaseMeta finds a ModuleTemplate by its component": {
			world: newWorld().older("any", "keda", "regular", "1.0.0").ask(prefix + "keda"),
			want:  []string{prefix + "keda@1.0.0 regular"}},
		"A lookup without a ModuleReleaseMeta selects the ModuleTemplate for the channel": {
			world: newWorld().older("keda-fast", "keda", "fast", "1.1.0",
				labelledTemplate(v1beta2.LabelModuleName, "keda")).
				older("keda-regular", "keda", "regular", "1.0.0", labelledTemplate(v1beta2.LabelModuleName, "keda")).
				ask("keda"),
			want: []string{"keda@1.0.0 regular"}},
		"A lookup without a ModuleReleaseMeta fails without a ModuleTemplate in the channel": {
			world: newWorld().older("keda", "keda", "fast", "1.1.0").ask("keda"),
			want: []string{
				`Warning ChannelMissing: module keda: channel "regular" has no version: no ModuleTemplate for the module has this spec.channel`,
			}},
		"A lookup without a ModuleReleaseMeta fails for two ModuleTemplates in the channel": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0").
				older("second", "keda", "regular", "1.1.0", labelledTemplate(v1beta2.LabelModuleName, "keda")).
				ask("keda"),
			want: []string{
				`Warning TemplateDoubled: module keda: channel "regular" has two ModuleTemplates: remove kcp-system/keda or kcp-system/second`,
			}},
		"A lookup without a ModuleReleaseMeta fails for an invalid descriptor": {
			world: newWorld().older("keda", "keda", "regular", "1.0.0",
				func(t *v1beta2.ModuleTemplate) {
					t.Spec.Descriptor.Raw = []byte(`{"meta":{"schemaVersion":"v9"}}`)
				}).ask("keda"),
			want: []string{
				`Warning CatalogInvalid: module keda: ModuleTemplate kcp-system/keda spec.descriptor: component descriptor: meta.schemaVersion: "v9" is not supported, must be "v2"`,
			}},
		"A ModuleReleaseMeta overrides ModuleTemplates with a channel": {
			world: usualWorld().older("keda", "keda", "regular", "0.9.0"), want: []string{"keda@1.0.0 regular"}},
		"A mandatory version is installed regardless of its labels": {
			world: newWorld().template("warden", "1.0.0", labelledTemplate(v1beta2.LabelBeta, v1beta2.True)).
				meta("warden").edit(mandatoryMeta("1.0.0")),
			want: []string{"warden@1.0.0 mandatory"}},
		"A module that its ModuleReleaseMeta makes mandatory is installed without a request": {
			world: newWorld().template("watch", "1.0.0").meta("watch").edit(mandatoryMeta("1.0.0")),
			want:  []string{"watch@1.0.0 mandatory"}},
		"A module that its ModuleTemplate makes mandatory is installed without a request": {
			world: newWorld().template("watch", "1.0.0", mandatory, described("watch", "1.0.0")),
			want:  []string{"watch@1.0.0 mandatory"}},
		"The highest of several mandatory versions is installed": {
			world: newWorld().template("watch", "1.9.0", mandatory, described("watch", "1.9.0")).
				template("watch", "1.10.0", mandatory, described("watch", "1.10.0")).
				template("watch", "1.2.0", mandatory, described("watch", "1.2.0")),
			want: []string{"watch@1.10.0 mandatory"}},
		"The higher mandatory version from ModuleReleaseMeta and ModuleTemplate is installed": {
			world: newWorld().template("watch", "1.1.0", mandatory, described("watch", "1.1.0")).
				template("watch", "1.0.0").
				meta("watch").edit(mandatoryMeta("1.0.0")),
			want: []string{"watch@1.1.0 mandatory"}},
		"A mandatory module that is requested is installed once": {
			world: newWorld().template("watch", "1.0.0").meta("watch").edit(mandatoryMeta("1.0.0")).ask("watch"),
			want: []string{
				"watch@1.0.0 mandatory",
				"Warning ModuleNotOffered: module watch is mandatory and installed without a request: remove it from " +
					"spec.modules, which has no effect on it",
			}},
		"A mandatory module cannot be left unmanaged": {
			world: newWorld().template("watch", "1.0.0").meta("watch").edit(mandatoryMeta("1.0.0")).
				ask("watch", unmanaged),
			want: []string{
				"watch@1.0.0 mandatory",
				"Warning ModuleNotOffered: module watch is mandatory and installed without a request: remove it from " +
					"spec.modules, which has no effect on it",
			}},
		"A mandatory module is upgraded": {
			world: newWorld().template("watch", "1.0.0").template("watch", "1.1.0").meta("watch").
				edit(mandatoryMeta("1.0.0")),
			then: func(w *world) { w.edit(mandatoryMeta("1.1.0")) }, want: []string{"watch@1.1.0 mandatory"}},
		"A mandatory module is not downgraded": {
			world: newWorld().template("watch", "1.0.0").template("watch", "1.1.0").meta("watch").
				edit(mandatoryMeta("1.1.0")),
			then: func(w *world) { w.edit(mandatoryMeta("1.0.0")) },
			want: []string{
				"watch@1.1.0 mandatory",
				"Warning OlderVersionAsked: module watch stays at version 1.1.0: its mandatory version is 1.0.0, " +
					"which is older",
			}},
		"A mandatory version without a ModuleTemplate is a problem": {
			world: newWorld().meta("watch").edit(mandatoryMeta("1.0.0")),
			want: []string{
				"Warning TemplateMissing: module watch: mandatory version 1.0.0 has no ModuleTemplate: add watch-1.0.0",
			}},
		"A mandatory module whose ModuleTemplate is deleted keeps the last good Manifest": {
			world: newWorld().template("watch", "1.0.0").meta("watch").edit(mandatoryMeta("1.0.0")),
			then:  func(w *world) { w.templates = nil },
			want: []string{
				"watch@1.0.0 mandatory",
				"Warning TemplateMissing: module watch: mandatory version 1.0.0 has no ModuleTemplate: add watch-1.0.0",
			}},
		"A second ModuleReleaseMeta keeps a mandatory module": {
			world: newWorld().template("watch", "1.0.0").meta("watch").edit(mandatoryMeta("1.0.0")),
			then: func(w *world) {
				w.meta("watch", "regular=1.0.0").metas[1].Name = "a-copy"
			},
			want: []string{
				"watch@1.0.0 mandatory",
				"Warning CatalogInvalid: module watch has two ModuleReleaseMetas: remove kcp-system/a-copy or " +
					"kcp-system/watch, or correct its spec.moduleName",
			}},
		"A mandatory module whose descriptor becomes invalid keeps the last good Manifest": {
			world: newWorld().template("watch", "1.0.0", mandatory, described("watch", "1.0.0")),
			then:  func(w *world) { w.templates[0].Spec.Descriptor.Raw = []byte(`{"meta":{"schemaVersion":"v9"}}`) },
			want: []string{"watch@1.0.0 mandatory",
				`Warning CatalogInvalid: module watch: ModuleTemplate kcp-system/watch-1.0.0 spec.descriptor: component descriptor: meta.schemaVersion: "v9" is not supported, must be "v2"`}},
		"A module that is no longer mandatory is removed": {
			world: newWorld().template("watch", "1.0.0", mandatory, described("watch", "1.0.0")),
			then:  func(w *world) { w.templates = nil }, want: []string{}},
		"A release upgrades its prerelease": {
			world: newWorld().template("keda", "1.0.0-rc").template("keda", "1.0.0").meta("keda", "regular=1.0.0-rc").
				ask("keda"),
			then: func(w *world) { w.metas[0].Spec.Channels[0].Version = "1.0.0" },
			want: []string{"keda@1.0.0 regular"}},
		"A prerelease does not replace its release": {
			world: newWorld().template("keda", "1.0.0-rc").template("keda", "1.0.0").meta("keda", "regular=1.0.0").
				ask("keda"),
			then: func(w *world) { w.metas[0].Spec.Channels[0].Version = "1.0.0-rc" },
			want: []string{
				"keda@1.0.0 regular",
				`Warning OlderVersionAsked: module keda stays at version 1.0.0: channel "regular" has 1.0.0-rc, which is older`,
			}},
		"A prerelease of the next version is an upgrade": {
			world: newWorld().template("keda", "1.0.0").template("keda", "1.1.0-rc").meta("keda", "regular=1.0.0").
				ask("keda"),
			then: func(w *world) { w.metas[0].Spec.Channels[0].Version = "1.1.0-rc" },
			want: []string{"keda@1.1.0-rc regular"}},
		"Versions are compared as numbers": {
			world: newWorld().template("keda", "1.9.0").template("keda", "1.10.0").meta("keda", "regular=1.9.0").
				ask("keda"),
			then: func(w *world) { w.metas[0].Spec.Channels[0].Version = "1.10.0" },
			want: []string{"keda@1.10.0 regular"}},
		"An unmanaged module that was never installed is not installed": {
			world: usualWorld().askNothingBut("keda", unmanaged), want: []string{}},
		"A module that becomes unmanaged stays and is marked as unmanaged": {
			world: usualWorld(), then: func(w *world) { w.askNothingBut("keda", unmanaged) },
			want: []string{"keda@1.0.0 regular unmanaged"}},
		"An unmanaged module is not upgraded": {
			world: usualWorld(), then: func(w *world) { w.askNothingBut("keda", unmanaged).channel("fast") },
			want: []string{"keda@1.0.0 regular unmanaged"}},
		"An unmanaged module has no problems": {
			world: usualWorld(), then: func(w *world) {
				broken(w, "1.0.0", "gone").askNothingBut("keda", unmanaged).channel("slow")
			},
			want: []string{"keda@1.0.0 regular unmanaged"}},
		"A module that is managed again follows its channel": {
			world: leftAlone(usualWorld()), then: func(w *world) { w.askNothingBut("keda").channel("fast") },
			want: []string{"keda@1.1.0 fast"}},
		"A module that is managed again and cannot be resolved keeps the last good Manifest": {
			world: leftAlone(usualWorld()), then: func(w *world) { broken(w, "1.0.0", "gone").askNothingBut("keda") },
			want: []string{"keda@1.0.0 regular", "Error ComponentBroken: module keda: gone"}},
		"A Manifest contains the default CR": {
			world: newWorld().template("keda", "1.0.0", defaultCR("Keda", "default")).meta("keda", "regular=1.0.0").
				ask("keda"),
			want: []string{"keda@1.0.0 regular with Keda"}},
		"A Manifest with policy Ignore contains no default CR": {
			world: newWorld().template("keda", "1.0.0", defaultCR("Keda", "default")).meta("keda", "regular=1.0.0").
				ask("keda", ignoringCR),
			want: []string{"keda@1.0.0 regular"}},
		"A Manifest without a policy contains the default CR": {
			world: newWorld().template("keda", "1.0.0", defaultCR("Keda", "default")).meta("keda", "regular=1.0.0").
				ask("keda", func(m *v1beta2.Module) { m.CustomResourcePolicy = "" }),
			want: []string{"keda@1.0.0 regular with Keda"}},
		"A default CR without a kind is refused": {
			world: newWorld().template("keda", "1.0.0", defaultCR("", "default")).meta("keda", "regular=1.0.0").
				ask("keda"),
			want: []string{
				"Error CatalogInvalid: module keda: ModuleTemplate keda-1.0.0 spec.data: kind and metadata.name are " +
					"required",
			}},
		"A default CR without a name is refused": {
			world: newWorld().template("keda", "1.0.0", defaultCR("Keda", "")).meta("keda", "regular=1.0.0").
				ask("keda"),
			want: []string{
				"Error CatalogInvalid: module keda: ModuleTemplate keda-1.0.0 spec.data: kind and metadata.name are " +
					"required",
			}},
		"An invalid default CR is ignored with policy Ignore": {
			world: newWorld().template("keda", "1.0.0", defaultCR("", "")).meta("keda", "regular=1.0.0").
				ask("keda", ignoringCR),
			want: []string{"keda@1.0.0 regular"}},
		"Content that changes under the same version is refused": {
			world: usualWorld(), then: func(w *world) { w.content("keda", "1.0.0", "something else") },
			want: []string{"keda@1.0.0 regular",
				"Error ComponentBroken: module keda: component kyma-pull.dev/module/keda:1.0.0 changed its content " +
					"under the same version: release a new version instead"}},
		"Content that moves to another repository is accepted": {
			world: usualWorld(), then: func(w *world) {
				moved := w.contents[ComponentRef{Component: prefix + "keda", Version: "1.0.0"}]
				moved.Install.Repository = "mirror.example/keda"
				w.whole("keda", "1.0.0", moved)
			},
			want: []string{"keda@1.0.0 regular"}},
		"A problem with one module does not block upgrades of other modules": {
			world: usualWorld().template("mail", "1.0.0").template("mail", "1.1.0").
				meta("mail", "regular=1.0.0", "fast=1.1.0").ask("mail"),
			then: func(w *world) { broken(w, "1.1.0", "gone").channel("fast") },
			want: []string{"keda@1.0.0 regular", "mail@1.1.0 fast", "Error ComponentBroken: module keda: gone"}},
	} {
		t.Run(name, c.check)
	}
}

func broken(w *world, version, why string) *world {
	w.whole("keda", version, Content{Err: errors.New(why)})
	return w
}

func pinned(version string) func(*v1beta2.Module) {
	return func(m *v1beta2.Module) { m.Version = version }
}

func oversized(w *world) *world {
	large := part("raw-manifest", v1beta2.OCIDir, "application/x-tar", "x")
	large.SizeBytes = bundle.MaxLayerBytes + 1
	w.whole("keda", "1.0.0", Content{Install: large})
	return w
}

func leftAlone(w *world) *world {
	snapshot, err := catalog.New(w.templates, w.metas)
	if err != nil {
		panic(err)
	}
	first := Resolve(w.request, snapshot, w.contents).State
	w.request.LastState = &first
	return w.askNothingBut("keda", unmanaged)
}

func TestManifestContainsAllFields(t *testing.T) {
	w := newWorld().template("keda", "1.0.0", defaultCR("Keda", "default"), func(t *v1beta2.ModuleTemplate) {
		t.Spec.Manager = &v1beta2.Manager{Namespace: "kyma-system", Name: "keda-manager"}
		t.Spec.CustomStateCheck = []v1beta2.CustomStateCheck{
			{JSONPath: "status.phase", Value: "Up", MappedState: v1beta2.StateReady},
		}
	}).meta("keda", "regular=1.0.0").ask("keda")
	m := w.resolve(t).State.Manifests[0]
	got, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "name": "keda",
  "labels": {
    "operator.kyma-project.io/channel": "regular",
    "operator.kyma-project.io/kyma-name": "default",
    "operator.kyma-project.io/managed-by": "kyma",
    "operator.kyma-project.io/module-name": "keda"
  },
  "annotations": {
    "operator.kyma-project.io/custom-state-check": "STATE_CHECK",
    "operator.kyma-project.io/fqdn": "kyma-pull.dev/module/keda"
  },
  "module": "keda",
  "channel": "regular",
  "version": "1.0.0",
  "component": "kyma-pull.dev/module/keda",
  "template": "keda-1.0.0",
  "spec": {
    "remote": true,
    "install": {
      "name": "raw-manifest",
      "source": {
        "repo": "registry.example/modules",
        "name": "raw-manifest",
        "ref": "DIGEST",
        "type": "oci-dir"
      }
    },
    "resource": {
      "apiVersion": "sample.example/v1",
      "kind": "Keda",
      "metadata": {
        "name": "default"
      }
    },
    "version": "1.0.0",
    "manager": {
      "group": "",
      "version": "",
      "kind": "",
      "namespace": "kyma-system",
      "name": "keda-manager"
    },
    "customResourcePolicy": "CreateAndDelete"
  },
  "content": [
    {
      "name": "raw-manifest",
      "repository": "registry.example/modules",
      "mediaType": "application/x-tar",
      "digest": "DIGEST",
      "size": 9
    }
  ]
}`
	want = strings.ReplaceAll(want, "DIGEST", digest.FromString("keda1.0.0").String())
	want = strings.Replace(want, "STATE_CHECK",
		`[{\"jsonPath\":\"status.phase\",\"value\":\"Up\",\"mappedState\":\"Ready\"}]`, 1)
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
