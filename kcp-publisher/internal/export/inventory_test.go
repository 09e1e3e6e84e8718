package export

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

func TestContentsOfReportedVersionsComeFromTheReportedBundles(t *testing.T) {
	f := newFleet(t)
	keda, mail := inventory.Module{Name: "keda", Version: "1.0.0"}, inventory.Module{Name: "mail", Version: "1.0.0"}
	gone := inventory.Module{Name: "gone", Version: "1.0.0"}
	before := f.publish("berlin", f.installed("keda", "lab/keda:1"), f.installed("mail"))
	f.publish("berlin", f.installed("mail")) // the runtime has not reported this bundle
	other := f.publish("munich", f.installed("keda", "lab/keda:1"))
	rendered := 0
	options := f.options()
	options.Rendering = func(_ context.Context, q airgap.UsedRequest) ([]string, error) {
		rendered++
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
	if _, known := got[gone]; known || rendered != 2 {
		t.Errorf("got content %+v for a version outside the bundle, and %d rendered modules, want 2", got[gone],
			rendered)
	}

	// If the bundle of one runtime is refused, Contents reads the bundle of another runtime.
	runtimes[0].Bundle = other.String()
	got, err = Contents(t.Context(), options, runtimes)
	f.must(err)
	if len(got[keda].Images) != 2 || got[keda].Problem != "" || !strings.Contains(got[mail].Problem, "runtime berlin") {
		t.Errorf("with a bundle of another runtime: got %+v", got)
	}
}
