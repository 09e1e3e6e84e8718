package scenario

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/guides"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// definitions is a control plane whose CRDs are upgraded and rolled back according to
// docs/guides/upgrade-and-skew.md.
type definitions struct {
	t      *testing.T
	f      *fleet.Fleet
	berlin *fleet.Simulated
	s      shell
	blocks map[string][]guides.Block
}

// follow runs the guide's blocks with this name. It uses the charts from a commit, or the current charts if commit is
// "".
func (d *definitions) follow(name, commit string) {
	d.t.Helper()
	folder := map[string]string{"definitions": "charts", "definitions-back": "older"}[name]
	if folder != "" {
		must(d.t, os.RemoveAll(filepath.Join(d.s.dir, folder)))
		if commit == "" {
			must(d.t, os.CopyFS(filepath.Join(d.s.dir, folder), os.DirFS(filepath.Join(checkout, "charts"))))
		} else {
			must(d.t, fleet.ChartsAt(d.t.Context(), commit, filepath.Join(d.s.dir, folder)))
		}
	}
	if len(d.blocks[name]) == 0 {
		d.t.Fatalf("docs/guides/upgrade-and-skew.md has no commands for %s", name)
	}
	for _, block := range d.blocks[name] {
		if block.Check {
			checkStep(d.t, d.s, block)
			continue
		}
		d.s.run(block.Script)
	}
}

// publish replaces the running publisher with the publisher from other binaries.
func (d *definitions) publish(programs fleet.Binaries) {
	d.t.Helper()
	must(d.t, d.f.Publisher().Stop())
	d.f.Use(fleet.Binaries{Publisher: programs.Publisher})
	must(d.t, d.f.StartPublisher())
}

// checkModuleChanges adds or removes module mailer as the runtime's admin, and waits until the control plane and the
// runtime show this change.
func (d *definitions) checkModuleChanges(mailer bool) {
	d.t.Helper()
	must(d.t, d.berlin.Edit(func(spec *v1beta2.KymaSpec) {
		spec.Modules = spec.Modules[:1]
		if mailer {
			spec.Modules = append(spec.Modules, v1beta2.Module{
				Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
			})
		}
	}))
	until(d.t, time.Minute, fmt.Sprintf("control plane and runtime have mailer: %t", mailer), func() (bool, string) {
		kyma, err := d.berlin.Record(d.t.Context())
		if err != nil {
			return false, err.Error()
		}
		_, digest, _ := d.berlin.Bundle()
		m := moduleOf(kyma, "mailer")
		r := kyma.Status.Runtime
		ok := (d.berlin.Has("mailer") != "") == mailer && (m.State == v1beta2.StateReady) == mailer &&
			d.berlin.Has("scaler") == "1.8.0" && moduleOf(kyma, "scaler").Version == "1.8.0" &&
			kyma.Status.State == v1beta2.StateReady &&
			r != nil && r.Published != nil && r.Published.Digest == digest.String()
		return ok, fmt.Sprintf("%v, trouble %v, %+v", d.berlin.All(), d.berlin.LastError(), kyma.Status)
	})
}

// userFields returns the fields of stored objects that users wrote, and a rollout's status.
func (d *definitions) userFields() map[string]any {
	d.t.Helper()
	all := map[string]any{}
	for _, kind := range []string{"Kyma", "ModuleTemplate", "ModuleReleaseMeta", "RolloutPolicy", "Rollout"} {
		apiVersion := v1beta2.GroupVersion.String()
		if kind == "RolloutPolicy" || kind == "Rollout" {
			apiVersion = v1alpha1.GroupVersion.String()
		}
		list := emptyList(apiVersion, kind)
		must(d.t, d.f.Control.List(d.t.Context(), list, client.InNamespace(sample.Namespace)))
		for _, o := range list.Items {
			name := kind + " " + o.GetName()
			all[name] = o.Object["spec"]
			if kind == "Rollout" {
				state, _, err := unstructured.NestedString(o.Object, "status", "state")
				must(d.t, err)
				all[name+" state"] = state
			}
		}
	}
	return all
}

func (d *definitions) wantAsked(want map[string]any) {
	d.t.Helper()
	if got := d.userFields(); !reflect.DeepEqual(got, want) {
		d.t.Errorf("stored objects are\n%s\nwant\n%s", document(d.t, got), document(d.t, want))
	}
}

// untilNothingIsWritten waits until the Kyma has not changed for two seconds. A publisher that reads its own write as a
// difference would write forever.
func (d *definitions) untilNothingIsWritten() {
	d.t.Helper()
	version, since := "", time.Now()
	until(d.t, time.Minute, "the publisher writes nothing for two seconds", func() (bool, string) {
		kyma, err := d.berlin.Record(d.t.Context())
		must(d.t, err)
		if kyma.ResourceVersion != version {
			version, since = kyma.ResourceVersion, time.Now()
		}
		return time.Since(since) > 2*time.Second, version
	})
}

// Programs from the oldest supported release and the current programs take turns on the same stored objects.
func TestUpgradeGuideUpgradesAndRollsBackCRDs(t *testing.T) {
	suite.Long(t)
	oldest := releases(t)[0].commit
	before := programsAt(t, oldest)
	today, err := fleet.Build()
	must(t, err)
	f := newFleet(t, fleet.Options{})
	d := &definitions{t: t, f: f, blocks: guide(t, "upgrade-and-skew.md")}
	d.s = newShell(t, t.TempDir(), today, "kcp.kubeconfig", filepath.Join(f.Dir, "kcp.kubeconfig"))

	// Other tests run the Helm commands and the conversion commands.
	names := slices.Sorted(maps.Keys(d.blocks))
	want := []string{
		"convert", "definitions", "definitions-back", "definitions-copy", "definitions-stored", "former-content",
		"releases", "releases-back",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the guide has commands for %v, but tests run %v", names, want)
	}

	t.Log("the CRDs and the publisher have the version of the oldest release")
	must(t, f.Publisher().Stop())
	d.follow("definitions-back", oldest)
	f.Use(fleet.Binaries{Publisher: before.Publisher})
	must(t, f.StartPublisher())
	d.berlin, err = f.Simulate(t.Context(), fleet.NewKyma("berlin", "regular", "scaler"))
	must(t, err)
	untilSettled(t, d.berlin, "1.7.0")
	must(t, f.CreatePolicy(t.Context(), "scaler", v1alpha1.Course{
		Waves: []v1alpha1.Wave{{Name: "all", Percent: new(int32(100))}},
	}))
	promote(t, f, "1.8.0")
	must(t, f.UntilRollout(t.Context(), firstRollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	d.checkModuleChanges(true)
	stored := d.userFields()

	t.Log("the CRDs are not upgraded: the current publisher works with the older CRDs and sends no additional " +
		"writes")
	d.publish(today)
	d.checkModuleChanges(false)
	d.untilNothingIsWritten()
	d.follow("definitions", "")
	d.wantAsked(stored)
	d.checkModuleChanges(true)
	d.follow("definitions-stored", "")

	t.Log("the programs and then the CRDs are rolled back")
	d.follow("definitions-copy", "")
	d.publish(before)
	d.checkModuleChanges(false)
	d.follow("definitions-back", oldest)
	d.checkModuleChanges(true)
	d.wantAsked(stored)
}
