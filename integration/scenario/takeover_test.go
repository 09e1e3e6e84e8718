package scenario

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/landscape"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// runTakeover runs `kcp-publisher takeover` and returns its output. succeeds is the expected result of the
// command.
func (l landscapeOf) runTakeover(succeeds bool, args ...string) string {
	l.t.Helper()
	output, err := l.f.Ask(l.t.Context(), append([]string{"takeover"}, args...)...)
	if (err == nil) != succeeds {
		l.t.Fatalf("takeover %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

func (l landscapeOf) prints(output string, all ...string) {
	l.t.Helper()
	for _, want := range all {
		if !strings.Contains(output, want) {
			l.t.Errorf("output does not contain %q:\n%s", want, output)
		}
	}
}

// runPageBlock runs a shell block from the migration guide.
func (l landscapeOf) runPageBlock(block int, replaced ...string) string {
	l.t.Helper()
	page := blocksOf(l.t, "docs/guides/migrate-from-lifecycle-manager.md", 6)
	s := newPlainShell(l.t, l.f.Dir, l.f.Binaries(), replaced...)
	s.env = append(s.env, "KUBECONFIG="+filepath.Join(l.f.Dir, "kcp.kubeconfig"))
	return s.run(page[block])
}

func deploymentOf(t *testing.T, r *fleet.Runtime, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	must(t, r.API.Get(t.Context(), inKyma(name), d))
	return d
}

// newLandscape returns a control plane with 20 Kymas that lifecycle-manager manages. The first two have runtimes with
// agents. The publisher has only the permissions from its chart.
func newLandscape(t *testing.T) (l landscapeOf, one, two *fleet.Runtime, others []string) {
	t.Helper()
	ctx := t.Context()
	f := startFleet(t, fleet.Options{
		PublisherFlags:  []string{"--watch-label-selector", v1beta2.LabelTakeover},
		PublisherRights: []string{"publisher.yaml", "takeover.yaml"},
	})
	l = landscapeOf{t, f}
	calm := sample.Scaler("1.9.0")
	calm.RequiresDowntime = true
	must(t, f.Offer(ctx, landscape.Prioritized(), sample.Scaler("1.8.0"), calm, sample.Mailer("1.0.0"),
		sample.Mailer("1.1.0")))
	must(t, f.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.8.0"),
		sample.Channel("fast", "1.9.0")))
	must(t, f.Release(ctx, "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.0.0")))

	first := map[string]string{"landscape": "first"}
	scaler := landscape.Module{Version: landscape.Prioritized(), Channel: "regular"}
	fast, mailer := landscape.Module{
		Version: landscape.Prioritized(),
		Channel: "fast",
	}, landscape.Module{
		Version: sample.Mailer("1.1.0"),
		Channel: "regular",
	}
	l.kyma("one", first, scaler, mailer)
	l.kyma("two", first, fast)
	for i := 3; i <= 20; i++ {
		name, labels := fmt.Sprintf("k%02d", i), first
		if i > 10 {
			labels, others = nil, append(others, name)
		}
		l.kyma(name, labels, scaler)
	}
	var err error
	if one, err = f.AddRuntime(ctx, "one", "regular"); err != nil {
		t.Fatal(err)
	}
	if two, err = f.AddRuntime(ctx, "two", "regular"); err != nil {
		t.Fatal(err)
	}
	one.Agent().Stop()
	l.install(one, "regular", scaler, mailer)
	l.install(two, "regular", fast)
	return l, one, two, others
}

func TestLifecycleManagerLandscapeIsTakenOverInSteps(t *testing.T) {
	suite.Long(t) // the short suite runs the tests in both takeover packages with the recorded landscapes
	ctx := t.Context()
	l, one, two, others := newLandscape(t)
	untouched := l.versions(others)
	amend(t, l.f, two, func(k *v1beta2.Kyma) {
		k.Annotations = map[string]string{
			v1beta2.AnnotationMaintenanceWindows: "[" +
				dated(t, time.Date(2099, 1, 3, 21, 0, 0, 0, time.UTC), time.Date(2099, 1, 4, 0, 0, 0, 0, time.UTC)) +
				"]",
		}
	})
	busy := &v1beta2.Manifest{}
	must(t, l.f.Control.Get(ctx, inKCP(landscape.ManifestName("k09", "scaler")), busy))
	must(
		t,
		l.f.Control.Status().
			Patch(ctx, busy, client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"Processing"}}`))),
	)
	scaler, mailer := deploymentOf(t, one, "scaler-manager"), deploymentOf(t, one, "mailer")

	t.Log("the plan is shown before the change")
	must(t, os.WriteFile(filepath.Join(l.f.Dir, "policy.json"),
		[]byte(`{"rules": [], "default": {"days": ["Sun"], "begin": "03:00:00+00:00", "end": "07:00:00+00:00"}}`),
		0o600))
	l.prints(l.runPageBlock(0), "one", "1.7.0", "1.8.0", "stays at version 1.1.0: channel \"regular\" has 1.0.0",
		"2099-01-03T21:00:00Z", "blocked by: Manifest "+busy.Name+" is Processing",
		"finish removes Manifest kcp-system/"+landscape.ManifestName("one", "mailer"),
		"finalizer operator.kyma-project.io/purge-finalizer")
	l.runTakeover(true, "start", "--all", "--dry-run")
	if after := l.versions(others); !maps.Equal(after, untouched) {
		t.Errorf("a dry run changed Kymas: %v, before %v", after, untouched)
	}

	t.Log("half of the Kymas are taken over, but not the Kyma that lifecycle-manager is still changing")
	l.prints(l.runTakeover(false, "start", "-l", "landscape=first"),
		"Kyma kcp-system/one is labeled kyma-pull.dev/takeover=true", "refused: Manifest "+busy.Name, "1 of 10 Kymas")
	l.prints(l.runPageBlock(2), "Kyma kcp-system/one")
	until(t, time.Minute, "the Kyma records the modules that lifecycle-manager installed", func() (bool, string) {
		kyma, err := one.Record(ctx)
		return err == nil && kyma.Status.Runtime != nil && kyma.Status.Runtime.Takeover != nil &&
			len(kyma.Status.Runtime.Takeover.Modules) == 2, fmt.Sprint(err)
	})
	l.prints(l.runTakeover(false, "finish", "one"), "one\n  refused: ")

	t.Run("Kyma deleted during the takeover loses all finalizers", func(t *testing.T) {
		gone := &v1beta2.Kyma{}
		gone.Namespace, gone.Name = sample.Namespace, "k08"
		must(t, l.f.Control.Delete(ctx, gone))
		until(t, time.Minute, "Kyma and Manifest are deleted", func() (bool, string) {
			kyma := l.f.Control.Get(ctx, inKCP("k08"), &v1beta2.Kyma{})
			manifest := l.f.Control.Get(ctx, inKCP(landscape.ManifestName("k08", "scaler")), &v1beta2.Manifest{})
			return apierrors.IsNotFound(kyma) && apierrors.IsNotFound(manifest), fmt.Sprint(kyma, manifest)
		})
	})

	t.Log("early deletion of Manifests uninstalls nothing and keeps the versions")
	l.deleteManifest(ctx, landscape.ManifestName("one", "mailer"))
	must(t, one.StartAgent())
	must(t, one.UntilState(ctx, "mailer", "1.1.0", v1beta2.StateWarning))
	must(t, one.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))

	t.Log("an upgrade removes the objects and fields of the version that lifecycle-manager installed")
	d := deploymentOf(t, one, "scaler-manager")
	if d.UID != scaler.UID || d.Spec.Template.Spec.PriorityClassName != "" ||
		!strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, ":1.8.0") {
		t.Errorf("the Deployment was recreated or keeps old fields: %s, %+v", d.UID, d.Spec.Template.Spec)
	}
	until(t, time.Minute, "the PriorityClass is deleted", func() (bool, string) {
		err := one.API.Get(ctx, client.ObjectKey{Name: "scaler-priority"}, &schedulingv1.PriorityClass{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	if d := deploymentOf(t, one, "mailer"); d.UID != mailer.UID {
		t.Error("the mailer was recreated")
	}

	t.Log("an upgrade that requires downtime waits for its window")
	untilWaiting(t, two, "scaler", "1.7.0", in2099)
	l.prints(l.runPageBlock(3, "RUNTIME-ID", "two"), "adopt", "1/1", "runtime two is ")

	t.Run("runtime is returned to lifecycle-manager", func(t *testing.T) {
		l := landscapeOf{t, l.f}
		kept := deploymentOf(t, two, "scaler-manager")
		l.prints(l.runPageBlock(4, "abort one", "abort two"),
			"Manifest kcp-system/"+landscape.ManifestName("two", "scaler")+" is managed by lifecycle-manager again",
			"Kyma kcp-system/two is managed by lifecycle-manager again")
		record, err := two.Record(ctx)
		must(t, err)
		for _, label := range []string{v1beta2.LabelTakeover, v1beta2.LabelSkipReconciliation} {
			if value, there := record.Labels[label]; there {
				t.Errorf("the returned Kyma still has label %s=%s", label, value)
			}
		}
		if d := deploymentOf(t, two, "scaler-manager"); d.UID != kept.UID ||
			d.Spec.Template.Spec.PriorityClassName == "" {
			t.Errorf("the returned module's pod template changed: %+v", d.Spec.Template.Spec)
		}
		if err := two.API.Get(ctx, inKyma("scaler"), &v1beta2.Manifest{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Manifest in the runtime still exists: %v", err)
		}
		l.checkReturned(record, "scaler", "1.7.0")
	})
	t.Run("Kyma is taken over again and deleted with its default CR", func(t *testing.T) {
		l := landscapeOf{t, l.f}
		l.runTakeover(true, "start", "two")
		untilWaiting(t, two, "scaler", "1.7.0", in2099)
		l.prints(l.runTakeover(true, "status", "two"), "adopt", "1/1")
		deleteKyma(t, l.f, two)
		untilForgotten(t, two, time.Minute)
		for _, o := range []client.Object{&appsv1.Deployment{}, moduleScaler()} {
			name := "scaler-manager"
			if o.GetObjectKind().GroupVersionKind().Kind != "" {
				name = "default"
			}
			if err := two.API.Get(ctx, inKyma(name), o); !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
				t.Errorf("%s still exists: %v", name, err)
			}
		}
	})
	t.Run("takeover finishes once the Kyma is Ready", func(t *testing.T) {
		l := landscapeOf{t, l.f}
		l.prints(l.runTakeover(false, "finish", "one"), `the state of the Kyma is "Warning"`)
		must(t, l.f.Release(ctx, "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.1.0")))
		must(t, one.UntilState(ctx, "mailer", "1.1.0", v1beta2.StateReady))
		untilFinishable(t, one)
		l.prints(l.runPageBlock(5), "removed in the runtime: Service kyma-system/skr-webhook",
			"removed in the runtime: PriorityClass skr-webhook-priority",
			"Manifest kcp-system/"+landscape.ManifestName("one", "scaler")+" is removed",
			"finalizer operator.kyma-project.io/purge-finalizer of Kyma kcp-system/one is removed",
			"Kyma kcp-system/one is taken over")
		l.checkTakenOver(one)
		must(t, one.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == "scaler" })
		}))
		must(t, one.UntilGone(ctx, "scaler"))
		meta := &v1beta2.ModuleReleaseMeta{}
		meta.Namespace, meta.Name = sample.Namespace, "mailer"
		change(t, l.f.Control, meta, func(meta *v1beta2.ModuleReleaseMeta) {
			meta.Finalizers = []string{v1beta2.LifecycleManagerFinalizerMandatory}
		})
		l.prints(
			l.runTakeover(true, "finish", "one", "--lifecycle-manager-is-gone"),
			"finalizer operator.kyma-project.io/mandatory-module of ModuleReleaseMeta kcp-system/mailer is removed",
			"labels kyma-pull.dev/takeover and operator.kyma-project.io/skip-reconciliation of Kyma kcp-system/one "+
				"are removed",
		)
	})
	if after := l.versions(others); !maps.Equal(after, untouched) {
		t.Errorf("Kymas of lifecycle-manager were changed: %v, before %v", after, untouched)
	}
}

// checkReturned checks that lifecycle-manager can manage a Kyma again: the Kyma's status lists the module and
// has no fields of the publisher.
func (l landscapeOf) checkReturned(kyma *v1beta2.Kyma, module, version string) {
	l.t.Helper()
	s := kyma.Status
	if s.Runtime != nil || meta.FindStatusCondition(s.Conditions, v1beta2.ConditionReporting) != nil ||
		len(kyma.Annotations[v1beta2.AnnotationTakeoverPhase]) > 0 {
		l.t.Errorf("the status of Kyma %s has fields of the publisher: %+v", kyma.Name, s)
	}
	if len(s.Modules) != 1 || s.Modules[0].Name != module || s.Modules[0].Version != version ||
		s.Modules[0].Template == nil ||
		s.Modules[0].Manifest == nil ||
		s.Modules[0].Manifest.PartialMeta.Name != landscape.ManifestName(kyma.Name, module) {
		l.t.Errorf("lifecycle-manager reports unexpected modules %+v", s.Modules)
	}
}

// moduleScaler returns an empty custom resource of the kind that module scaler defines.
func moduleScaler() client.Object {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("sample.kyma-pull.dev/v1")
	o.SetKind("Scaler")
	return o
}

func untilFinishable(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	until(t, time.Minute, "the runtime is Ready", func() (bool, string) {
		kyma, err := r.Record(t.Context())
		return err == nil && kyma.Status.State == v1beta2.StateReady, fmt.Sprintf("%v %+v", err, kyma.Status)
	})
}

// checkTakenOver checks that all of lifecycle-manager's objects for a runtime are deleted, and that the runtime's
// modules run.
func (l landscapeOf) checkTakenOver(r *fleet.Runtime) {
	l.t.Helper()
	must(l.t, fleet.Until(l.t.Context(), fleet.LongTimeout, "lifecycle-manager's objects are gone", func() (bool, string) {
		kyma, err := r.Record(l.t.Context())
		if err != nil {
			return false, err.Error()
		}
		for _, kind := range v1beta2.LifecycleManagerConditions {
			if meta.FindStatusCondition(kyma.Status.Conditions, kind) != nil {
				return false, "condition " + kind
			}
		}
		clean := len(kyma.Finalizers) == 1 && kyma.Labels[v1beta2.LabelTakeover] == v1beta2.TakeoverFinished &&
			kyma.Status.Runtime.Takeover == nil
		return clean &&
				kyma.Status.State == v1beta2.StateReady,
			fmt.Sprintf("%v %v %+v", kyma.Finalizers, kyma.Labels, kyma.Status)
	}))
	err := l.f.Control.Get(l.t.Context(), inKCP(landscape.ManifestName(r.ID, "scaler")), &v1beta2.Manifest{})
	if !apierrors.IsNotFound(err) {
		l.t.Errorf("lifecycle-manager's Manifest still exists: %v", err)
	}
}
