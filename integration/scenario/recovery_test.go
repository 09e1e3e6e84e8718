package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// untilShown waits until the runtime's own Kyma shows a module in a version and state.
func untilShown(t *testing.T, r *fleet.Runtime, module, version string, state v1beta2.State) {
	t.Helper()
	until(t, time.Minute, fmt.Sprintf("the runtime's Kyma shows %s %s as %s", module, version, state),
		func() (bool, string) {
			kyma, err := r.Kyma(t.Context())
			if err != nil {
				return false, err.Error()
			}
			return slices.ContainsFunc(kyma.Status.Modules, func(m v1beta2.ModuleStatus) bool {
				return m.Name == module && m.Version == version && m.State == state
			}), fmt.Sprintf("%+v", kyma.Status.Modules)
		})
}

// stored returns the agent's Secrets by name, except those with keys.
func stored(t *testing.T, r *fleet.Runtime) map[string]corev1.Secret {
	t.Helper()
	var all corev1.SecretList
	must(t, r.API.List(t.Context(), &all, client.InNamespace(v1beta2.RuntimeNamespace)))
	found := map[string]corev1.Secret{}
	const changes = "report-sequence" // a Secret that changes with every report
	for _, s := range all.Items {
		if strings.HasPrefix(s.Name, "kyma-pull-content-") || s.Name == "skr-agent-state" ||
			s.Name == "skr-agent-memory" {
			if s.Name == "skr-agent-state" && len(s.Data[changes]) > 0 {
				s.Data[changes] = nil
			}
			found[s.Name] = s
		}
	}
	return found
}

// countStarts counts how often the agent starts.
func countStarts(r *fleet.Runtime) int { return strings.Count(r.Agent().Log(), "starting") }

func TestAgentRestoresItsDeletedSecretsWithoutRestart(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	untilQuiet(t, f)
	before, started := stored(t, r), countStarts(r)
	back := func(what string) {
		t.Helper()
		until(t, 30*time.Second, what, func() (bool, string) {
			now := stored(t, r)
			for name, secret := range before {
				if name != "skr-agent-memory" && fmt.Sprint(now[name].Data) != fmt.Sprint(secret.Data) {
					return false, name
				}
				if now[name].Name == "" {
					return false, name
				}
			}
			return true, ""
		})
	}

	// If part of stored content is missing, the agent also deletes the other parts, possibly before the test does.
	gone := func(secret corev1.Secret) {
		t.Helper()
		must(t, client.IgnoreNotFound(r.API.Delete(ctx, &secret)))
	}
	for _, secret := range before {
		gone(secret)
	}
	back("all Secrets of the agent exist again")
	for _, secret := range before {
		if len(secret.Data["data"]) == 0 {
			continue
		}
		forged := corev1.Secret{
			ObjectMeta: *secret.ObjectMeta.DeepCopy(), Immutable: secret.Immutable, Type: secret.Type,
			Data: map[string][]byte{"data": []byte("other bytes")},
		}
		forged.ResourceVersion, forged.UID = "", ""
		gone(secret)
		_ = r.API.Create(ctx, &forged) // fails if the agent has already recreated the Secret
	}
	back("the Secrets have their original data")

	// While the registry is down, only the module with missing content fails. When the registry is available again, this
	// module recovers.
	must(t, f.Registry.Stop())
	manifest := &v1beta2.Manifest{}
	must(t, r.API.Get(ctx, inKyma("scaler"), manifest))
	for _, secret := range stored(t, r) {
		if strings.Contains(string(manifest.Spec.Install.Source.Raw),
			secret.Annotations["kyma-pull.dev/content-digest"]) &&
			secret.Annotations["kyma-pull.dev/content-digest"] != "" {
			gone(secret)
		}
	}
	for _, name := range []string{"scaler-settings", "mailer-settings"} {
		must(t, client.IgnoreNotFound(r.API.Delete(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: name},
		})))
	}
	until(t, time.Minute, "scaler reports the missing objects", func() (bool, string) {
		kyma, err := r.Kyma(ctx)
		return err == nil && slices.ContainsFunc(kyma.Status.Modules, func(m v1beta2.ModuleStatus) bool {
			return m.Name == "scaler" && m.State == v1beta2.StateError && m.Message != ""
		}), fmt.Sprintf("%v %+v", err, kyma.Status.Modules)
	})
	untilShown(t, r, "mailer", "1.0.0", v1beta2.StateReady)
	must(t, f.Registry.Resume())
	until(t, 10*time.Second, "the drift of scaler is corrected", func() (bool, string) {
		_, err := settings(ctx, r)
		return err == nil, fmt.Sprint(err)
	})
	back("all content is stored again")
	if now := countStarts(r); now != started {
		t.Errorf("the agent restarted %d times, want none", now-started)
	}

	// Without a registry, a restarted agent can use only stored content.
	must(t, f.Registry.Stop())
	r.Agent().Kill()
	config, err := settings(ctx, r)
	must(t, err)
	must(t, r.API.Delete(ctx, config))
	must(t, r.StartAgent())
	until(t, 30*time.Second, "the agent recreates the deleted object", func() (bool, string) {
		_, err := settings(ctx, r)
		return err == nil, fmt.Sprint(err)
	})
}

// definitionOf returns an empty CRD object with the name for one of the agent's kinds.
func definitionOf(kind string) *unstructured.Unstructured {
	return definition(kind + "." + v1beta2.Group)
}

// loseDefinitions deletes CRDs for the agent's kinds. The returned function waits until the agent has restored them.
func loseDefinitions(t *testing.T, r *fleet.Runtime, kinds ...string) (untilOthers func()) {
	t.Helper()
	var lost []*unstructured.Unstructured
	for _, kind := range kinds {
		crd := definitionOf(kind)
		must(t, r.API.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
		lost = append(lost, crd)
		must(t, r.API.Delete(t.Context(), definitionOf(kind)))
	}
	return func() {
		t.Helper()
		until(t, 30*time.Second, "the agent recreates the CRDs", func() (bool, string) {
			for _, crd := range lost {
				now := crd.DeepCopy()
				if err := r.API.Get(t.Context(), client.ObjectKeyFromObject(crd), now); err != nil ||
					now.GetUID() == crd.GetUID() {
					return false, fmt.Sprint(crd.GetName(), err)
				}
			}
			return true, ""
		})
	}
}

// installedObjects returns the UIDs of the modules' objects by kind and name.
func installedObjects(t *testing.T, r *fleet.Runtime) string {
	t.Helper()
	var all []string
	for _, kind := range []string{"v1/ConfigMap", "v1/ServiceAccount", "apps/v1/Deployment",
		"apiextensions.k8s.io/v1/CustomResourceDefinition", "rbac.authorization.k8s.io/v1/ClusterRole"} {
		list := &unstructured.UnstructuredList{}
		cut := strings.LastIndex(kind, "/")
		list.SetAPIVersion(kind[:cut])
		list.SetKind(kind[cut+1:] + "List")
		must(t, r.API.List(t.Context(), list, client.MatchingLabels{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma}))
		for i := range list.Items {
			all = append(all, fmt.Sprintf("%s %s %s", kind, list.Items[i].GetName(), list.Items[i].GetUID()))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func TestAgentRestoresDeletedKymaManifestsAndCRDs(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Channel, spec.Modules = "fast", slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool {
			return m.Name == "mailer"
		})
	}))
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	must(t, r.UntilGone(ctx, "mailer"))
	untilQuiet(t, f)
	f.Publisher().Stop()
	must(t, f.Registry.Stop()) // the agent can use only its stored records
	before, started := installedObjects(t, r), countStarts(r)
	if !strings.Contains(before, "scaler-settings") {
		t.Fatalf("no module objects are installed:\n%s", before)
	}
	wantUnchanged := func(what string) {
		t.Helper()
		until(t, 30*time.Second, "after "+what+" the runtime's Kyma is Ready with its admin's modules",
			func() (bool, string) {
				kyma, err := r.Kyma(ctx)
				if err != nil {
					return false, err.Error()
				}
				return kyma.Spec.Channel == "fast" && len(kyma.Spec.Modules) == 1 &&
						kyma.Spec.Modules[0].Name == "scaler" && kyma.Status.State == v1beta2.StateReady,
					fmt.Sprintf("%+v %s", kyma.Spec, kyma.Status.State)
			})
		until(t, 30*time.Second,
			"after "+what+" the Manifest lists its objects and the catalog exists",
			func() (bool, string) {
				manifest := &v1beta2.Manifest{}
				if err := r.API.Get(ctx, inKyma("scaler"), manifest); err != nil {
					return false, err.Error()
				}
				err := r.API.Get(ctx, inKyma("scaler-1.8.0"), &v1beta2.ModuleTemplate{})
				return err == nil && manifest.DeletionTimestamp.IsZero() && len(manifest.Status.Synced) > 0 &&
						manifest.Status.State == v1beta2.StateReady,
					fmt.Sprintf("%v %+v", err, manifest.Status)
			})
		if now := installedObjects(t, r); now != before {
			t.Errorf("after %s, want the original objects, got:\n%s\nbefore:\n%s", what, now, before)
		}
	}
	kyma, err := r.Kyma(ctx)
	must(t, err)
	must(t, r.API.Delete(ctx, kyma))
	wantUnchanged("the Kyma was deleted")
	manifest := &v1beta2.Manifest{}
	must(t, r.API.Get(ctx, inKyma("scaler"), manifest))
	must(t, r.API.Delete(ctx, manifest))
	until(t, 30*time.Second, "the Manifest is recreated", func() (bool, string) {
		now := &v1beta2.Manifest{}
		err := r.API.Get(ctx, inKyma("scaler"), now)
		return err == nil && now.UID != manifest.UID, fmt.Sprint(err)
	})
	wantUnchanged("a Manifest was deleted")
	loseDefinitions(t, r, "moduletemplates", "manifests", "kymas", "modulereleasemetas")()
	wantUnchanged("all CRDs were deleted")
	drift(t, r)
	until(t, 30*time.Second, "drift is corrected", func() (bool, string) {
		config, err := settings(ctx, r)
		return err == nil && config.Data["level"] == "info", fmt.Sprint(err)
	})

	t.Run("agent restores an inventory that was cleared while it was stopped", func(t *testing.T) {
		must(t, r.Agent().Kill())
		must(t, r.API.Get(ctx, inKyma("scaler"), manifest))
		cleared := manifest.DeepCopy()
		cleared.Status.Synced = nil
		must(t, r.API.Status().Patch(ctx, cleared, client.MergeFrom(manifest)))
		must(t, r.StartAgent())
		until(t, 30*time.Second, "the inventory is complete", func() (bool, string) {
			now := &v1beta2.Manifest{}
			err := r.API.Get(ctx, inKyma("scaler"), now)
			return err == nil && len(now.Status.Synced) == len(manifest.Status.Synced), fmt.Sprintf("%v %+v", err, now.Status)
		})
		started = countStarts(r)
	})

	t.Run("agent restores CRDs that were deleted while it was stopped", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestAgentRestoresCRDsDeletedDuringStart
		must(t, r.Agent().Kill())
		untilOthers := loseDefinitions(t, r, "kymas", "manifests")
		must(t, r.StartAgent())
		untilOthers()
		wantUnchanged("CRDs were deleted while the agent was stopped")
		if now := countStarts(r); now > started+1 {
			t.Errorf("the agent started %d times, want 1", now-started)
		}
	})

	t.Run("removed module stays removed", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestRemovalContinuesAfterInterruptedRestore
		// The next bundle does not contain the module.
		must(t, f.Registry.Resume())
		must(t, f.StartPublisher())
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = nil }))
		must(t, r.UntilGone(ctx, "scaler"))
		if _, err := settings(ctx, r); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the module's objects were not removed: %v", err)
		}
		loseDefinitions(t, r, "manifests")()
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			spec.Modules = []v1beta2.Module{managed("mailer")}
		}))
		must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	})
}

// emptyNamespace deletes all objects in a runtime's kyma-system, as Kubernetes does when the namespace is deleted. No
// agent runs, so emptyNamespace removes the finalizers with the command in docs/guides/repair.md.
func emptyNamespace(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	ctx, in := t.Context(), client.InNamespace(v1beta2.RuntimeNamespace)
	for _, o := range []client.Object{
		&v1beta2.Manifest{}, &v1beta2.Kyma{}, &v1beta2.ModuleTemplate{}, &v1beta2.ModuleReleaseMeta{},
		&appsv1.Deployment{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}, &corev1.Secret{},
	} {
		must(t, r.API.DeleteAllOf(ctx, o, in))
	}
	var manifests v1beta2.ManifestList
	must(t, r.API.List(ctx, &manifests, in))
	for i := range manifests.Items {
		must(t, r.API.Patch(ctx, &manifests.Items[i],
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	}
}

func TestNewAgentAdoptsModulesAfterNamespaceDeletion(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Channel, spec.Modules = "fast", slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool {
			return m.Name == f.Own("mailer")
		})
	}))
	must(t, r.UntilState(ctx, f.Own("scaler"), "1.8.0", v1beta2.StateReady))
	must(t, r.UntilGone(ctx, f.Own("mailer")))
	elsewhere := func() string {
		var all []string
		for line := range strings.Lines(installedObjects(t, r)) {
			if strings.HasPrefix(line, "apiextensions") || strings.HasPrefix(line, "rbac") {
				all = append(all, line)
			}
		}
		return strings.Join(all, "")
	}
	before := elsewhere()
	if before == "" {
		t.Fatal("the modules have no objects outside of kyma-system")
	}
	must(t, r.Agent().Kill())
	emptyNamespace(t, r)
	must(t, r.Enroll(ctx))
	must(t, r.StartAgent())
	until(t, time.Minute, "the runtime has its admin's last modules", func() (bool, string) {
		kyma, err := r.Kyma(ctx)
		if err != nil {
			return false, err.Error()
		}
		return kyma.Spec.Channel == "fast" && len(kyma.Spec.Modules) == 1 && kyma.Status.State == v1beta2.StateReady,
			fmt.Sprintf("%+v %s", kyma.Spec, kyma.Status.State)
	})
	if _, err := settings(ctx, r); err != nil {
		t.Errorf("the objects in the namespace are not installed again: %v", err)
	}
	if now := elsewhere(); now != before {
		t.Errorf("objects outside of kyma-system were replaced, got:\n%s\nbefore:\n%s", now, before)
	}
	must(t, r.UntilState(ctx, f.Own("scaler"), "1.8.0", v1beta2.StateReady))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = nil }))
	// The control plane can show the removal only after it has accepted the new agent's reports.
	must(t, r.UntilGone(ctx, f.Own("scaler")))
}
