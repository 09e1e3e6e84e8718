package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

func TestReportedVersionsUseContentFromReportedBundles(t *testing.T) {
	f := newFleet(t)
	keda, mail := inventory.Module{Name: "keda", Version: "1.0.0"}, inventory.Module{Name: "mail", Version: "1.0.0"}
	gone := inventory.Module{Name: "gone", Version: "1.0.0"}
	before := f.publish("berlin", f.installed("keda", "lab/keda:1"), f.installed("mail"))
	f.publish("berlin", f.installed("mail")) // the runtime has not reported this bundle yet
	other := f.publish("munich", f.installed("keda", "lab/keda:1"))
	var rendered atomic.Int32
	options := f.options()
	options.Rendering = func(_ context.Context, q airgap.UsedRequest) ([]string, error) {
		rendered.Add(1)
		if q.Manifest.Module == "mail" {
			return nil, errors.New("no objects")
		}
		return []string{"lab/keda:1", "lab/helper:1"}, nil
	}
	runtimes := []inventory.Runtime{
		{ID: "berlin", Reported: noon, Bundle: before.String(), Modules: []inventory.Module{keda, mail, gone}},
		{ID: "munich", Reported: noon, Bundle: other.String(), Modules: []inventory.Module{keda}},
		{ID: "never"},
	}
	got, err := Contents(t.Context(), options, runtimes)
	f.must(err)
	if want := (inventory.Content{Images: []string{"lab/keda:1", "lab/helper:1"}}); !reflect.DeepEqual(got[keda],
		want) {
		t.Errorf("keda: got %+v, want %+v", got[keda], want)
	}
	if problem := got[mail].Problem; !strings.Contains(problem, "no objects") {
		t.Errorf("mail: got %+v, want the problem of the renderer", got[mail])
	}
	if _, known := got[gone]; known || rendered.Load() != 2 {
		t.Errorf("got content %+v for a version outside the bundle, and %d rendered modules, want 2", got[gone],
			rendered.Load())
	}

	// If one runtime's bundle is refused, Contents reads another runtime's bundle.
	runtimes[0].Bundle = other.String()
	got, err = Contents(t.Context(), options, runtimes)
	f.must(err)
	if len(got[keda].Images) != 2 || got[keda].Problem != "" || !strings.Contains(got[mail].Problem, "runtime berlin") {
		t.Errorf("with a bundle of another runtime: got %+v", got)
	}
}

// The first query on a workstation renders all versions, so it must use all processors.
func TestVersionsAreRenderedConcurrently(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	f := newFleet(t)
	var started atomic.Int32
	both := make(chan struct{})
	options := f.options()
	options.Rendering = func(context.Context, airgap.UsedRequest) ([]string, error) {
		if started.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			return []string{"lab/used:1"}, nil
		case <-time.After(20 * time.Second):
			return nil, errors.New("only one version is rendered at a time")
		}
	}
	keda, mail := inventory.Module{Name: "keda", Version: "1.0.0"}, inventory.Module{Name: "mail", Version: "1.0.0"}
	published := f.publish("berlin", f.installed("keda"), f.installed("mail"))
	got, err := Contents(t.Context(), options, []inventory.Runtime{
		{ID: "berlin", Reported: noon, Bundle: published.String(), Modules: []inventory.Module{keda, mail}},
	})
	f.must(err)
	for _, m := range []inventory.Module{keda, mail} {
		if got[m].Problem != "" || !slices.Contains(got[m].Images, "lab/used:1") {
			t.Errorf("%s: got %+v, want the rendered image", m.Name, got[m])
		}
	}
}

func TestImagesThatDependOnTheRuntimeAreNotHidden(t *testing.T) {
	f := newFleet(t)
	keda, mail := inventory.Module{Name: "keda", Version: "1.0.0"}, inventory.Module{Name: "mail", Version: "1.0.0"}
	mailer := f.installed("mail")
	mailer.Annotations = map[string]string{v1beta2.AnnotationUsesValues: "region"}
	mailer.Spec.Config = &v1beta2.ImageSpec{}
	options := f.options()
	options.Rendering = func(_ context.Context, q airgap.UsedRequest) ([]string, error) {
		switch {
		case q.Manifest.Module == "mail":
			return []string{"lab/mail-" + q.Values["region"] + ":1"}, nil
		case q.KubernetesVersion == "v9.0.0":
			return nil, errors.New("the chart requires an older Kubernetes")
		}
		return []string{"lab/keda-" + q.KubernetesVersion + ":1"}, nil
	}
	var runtimes []inventory.Runtime
	for i, r := range []struct{ kubernetes, region string }{{"v1.33.0", "eu"}, {"v1.34.0", "us"}, {"v9.0.0", "us"}} {
		id := string(rune('a' + i))
		f.values = bundle.Values{"region": r.region}
		runtimes = append(runtimes, inventory.Runtime{
			ID: id, Reported: noon, Bundle: f.publish(id, f.installed("keda"), mailer).String(), Kubernetes: r.kubernetes,
			Modules: []inventory.Module{keda, mail},
		})
	}
	contents, err := Contents(t.Context(), options, runtimes)
	f.must(err)
	got := inventory.New(runtimes, contents)
	holders := map[string]string{}
	for _, image := range got.Images {
		for _, h := range image.Uses[0].Runtimes {
			holders[image.Reference] += h.Runtime
		}
	}
	want := map[string]string{
		"lab/keda-v1.33.0:1": "ac", "lab/keda-v1.34.0:1": "b", "lab/mail-eu:1": "abc", "lab/mail-us:1": "abc",
	}
	if !reflect.DeepEqual(holders, want) {
		t.Errorf("got runtimes %v by image, want %v", holders, want)
	}
	if len(got.Unknown) != 2 || !strings.Contains(got.Unknown[0].Problem, "with Kubernetes \"v9.0.0\"") ||
		!strings.Contains(got.Unknown[1].Problem, "values of the runtimes (region)") {
		t.Errorf("got unknown versions %+v, want the Kubernetes version and the value", got.Unknown)
	}
}

func TestRuntimesCannotCauseUnlimitedRenderings(t *testing.T) {
	f := newFleet(t)
	var renderings atomic.Int32
	options := f.options()
	options.Rendering = func(context.Context, airgap.UsedRequest) ([]string, error) {
		renderings.Add(1)
		return []string{"lab/keda:1"}, nil
	}
	keda := inventory.Module{Name: "keda", Version: "1.0.0"}
	published := f.publish("berlin", f.installed("keda")).String()
	var runtimes []inventory.Runtime
	for i := range maxKubernetesVersions + 10 {
		runtimes = append(runtimes, inventory.Runtime{
			ID: "berlin", Bundle: published, Kubernetes: fmt.Sprintf("v1.36.%d", i), Modules: []inventory.Module{keda},
		})
	}
	got, err := Contents(t.Context(), options, runtimes)
	f.must(err)
	problem := fmt.Sprintf("report %d Kubernetes versions", len(runtimes))
	if renderings.Load() != maxKubernetesVersions || !strings.Contains(got[keda].Problem, problem) {
		t.Errorf("got %d renderings and problem %q", renderings.Load(), got[keda].Problem)
	}
}

func TestRenderedImagesAreCachedAcrossCommands(t *testing.T) {
	f := newFleet(t)
	keda := inventory.Module{Name: "keda", Version: "1.0.0"}
	published := f.publish("berlin", f.installed("keda"))
	runtimes := []inventory.Runtime{
		{ID: "berlin", Reported: noon, Bundle: published.String(), Modules: []inventory.Module{keda}},
	}
	rendered := 0
	dir := filepath.Join(t.TempDir(), "images")
	read := func(cache UsedCache) {
		t.Helper()
		options := f.options()
		options.UsedCache = cache
		options.Rendering = func(context.Context, airgap.UsedRequest) ([]string, error) {
			rendered++
			return []string{"lab/keda:1"}, nil
		}
		got, err := Contents(t.Context(), options, runtimes)
		f.must(err)
		if want := []string{"lab/keda:1"}; !slices.Equal(got[keda].Images, want) {
			t.Errorf("got images %v, want %v", got[keda].Images, want)
		}
	}
	damage := func(text string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		f.must(err)
		for _, e := range entries {
			f.must(os.WriteFile(filepath.Join(dir, e.Name()), []byte(text), 0o600))
		}
	}
	same := UsedCache{Dir: dir, Renderer: "skr-agent 1"}
	for _, step := range []struct {
		name  string
		cache UsedCache
		first func()
		want  int
	}{
		{"first command", same, nil, 1},
		{"second command", same, nil, 1},
		{"command with another renderer", UsedCache{Dir: dir, Renderer: "skr-agent 2"}, nil, 2},
		{"command without a cache", UsedCache{}, nil, 3},
		{"damaged cache entry", same, func() { damage("[") }, 4},
		{"repaired cache entry", same, nil, 4},
		{"cache entry before its expiry", same, func() { same.Prune(time.Now().Add(maxUsedAge - time.Hour)) }, 4},
		{"expired cache entry", same, func() { same.Prune(time.Now().Add(maxUsedAge + time.Hour)) }, 5},
	} {
		if step.first != nil {
			step.first()
		}
		if read(step.cache); rendered != step.want {
			t.Errorf("after %s: %d renderings, want %d", step.name, rendered, step.want)
		}
	}
}
