package resolve

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

func nested(depth int) func(*v1beta2.ModuleTemplate) {
	return func(t *v1beta2.ModuleTemplate) {
		var value any = "leaf"
		for range depth {
			value = map[string]any{"a": value}
		}
		t.Spec.Data = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sample.example/v1", "kind": "Deep", "metadata": map[string]any{"name": "deep"},
			"spec": value,
		}}
	}
}

func padded(n int) func(*v1beta2.ModuleTemplate) {
	return func(t *v1beta2.ModuleTemplate) { t.Annotations = map[string]string{"padding": strings.Repeat("x", n)} }
}

func (w *world) sized(module, version string, bytes int64) *world {
	content := part("raw-manifest", v1beta2.OCIDir, "application/x-tar", module+version)
	content.SizeBytes = bytes
	return w.whole(module, version, Content{Install: content})
}

func manifestOf(result Result, module string) *bundle.Manifest {
	return lastManifest(&result.State, module)
}

func problemOf(result Result, module string) string {
	i := slices.IndexFunc(result.State.Problems, func(p bundle.Problem) bool { return p.Module == module })
	if i < 0 {
		return ""
	}
	return result.State.Problems[i].Message
}

func TestDeeplyNestedTemplateIsOmitted(t *testing.T) {
	left := 0
	for depth := 30; depth < 90; depth++ {
		w := usualWorld().template("deep", "1.0.0", nested(depth)).meta("deep", "regular=1.0.0").ask("deep")
		result := w.resolve(t)
		encoded(t, result)
		if manifestOf(result, "keda") == nil {
			t.Fatalf("depth %d: module keda was omitted", depth)
		}
		if manifestOf(result, "deep") != nil {
			continue
		}
		left++
		if problem := problemOf(result, "deep"); !strings.Contains(problem, "ModuleTemplate kcp-system/deep-1.0.0") ||
			!strings.Contains(problem, "deeper than") {
			t.Errorf("depth %d: got problem %q, want the template and the limit", depth, problem)
		}
	}
	if left == 0 || left == 60 {
		t.Errorf("got %d of 60 depths omitted, want only the deepest", left)
	}
}

// No Kyma requests the module. Without the limit, its ModuleTemplate would still be in the catalog of every bundle.
func TestDeeplyNestedTemplateIsOmittedFromTheCatalog(t *testing.T) {
	for _, w := range []*world{
		usualWorld().template("deep", "1.0.0", nested(80)).meta("deep", "regular=1.0.0"),
		usualWorld().older("deep-regular", "deep", "regular", "1.0.0", nested(80)),
	} {
		result := w.resolve(t)
		encoded(t, result)
		if slices.ContainsFunc(result.Catalog.ModuleTemplates,
			func(e bundle.CatalogEntry) bool { return strings.HasPrefix(e.Name, "deep") }) {
			t.Error("the catalog contains the template")
		}
		if len(result.Catalog.ModuleTemplates) == 0 {
			t.Error("the catalog does not contain the other templates")
		}
	}
}

func TestModuleReleaseMetaWithTooManyChannelsIsOmitted(t *testing.T) {
	var channels []string
	for i := range 2_100 {
		channels = append(channels, fmt.Sprintf("c%d=1.0.0", i))
	}
	w := usualWorld().template("many", "1.0.0").meta("many", channels...).ask("many", inChannel("c7"))
	w.request.Settings.Autonomy = bundle.AutonomyCatalog
	result := w.resolve(t)
	encoded(t, result)
	if !slices.ContainsFunc(result.State.Offers, func(m bundle.Manifest) bool { return m.Module == "keda" }) {
		t.Error("module keda is not offered")
	}
	if problem := problemOf(result, "many"); !strings.Contains(problem, "spec.channels: 2100 channels, must be at "+
		"most 32") {
		t.Errorf("got problem %q, want the number of channels and the limit", problem)
	}
}

func TestOfferLimitOmitsModulesWithMostChannels(t *testing.T) {
	w := usualWorld()
	for i := range 90 {
		name := fmt.Sprintf("crowd-%d", i)
		w.template(name, "1.0.0")
		var channels []string
		for c := range bundle.MaxChannels {
			channels = append(channels, fmt.Sprintf("c%d=1.0.0", c))
		}
		w.meta(name, channels...)
	}
	w.request.Settings.Autonomy = bundle.AutonomyCatalog
	result := w.resolve(t)
	encoded(t, result)
	var offered []string
	for _, m := range result.State.Offers {
		if m.Module == "keda" {
			offered = append(offered, m.Channel)
		}
	}
	if !slices.Equal(offered, []string{"fast", "regular"}) {
		t.Errorf("got offers of keda in channels %v, want fast and regular", offered)
	}
}

func TestLargeRequestDoesNotDisplaceMandatoryOrInstalledModules(t *testing.T) {
	w := usualWorld().published(t).template("zz-guard", "1.0.0", mandatory, described("zz-guard", "1.0.0"))
	w.sized("zz-guard", "1.0.0", 20<<20)
	for i := range 9 {
		name := fmt.Sprintf("big-%d", i)
		w.template(name, "1.0.0").meta(name, "regular=1.0.0").ask(name).sized(name, "1.0.0", 30<<20)
	}
	result := w.resolve(t)
	encoded(t, result)
	if manifestOf(result, "zz-guard") == nil || manifestOf(result, "keda") == nil {
		t.Errorf("got %v, want zz-guard and keda included", outline(result))
	}
	if problem := problemOf(result, "big-8"); !strings.Contains(problem, "content of 31457280 bytes does not fit") {
		t.Errorf("got problem %q, want the size of the content", problem)
	}
	if !slices.Contains(result.RequestedNames, "big-8") {
		t.Error("a module that does not fit would be removed from the runtime")
	}
}

func TestUpgradeThatExceedsBundleSizeKeepsThePreviousVersion(t *testing.T) {
	w := newWorld()
	for i := range 8 {
		name := fmt.Sprintf("big-%d", i)
		w.template(name, "1.0.0").template(name, "2.0.0").meta(name, "regular=1.0.0", "fast=2.0.0").ask(name)
		w.sized(name, "1.0.0", 30<<20).sized(name, "2.0.0", 32<<20)
	}
	w.template("tiny", "1.0.0").template("tiny", "2.0.0").meta("tiny", "regular=1.0.0", "fast=2.0.0").ask("tiny")
	w.sized("tiny", "1.0.0", 1<<20).sized("tiny", "2.0.0", 1<<20)
	result := w.published(t).channel("fast").resolve(t)
	encoded(t, result)
	if m := manifestOf(result, "big-6"); m == nil || m.Version != "2.0.0" {
		t.Errorf("got %v, want big-6 upgraded", outline(result))
	}
	if m := manifestOf(result, "big-7"); m == nil || m.Version != "1.0.0" || result.Versions["big-7"] != "1.0.0" {
		t.Errorf("got %v, want big-7 at its previous version", outline(result))
	}
	if m := manifestOf(result, "tiny"); m == nil || m.Version != "2.0.0" {
		t.Errorf("got %v, want tiny upgraded", outline(result))
	}
	if problem := problemOf(result, "big-7"); !strings.Contains(problem, "does not fit") {
		t.Errorf("got problem %q, want one about the size", problem)
	}
}

func TestModulesWithTheSameManifestNameConflict(t *testing.T) {
	w := usualWorld().older("a", "sys-a", "regular", "1.0.0").template("kcp-system-a", "1.0.0").
		meta("kcp-system-a", "regular=1.0.0")
	w.ask("kcp-system/a").ask("kcp-system-a")
	result := w.resolve(t)
	encoded(t, result)
	if manifestOf(result, "keda") == nil {
		t.Error("module keda was omitted")
	}
	if problem := problemOf(result, "kcp-system/a"); !strings.Contains(problem,
		"Manifest name kcp-system-a is already used by module kcp-system-a") {
		t.Errorf("got problem %q, want the other module with the Manifest name", problem)
	}
}

func TestLargestTemplatesAreOmittedFromFullCatalog(t *testing.T) {
	w := usualWorld()
	for i := range 12 {
		name := fmt.Sprintf("huge-%d", i)
		w.template(name, "1.0.0", padded(1_400_000)).meta(name, "regular=1.0.0")
	}
	for i := range 80 {
		name := fmt.Sprintf("large-%d", i)
		w.template(name, "1.0.0", padded(250_000)).meta(name, "regular=1.0.0")
	}
	result := w.resolve(t)
	documents := encoded(t, result)
	if len(documents.Catalog.Bytes) > bundle.MaxDocumentBytes {
		t.Errorf("got a catalog of %d bytes, want at most %d", len(documents.Catalog.Bytes), bundle.MaxDocumentBytes)
	}
	var names []string
	for _, e := range result.Catalog.ModuleTemplates {
		names = append(names, e.Name)
	}
	if !slices.Contains(names, "keda-1.0.0") || !slices.Contains(names, "keda-1.1.0") {
		t.Errorf("got catalog templates %v, want the templates of keda included", names)
	}
}

// The test resolves random modules and requests. Agents must be able to read every resulting bundle.
func TestAgentsCanReadEveryResolvedBundle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld().template("keda", "1.0.0", mandatory, described("keda", "1.0.0"))
		for i := range rapid.IntRange(0, 6).Draw(t, "modules") {
			name := fmt.Sprintf("m%d", i)
			depth, padding := rapid.IntRange(0, 90).Draw(t, "depth"),
				rapid.SampledFrom([]int{0, 10, 200_000, 262_000, 2_000_000}).Draw(t, "padding")
			w.template(name, "1.0.0", nested(depth), padded(padding))
			var channels []string
			for c := range rapid.SampledFrom([]int{0, 1, 4, 31, 32, 33, 600}).Draw(t, "channels") {
				channels = append(channels, fmt.Sprintf("c%d=1.0.0", c))
			}
			w.meta(name, append(channels, "regular=1.0.0")...)
			w.sized(name, "1.0.0",
				rapid.SampledFrom([]int64{0, 1 << 20, bundle.MaxLayerBytes, bundle.MaxLayerBytes + 1}).Draw(t, "size"))
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "asked") {
			w.ask(fmt.Sprintf("m%d", i))
		}
		if rapid.Bool().Draw(t, "autonomy") {
			w.request.Settings.Autonomy = bundle.AutonomyCatalog
		}
		w.drawRules(t)
		snapshot, err := catalog.New(w.templates, w.metas)
		if err != nil {
			t.Fatal(err)
		}
		result := Resolve(w.request, snapshot, w.contents)
		encoded(t, result)
		if manifestOf(result, "keda") == nil {
			t.Fatal("the mandatory module was omitted")
		}
		for _, module := range w.request.Requested.Modules {
			if manifestOf(result, module.Name) == nil && problemOf(result, module.Name) == "" {
				t.Fatalf("module %s is not published and has no problem", module.Name)
			}
		}
	})
}

// drawRules draws random settings, windows and checks that pass the publisher's own validation.
func (w *world) drawRules(t *rapid.T) {
	draw := func(name string, counts ...int) int { return rapid.SampledFrom(counts).Draw(t, name) }
	settings := bundle.Settings{Mirrors: map[string]string{}, Autonomy: w.request.Settings.Autonomy}
	for i := range draw("mirrors", 0, 1, 100, 101) {
		settings.Mirrors[fmt.Sprintf("m%d.example", i)] = "mirror.example/" + strings.Repeat("p", draw("path", 1, 100))
	}
	for i := range draw("image paths", 0, 1, 100, 101) {
		settings.ImagePaths = append(settings.ImagePaths, bundle.ImagePath{
			Group: "example.org", Kind: fmt.Sprint("Kind", i), Field: strings.Repeat("a.", draw("steps", 1, 14, 20)) + "image",
		})
	}
	if settings.Check() == nil {
		w.request.Settings = settings
	}
	schedule := &window.Schedule{}
	for range draw("windows", 0, 1, 10, 60) {
		schedule.Windows = append(schedule.Windows, window.Window{
			Days:  rapid.SampledFrom([][]string{{"Mon"}, {"Sat", "Sun"}, {"Someday"}}).Draw(t, "days"),
			Begin: rapid.SampledFrom([]string{"00:00:00+00:00", "23:30:00+02:00", "25:00"}).Draw(t, "begin"),
			End:   rapid.SampledFrom([]string{"04:00:00+00:00", "23:59:59+02:00"}).Draw(t, "end"),
		})
	}
	if len(schedule.Windows) > 0 && schedule.Check() == nil {
		w.request.Maintenance = schedule
	}
	w.request.Gates, w.request.Checks = map[rollout.Track]rollout.Decision{}, map[rollout.Track]rollout.WaveChecks{}
	for i := range rapid.IntRange(0, 6).Draw(t, "checked modules") {
		var checks []v1alpha1.Check
		for c := range draw("checks", 1, 10, 11) {
			checks = append(checks, v1alpha1.Check{Name: fmt.Sprint("c", c), CEL: &v1alpha1.CELCheck{
				APIVersion: "v1", Kind: "ConfigMap",
				Expression: "'" + strings.Repeat("x", draw("expression", 1, 2_046, 2_047)) + "' != ''",
			}})
		}
		if bundle.ValidateChecks(checks, false) == nil {
			track := rollout.Track{Module: fmt.Sprintf("m%d", i), Channel: "regular"}
			w.request.Gates[track] = rollout.Decision{Version: "1.0.0", Checks: 1}
			w.request.Checks[track] = rollout.WaveChecks{Checks: checks, Duration: metav1.Duration{Duration: bundle.MaxCheckFor}}
		}
	}
}
