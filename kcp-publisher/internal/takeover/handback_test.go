package takeover

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// releasedKyma returns a Kyma whose runtime has released its modules in the given versions.
func releasedKyma(versions map[string]string) *v1beta2.Kyma {
	kyma := kymaNamed("one")
	kyma.Labels[v1beta2.LabelTakeover], kyma.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.TakeoverActive,
		v1beta2.True
	kyma.Annotations = map[string]string{v1beta2.AnnotationTakeoverPhase: string(bundle.TakeoverRelease)}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		Published: &v1beta2.PublishedBundle{Versions: versions},
		Requested: &v1beta2.RequestedSpec{Spec: v1beta2.KymaSpec{Channel: "regular"}},
		Takeover: &v1beta2.TakeoverStatus{
			Published: string(bundle.TakeoverRelease), Done: string(bundle.TakeoverRelease),
		},
	}
	for name, version := range versions {
		kyma.Status.Modules = append(kyma.Status.Modules, v1beta2.ModuleStatus{
			Name: name, Version: version, Channel: "regular", State: v1beta2.StateUnmanaged,
		})
		kyma.Status.Runtime.Requested.Spec.Modules = append(kyma.Status.Runtime.Requested.Spec.Modules,
			v1beta2.Module{Name: name, Managed: true})
	}
	return kyma
}

func TestAbortContinuesWithRunningVersions(t *testing.T) {
	inSlow := func(k *v1beta2.Kyma) *v1beta2.Kyma {
		k.Status.Runtime.Requested.Spec.Modules[0].Channel = "slow"
		return k
	}
	manual := func(k *v1beta2.Kyma) *v1beta2.Kyma {
		k.Status.Runtime.Requested.Spec.Modules[0].Managed = false
		return k
	}
	unsynced := func(k *v1beta2.Kyma) *v1beta2.Kyma {
		k.Labels[v1beta2.LabelSync] = v1beta2.False
		k.Spec.Modules = []v1beta2.Module{{Name: "keda", Managed: true}}
		return k
	}
	inSlowBefore := func(m *v1beta2.Manifest) { m.Labels[v1beta2.LabelChannel] = "slow" }
	recording := func(k *v1beta2.Kyma) *v1beta2.Kyma {
		if k.Status.Runtime == nil {
			k.Status.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{}}
		}
		k.Status.Runtime.Takeover = &v1beta2.TakeoverStatus{Modules: []v1beta2.InheritedModule{
			{Name: "keda", Version: "1.7.0", Channel: "regular"}, {Name: "mail", Version: "1.0.0", Unmanaged: true},
		}}
		return k
	}
	unnamed := func(m *v1beta2.Manifest) { delete(m.Labels, v1beta2.LabelModuleName) }
	mandatory := func(m *v1beta2.Manifest) { m.Labels[v1beta2.LabelMandatoryModule] = v1beta2.True }
	for name, c := range map[string]struct {
		kyma      *v1beta2.Kyma
		manifests []v1beta2.Manifest
		entry     string // entries of keda and mail
		behind    string
		refused   string
	}{
		"module was not upgraded": {
			releasedKyma(map[string]string{"keda": "1.7.0"}), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
			"1.7.0 Ready Manifest one-keda ModuleTemplate keda-1.7.0", "", ""},
		"runtime never reported": {
			kymaNamed("one"), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
			"1.7.0 Ready Manifest one-keda ModuleTemplate keda-1.7.0", "", ""},
		"upgraded module with an outdated Manifest": {
			releasedKyma(map[string]string{"keda": "1.8.0"}), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
			"1.8.0 Ready Manifest one-keda ModuleTemplate keda-1.8.0", "1.8.0", ""},
		"channel changed during the takeover": {
			releasedKyma(map[string]string{"keda": "1.8.0"}),
			[]v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", inSlowBefore)},
			"1.8.0 Ready Manifest one-keda ModuleTemplate keda-1.8.0", "1.8.0", ""},
		"outdated Manifest, channel with a newer version": {
			releasedKyma(map[string]string{"keda": "1.7.0"}), []v1beta2.Manifest{manifestOf("one", "keda", "1.6.0")},
			"1.7.0 Ready Manifest one-keda ModuleTemplate keda-1.7.0", "1.7.0", ""},
		"Manifest has a newer version": {
			releasedKyma(map[string]string{"keda": "1.7.0"}), []v1beta2.Manifest{manifestOf("one", "keda", "1.8.0")},
			"1.7.0 Ready Manifest one-keda ModuleTemplate keda-1.7.0", "", ""},
		"channel with an older version": {
			inSlow(releasedKyma(map[string]string{"keda": "1.8.0"})),
			[]v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
			"1.8.0 Ready Manifest one-keda ModuleTemplate keda-1.8.0", "",
			`module keda runs in version 1.8.0, Manifest kcp-system/one-keda has 1.7.0, and channel "slow" has 1.6.0: lifecycle-manager would downgrade it to 1.7.0; first make 1.8.0 or newer available there`},
		"runtime that cannot request modules requests another channel": {
			unsynced(inSlow(releasedKyma(map[string]string{"keda": "1.8.0"}))),
			[]v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
			"1.8.0 Ready Manifest one-keda ModuleTemplate keda-1.8.0", "1.8.0", ""},
		"running version is newer than the channel": {
			releasedKyma(map[string]string{"keda": "9.0.0"}), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
			"9.0.0 Ready Manifest one-keda ModuleTemplate keda-9.0.0", "",
			`channel "regular" has 1.8.0: lifecycle-manager would downgrade it to 1.7.0`},
		"Manifest without a version": {
			releasedKyma(map[string]string{"keda": "1.7.0"}), []v1beta2.Manifest{manifestOf("one", "keda", "")},
			"1.7.0 Ready Manifest one-keda ModuleTemplate keda-1.7.0", "1.7.0", ""},
		"Manifest without a version, channel with an older version": {
			inSlow(releasedKyma(map[string]string{"keda": "1.8.0"})), []v1beta2.Manifest{manifestOf("one", "keda", "")},
			"1.8.0 Ready Manifest one-keda ModuleTemplate keda-1.8.0", "",
			`module keda runs in version 1.8.0, Manifest kcp-system/one-keda has no version, and channel "slow" ` +
				`has 1.6.0: lifecycle-manager would downgrade it; first make 1.8.0 or newer available there`},
		"Manifest without a version, runtime that never reported": {
			kymaNamed("one"), []v1beta2.Manifest{manifestOf("one", "keda", "")},
			" Ready Manifest one-keda ModuleTemplate keda-", "", ""},
		"Manifest is being deleted": {
			releasedKyma(map[string]string{"keda": "1.8.0"}), []v1beta2.Manifest{
				manifestOf("one", "keda", "1.7.0", deleted),
			},
			"1.8.0 Ready Manifest one-keda ModuleTemplate keda-1.8.0", "", ""},
		"module added during the takeover": {
			releasedKyma(map[string]string{"keda": "1.8.0"}), nil, "1.8.0 Processing ModuleTemplate keda-1.8.0", "",
			""},
		"unmanaged module": {
			manual(releasedKyma(map[string]string{"keda": "1.7.0"})), nil, "1.7.0 Unmanaged", "", ""},
		"unmanaged module, runtime that never reported": {
			kymaNamed("one", v1beta2.ModuleStatus{Name: "mail", Version: "1.0.0", State: v1beta2.StateUnmanaged}), nil,
			"1.0.0 Unmanaged", "", ""},
		"modules only in the record, runtime that never reported": {
			recording(kymaNamed("one")), nil, "1.7.0 Processing ModuleTemplate keda-1.7.0 | 1.0.0 Unmanaged", "", ""},
		"version only in the record, Manifest without a version": {
			recording(kymaNamed("one")), []v1beta2.Manifest{manifestOf("one", "keda", "")},
			"1.7.0 Ready Manifest one-keda ModuleTemplate keda-1.7.0 | 1.0.0 Unmanaged", "1.7.0", ""},
		"version in the record is newer than in the Manifest": {
			recording(kymaNamed("one")), []v1beta2.Manifest{manifestOf("one", "keda", "1.6.0")},
			"1.7.0 Ready Manifest one-keda ModuleTemplate keda-1.7.0 | 1.0.0 Unmanaged", "1.7.0", ""},
		"recorded modules that the Kyma no longer requests": {recording(releasedKyma(nil)), nil, "", "", ""},
		"Manifest without a module name": {
			releasedKyma(nil), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", unnamed)}, "", "",
			"Manifest kcp-system/one-keda does not name its module: add the label operator.kyma-project.io/module-name"},
		"Manifest without a module name is being deleted": {
			releasedKyma(nil), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", unnamed, deleted)}, "", "", ""},
		"module removed during the takeover stays in the status": {
			releasedKyma(nil), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
			"1.7.0 Ready Manifest one-keda ModuleTemplate keda-1.7.0", "", ""},
		"mandatory module is not in the status": {
			releasedKyma(nil), []v1beta2.Manifest{manifestOf("one", "guard", "1.1.0", mandatory)}, "", "", ""},
		"mandatory module with an outdated Manifest": {
			releasedKyma(nil), []v1beta2.Manifest{manifestOf("one", "guard", "1.0.0", mandatory)}, "", "1.1.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandback(c.kyma, c.manifests, offering(t))
			var entries []string
			for _, m := range h.Modules {
				entry := m.Version + " " + string(m.State)
				for _, o := range []*v1beta2.TrackingObject{m.Manifest, m.Template} {
					if o != nil {
						entry += " " + o.Kind + " " + o.PartialMeta.Name
					}
				}
				entries = append(entries, entry)
			}
			if entry := strings.Join(entries, " | "); entry != c.entry {
				t.Errorf("got entry %q, want %q", entry, c.entry)
			}
			behind := ""
			for _, version := range h.Behind {
				behind += version
			}
			if behind != c.behind {
				t.Errorf("got Manifests behind %v, want %q", h.Behind, c.behind)
			}
			if err := h.refusal(); (err == nil) != (c.refused == "") ||
				err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("got error %v, want %q", err, c.refused)
			}
			again := c.kyma.DeepCopy()
			again.Status = returnedStatus(again.Status, h)
			if second := newHandback(again, c.manifests, offering(t)); !reflect.DeepEqual(second, h) {
				t.Errorf("after the status was written: got %+v, want %+v", second, h)
			}
		})
	}
}

func TestStatusAfterAbortContainsNoPublisherFields(t *testing.T) {
	before := releasedKyma(map[string]string{"keda": "1.7.0"}).Status
	before.ReadyModules, before.ObservedGeneration, before.LastHandledReconcileAt = "0/1", 3, "now"
	for _, kind := range []string{v1beta2.ConditionReporting, v1beta2.ConditionAccepted, v1beta2.ConditionReady,
		v1beta2.ConditionModules, "CRDsSync"} {
		before.Conditions = append(before.Conditions, metav1.Condition{Type: kind})
	}
	after := returnedStatus(before, Handback{})
	var kinds []string
	for _, c := range after.Conditions {
		kinds = append(kinds, c.Type)
	}
	if want := []string{v1beta2.ConditionModules, "CRDsSync"}; !slices.Equal(kinds, want) {
		t.Errorf("got conditions %q, want %q", kinds, want)
	}
	if after.Runtime != nil || after.ReadyModules != "" || after.ObservedGeneration != 0 ||
		after.LastHandledReconcileAt != "" {
		t.Errorf("got status %+v, want no fields of the publisher", after)
	}
}

func TestAbortKeepsTheSkipLabelOfOutdatedManifests(t *testing.T) {
	ctx := t.Context()
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	skipped := func(m *v1beta2.Manifest) { m.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True }
	changed := func(m *v1beta2.Manifest) { m.Labels[v1beta2.LabelChannel] = "slow" }
	kyma := releasedKyma(map[string]string{"keda": "1.8.0", "mail": "1.0.0"})
	old, current := manifestOf("one", "keda", "1.7.0", skipped, changed), manifestOf("one", "mail", "1.0.0", skipped)
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(kyma).WithObjects(kyma, &old, &current).
		Build()
	read := func() (*v1beta2.Kyma, map[string]bool) {
		t.Helper()
		now := &v1beta2.Kyma{}
		var all v1beta2.ManifestList
		if err := errors.Join(api.Get(ctx, client.ObjectKeyFromObject(kyma), now), api.List(ctx, &all)); err != nil {
			t.Fatal(err)
		}
		skips := map[string]bool{}
		for _, m := range all.Items {
			skips[m.Name] = m.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True
		}
		return now, skips
	}

	t.Log("lifecycle-manager can reconcile the Kyma but not the outdated Manifest")
	now, _ := read()
	var behind *BehindError
	_, err := GiveBack(ctx, api, now, offering(t))
	if !errors.As(err, &behind) ||
		err.Error() != "waiting for lifecycle-manager to update Manifest kcp-system/one-keda to version 1.8.0" {
		t.Fatalf("got %v, want a BehindError", err)
	}
	now, skips := read()
	if Phase(now) != PhaseReturn || len(now.Labels) != 1 || now.Status.Runtime != nil || len(now.Status.Modules) != 2 {
		t.Errorf("got Kyma %+v, want phase return with a new status", now)
	}
	if want := map[string]bool{"one-keda": true, "one-mail": false}; !reflect.DeepEqual(skips, want) {
		t.Errorf("got skipped Manifests %v, want %v", skips, want)
	}

	t.Log("the outdated Manifest keeps the label if the runtime then requests a channel with an older version")
	now.Status.Modules[0].Channel = "slow"
	if err := api.Status().Update(ctx, now); err != nil {
		t.Fatal(err)
	}
	if _, err := GiveBack(ctx, api, now, offering(t)); err == nil ||
		!strings.Contains(err.Error(), "would downgrade it to 1.7.0") {
		t.Errorf("got %v, want an error about the downgrade", err)
	}
	if now, skips = read(); Phase(now) != PhaseReturn || !skips["one-keda"] {
		t.Errorf("got Kyma %+v and skipped Manifests %v, want phase return and a skipped Manifest", now, skips)
	}

	t.Log("lifecycle-manager can reconcile all objects after it updated the Manifest")
	updated := &v1beta2.Manifest{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(&old), updated); err != nil {
		t.Fatal(err)
	}
	updated.Spec.Version = "1.8.0"
	if err := api.Update(ctx, updated); err != nil {
		t.Fatal(err)
	}
	if _, err := GiveBack(ctx, api, now, offering(t)); err != nil {
		t.Fatal(err)
	}
	now, skips = read()
	if Phase(now) != PhaseNone || len(now.Annotations) != 0 || skips["one-keda"] {
		t.Errorf("got Kyma %+v and skipped Manifests %v, want none skipped", now, skips)
	}
}

// In this test, the Kyma's author has removed the skip-reconciliation label, so lifecycle-manager may already manage
// the Kyma.
func TestAbortDoesNotTrustTheSkipLabel(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kyma, manifest := releasedKyma(map[string]string{"keda": "9.0.0"}), manifestOf("one", "keda", "1.7.0")
	delete(kyma.Labels, v1beta2.LabelSkipReconciliation)
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(kyma).WithObjects(kyma, &manifest).Build()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(kyma), kyma); err != nil {
		t.Fatal(err)
	}
	if _, err := GiveBack(t.Context(), api, kyma, offering(t)); err == nil ||
		!strings.Contains(err.Error(), "would downgrade it") {
		t.Errorf("got %v, want an error about the downgrade", err)
	}
}

func TestAbortRefusesDowngrades(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kyma, manifest := releasedKyma(map[string]string{"keda": "9.0.0"}), manifestOf("one", "keda", "1.7.0")
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(kyma).WithObjects(kyma, &manifest).Build()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(kyma), kyma); err != nil {
		t.Fatal(err)
	}
	if _, err := GiveBack(t.Context(), api, kyma, offering(t)); err == nil ||
		!strings.Contains(err.Error(), "would downgrade it to 1.7.0") {
		t.Errorf("got %v, want an error about the downgrade", err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(kyma), kyma); err != nil ||
		kyma.Labels[v1beta2.LabelTakeover] != v1beta2.TakeoverActive {
		t.Errorf("got %v and Kyma %+v, want an unchanged Kyma", err, kyma)
	}
}
