package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// untilSeen waits until the runtime's catalog contains exactly these ModuleTemplates.
func untilSeen(t *testing.T, r *fleet.Runtime, names ...string) {
	t.Helper()
	until(t, 30*time.Second, r.ID+" sees "+strings.Join(names, ", "), func() (bool, string) {
		var templates v1beta2.ModuleTemplateList
		if err := r.API.List(t.Context(), &templates, client.InNamespace(v1beta2.RuntimeNamespace)); err != nil {
			return false, err.Error()
		}
		var seen []string
		for _, m := range templates.Items {
			seen = append(seen, m.Name)
		}
		slices.Sort(seen)
		return slices.Equal(seen, names), strings.Join(seen, ", ")
	})
}

func labelKyma(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, label, value string) {
	t.Helper()
	kyma, err := r.Record(t.Context())
	must(t, err)
	before := kyma.DeepCopy()
	if value == "" {
		delete(kyma.Labels, label)
	} else {
		kyma.Labels[label] = value
	}
	must(t, f.Control.Patch(t.Context(), kyma, client.MergeFrom(before)))
}

func TestCatalogFollowsModuleVisibility(t *testing.T) {
	suite.Long(t) // the short suite runs TestModuleIsOfferedOnlyToAllowedKymas and TestHiddenModuleIsRemoved
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"mailer": "1.0.0"})
	oldScaler, newScaler, mailer := f.Own("scaler")+"-1.7.0", f.Own("scaler")+"-1.8.0", f.Own("mailer")+"-1.0.0"
	untilSeen(t, r, mailer, oldScaler, newScaler)
	release := &v1beta2.ModuleReleaseMeta{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: f.Own("scaler")},
	}
	change(t, f.Control, release, func(release *v1beta2.ModuleReleaseMeta) { release.Spec.Beta = true })
	untilSeen(t, r, mailer)
	labelKyma(t, f, r, v1beta2.LabelBeta, v1beta2.True)
	untilSeen(t, r, mailer, oldScaler, newScaler)
	must(t, f.Control.Delete(ctx, scaler(f, "1.8.0").Template()))
	untilSeen(t, r, mailer, oldScaler)
	checkVisibility(t, f, r)
	labelKyma(t, f, r, v1beta2.LabelSync, v1beta2.False)
	untilSeen(t, r)
}

// checkVisibility restricts the installed module mailer to beta Kymas, and removes and adds the Kyma's beta label.
func checkVisibility(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) {
	t.Helper()
	ctx := t.Context()
	template := mailer(f, "1.0.0").Template()
	must(t, f.Control.Patch(ctx, template,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+v1beta2.LabelBeta+`":"true"}}}`))))
	labelKyma(t, f, r, v1beta2.LabelBeta, v1beta2.False)
	until(t, 30*time.Second, "mailer is uninstalled, and the Kyma reports the reason", func() (bool, string) {
		kyma, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		gone := apierrors.IsNotFound(r.API.Get(ctx, inKyma("mailer"), &appsv1.Deployment{}))
		reported := slices.ContainsFunc(kyma.Status.Modules, func(m v1beta2.ModuleStatus) bool {
			return m.Name == f.Own("mailer") && m.State == v1beta2.StateError &&
				strings.Contains(m.Message, "module template not allowed")
		})
		return gone && reported && kyma.Status.State == v1beta2.StateError,
			fmt.Sprintf("gone %t, Kyma %s, modules %+v", gone, kyma.Status.State, kyma.Status.Modules)
	})
	untilSeen(t, r)
	labelKyma(t, f, r, v1beta2.LabelBeta, v1beta2.True)
	until(t, 30*time.Second, "mailer is installed again", func() (bool, string) {
		kyma, err := r.Record(ctx)
		return err == nil && kyma.Status.State == v1beta2.StateReady &&
			r.API.Get(ctx, inKyma("mailer"), &appsv1.Deployment{}) == nil, fmt.Sprint(err, kyma)
	})
	untilSeen(t, r, f.Own("mailer")+"-1.0.0", f.Own("scaler")+"-1.7.0")
}

func TestMandatoryModulesAreAddedAndRemoved(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherRights: []string{"publisher.yaml", "finalizers.yaml"}})
	watch := sample.Version{
		Module: "watchdog", Version: "1.0.0",
		Manifest: strings.ReplaceAll(sample.Mailer("1.0.0").Manifest, "mailer", "watchdog"), Manager: "watchdog",
	}
	must(t, f.Offer(ctx, watch))
	mandatory := sample.Release("watchdog", watch.Component())
	mandatory.Spec.Mandatory = &v1beta2.Mandatory{Version: "1.0.0"}
	// lifecycle-manager set this finalizer.
	mandatory.Finalizers = []string{v1beta2.LifecycleManagerFinalizerMandatory}
	must(t, f.Control.Create(ctx, mandatory))
	left := &v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sample.Namespace, Name: "other-watchdog",
			Labels: map[string]string{v1beta2.LabelModuleName: "watchdog"},
		},
	}
	left.Spec.Install.Source.Raw = []byte("{}")
	must(t, f.Control.Create(ctx, left))
	leaving := watcher("leaving", "", "configmaps", bundle.FieldSpec)
	leaving.Finalizers = []string{v1beta2.LifecycleManagerFinalizerWatcher}
	must(t, f.Control.Create(ctx, leaving))
	r := runtimeWith(t, f, "one", map[string]string{"mailer": "1.0.0"})
	must(t, r.API.Get(ctx, inKyma("watchdog"), &appsv1.Deployment{}))
	kyma, err := r.Record(ctx)
	must(t, err)
	for _, m := range kyma.Status.Modules {
		if m.Name == "watchdog" {
			t.Errorf("the status lists the mandatory module: %+v", m)
		}
	}
	untilSeen(t, r, "mailer-1.0.0", "scaler-1.7.0", "scaler-1.8.0")
	must(t, f.Control.Delete(ctx, mandatory))
	must(t, r.UntilGone(ctx, "watchdog"))
	if err := r.API.Get(ctx, inKyma("watchdog"), &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("the mandatory module's Deployment is not deleted: %v", err)
	}

	t.Log("Finalizers of lifecycle-manager do not block deletion once no Manifest of the module exists.")
	gone := func(object client.Object) {
		t.Helper()
		until(t, 30*time.Second, object.GetName()+" is deleted", func() (bool, string) {
			err := f.Control.Get(ctx, client.ObjectKeyFromObject(object), object)
			return apierrors.IsNotFound(err), fmt.Sprint(err, object.GetFinalizers())
		})
	}
	must(t, f.Control.Delete(ctx, leaving))
	gone(leaving)
	untilEvent(t, f, mandatory.Name, v1beta2.ReasonFinalizerKept, "other-watchdog")
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(mandatory), mandatory))
	must(t, f.Control.Delete(ctx, left))
	gone(mandatory)
}

func TestAgentSkipsLabeledObjects(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	manifest := &v1beta2.Manifest{}
	must(t, r.API.Get(ctx, inKyma(f.Own("scaler")), manifest))
	before := manifest.DeepCopy()
	manifest.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
	must(t, r.API.Patch(ctx, manifest, client.MergeFrom(before)))
	drift(t, r)
	promote(t, f, "1.8.0")
	until(t, 30*time.Second, "the Manifest in the runtime has the new version", func() (bool, string) {
		must(t, r.API.Get(ctx, inKyma(f.Own("scaler")), manifest))
		return manifest.Spec.Version == "1.8.0", manifest.Spec.Version
	})
	if config, err := settings(ctx, r); err != nil || config.Data["level"] != "debug" ||
		config.Data["version"] != "1.7.0" {
		t.Errorf("the agent applied a skipped Manifest: %v, %v", config.Data, err)
	}
	must(t, r.API.Get(ctx, inKyma(f.Own("scaler")), manifest))
	before = manifest.DeepCopy()
	delete(manifest.Labels, v1beta2.LabelSkipReconciliation)
	must(t, r.API.Patch(ctx, manifest, client.MergeFrom(before)))
	must(t, r.UntilState(ctx, f.Own("scaler"), "1.8.0", v1beta2.StateReady))

	labelKyma(t, f, r, v1beta2.LabelSkipReconciliation, v1beta2.True)
	kyma, err := r.Record(ctx)
	must(t, err)
	published := kyma.Status.Runtime.Published.Sequence
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Channel = "fast" }))
	labelKyma(t, f, r, v1beta2.LabelSkipReconciliation, "")
	until(t, 30*time.Second, "the module is installed after the skip label is removed", func() (bool, string) {
		kyma, err := r.Record(ctx)
		return err == nil && kyma.Status.ActiveChannel == "fast" && kyma.Status.Runtime.Published.Sequence > published,
			fmt.Sprintf("%v %+v", err, kyma.Status.Runtime)
	})

	labelKyma(t, f, r, v1beta2.LabelSkipReconciliation, v1beta2.True)
	kyma, err = r.Record(ctx)
	must(t, err)
	must(t, f.Control.Delete(ctx, kyma))
	until(t, 30*time.Second, "the deleted Kyma is removed despite its skip label", func() (bool, string) {
		_, err := r.Record(ctx)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}
