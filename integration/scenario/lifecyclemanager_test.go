package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/landscape"
	"github.com/kyma-pull/kyma-pull/integration/lifecyclemanager"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// The test takes over a runtime from a running lifecycle-manager, returns the runtime, and takes it over again.
func TestTakeoverFromRunningLifecycleManagerWorks(t *testing.T) {
	suite.Long(t)
	program := lifecyclemanager.Program(t)
	l, one := newManagedLandscape(t, program)
	l.untilManaged("1.7.0", "guard", "mailer", "scaler")

	t.Log("the modules are adopted")
	l.runTakeover(true, "start", "one")
	l.untilAdopted(3)
	if version := l.running(one); version != "1.7.0" {
		t.Fatalf("the adopted scaler has version %s", version)
	}
	stays := l.watchVersion(one)

	t.Log("the publisher upgrades a module")
	l.release("1.8.0")
	must(t, one.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))

	t.Log("after an abort, lifecycle-manager manages the Kyma again")
	l.prints(l.runTakeover(true, "abort", "one"), "Kyma kcp-system/one is managed by lifecycle-manager again")
	l.untilManaged("1.8.0", "guard", "mailer", "scaler")
	l.release("1.9.0")
	l.untilManaged("1.9.0", "guard", "mailer", "scaler")
	if version := l.running(one); version != "1.9.0" {
		t.Fatalf("lifecycle-manager reports 1.9.0, but the runtime has %s", version)
	}

	t.Log("the runtime is taken over again and the takeover is finished")
	l.runTakeover(true, "start", "one")
	l.untilAdopted(3)
	untilFinishable(t, one)
	l.prints(l.runTakeover(true, "finish", "one"), "removed in the runtime: Deployment kyma-system/skr-webhook",
		"removed in the runtime: ValidatingWebhookConfiguration skr-webhook", "Kyma kcp-system/one is taken over")
	stays()
	l.untilTakenOver(one)

	t.Log("a module is removed with its default CR")
	must(t, one.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == "scaler" })
	}))
	must(t, one.UntilGone(t.Context(), "scaler"))
	untilNone(t, one, moduleScaler(), "default")
	untilNone(t, one, &appsv1.Deployment{}, "scaler-manager")

	t.Log("a deleted Kyma leaves an empty runtime")
	deleteKyma(t, l.f, one)
	untilForgotten(t, one, fleet.LongTimeout)
	untilNone(t, one, &appsv1.Deployment{}, "mailer")
}

// A Kyma is deleted after its modules are adopted and before the takeover is finished. The running lifecycle-manager
// must not block the deletion or reinstall any object.
func TestLifecycleManagerDoesNotBlockKymaDeletion(t *testing.T) {
	suite.Long(t)
	l, one := newManagedLandscape(t, lifecyclemanager.Program(t))
	l.untilManaged("1.7.0", "guard", "mailer", "scaler")
	l.runTakeover(true, "start", "one")
	l.untilAdopted(3)
	deleteKyma(t, l.f, one)
	untilForgotten(t, one, fleet.LongTimeout)
	untilNone(t, one, moduleScaler(), "default")
	untilNone(t, one, &appsv1.Deployment{}, "scaler-manager")
	untilNone(t, one, &appsv1.Deployment{}, "mailer")
	untilNone(t, one, &corev1.ConfigMap{}, "guard-settings")
	var left v1beta2.ManifestList
	must(t, l.f.Control.List(t.Context(), &left, client.InNamespace(sample.Namespace)))
	if len(left.Items) > 0 {
		t.Errorf("lifecycle-manager's Manifest %s still exists", left.Items[0].Name)
	}
}

// newManagedLandscape returns a control plane with a publisher and a running lifecycle-manager, which installs three
// modules in a runtime.
func newManagedLandscape(t *testing.T, program string) (landscapeOf, *fleet.Runtime) {
	t.Helper()
	ctx := t.Context()
	f := startFleet(t, fleet.Options{
		PublisherFlags:  []string{"--watch-label-selector", v1beta2.LabelTakeover},
		PublisherRights: []string{"publisher.yaml", "takeover.yaml"},
	})
	l := landscapeOf{t, f}
	for _, v := range append(landscape.RecordedVersions(), sample.Scaler("1.9.0")) {
		v.Context = f.Components()
		must(t, f.Offer(ctx, v))
	}
	for _, release := range landscape.RecordedReleases() {
		must(t, f.Control.Create(ctx, release))
	}
	must(t, lifecyclemanager.Prepare(ctx, f.Control))
	kyma := fleet.NewKyma("one", "regular", "scaler", "mailer")
	kyma.Annotations = map[string]string{lifecyclemanager.DomainAnnotation: "runtime.example.org"}
	must(t, f.CreateKyma(ctx, kyma))
	one, err := f.AddRuntime(ctx, "one", "regular")
	must(t, err)
	must(t, lifecyclemanager.AddRuntime(ctx, f.Control, "one", one.Kubeconfig()))
	manager, err := lifecyclemanager.Start(lifecyclemanager.Options{
		Program: program, Kubeconfig: filepath.Join(f.Dir, "kcp.kubeconfig"), Components: f.Components(), Dir: f.Dir,
	})
	must(t, err)
	t.Cleanup(func() {
		if err := manager.Stop(); err != nil {
			t.Error(err)
		}
	})
	return l, one
}

// release sets the "regular" channel to a new version of scaler.
func (l landscapeOf) release(version string) {
	l.t.Helper()
	must(l.t, l.f.Release(l.t.Context(), "scaler", sample.Scaler("").Component(), sample.Channel("regular", version)))
}

// untilManaged waits until lifecycle-manager manages a Kyma with a version of scaler, and the Kyma and all modules
// are Ready.
func (l landscapeOf) untilManaged(version string, modules ...string) {
	l.t.Helper()
	until(l.t, fleet.LongTimeout, "lifecycle-manager manages the Kyma with scaler "+version, func() (bool, string) {
		kyma := &v1beta2.Kyma{}
		var all v1beta2.ManifestList
		if err := l.f.Control.Get(l.t.Context(), inKCP("one"), kyma); err != nil {
			return false, err.Error()
		}
		if err := l.f.Control.List(l.t.Context(), &all, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		state := fmt.Sprintf("%+v", kyma.Status)
		if kyma.Status.State != v1beta2.StateReady || kyma.Status.Runtime != nil ||
			len(kyma.Status.Modules) != len(modules)-1 {
			return false, state
		}
		var ready []string
		for _, m := range all.Items {
			if m.Status.State != v1beta2.StateReady {
				return false, fmt.Sprintf("Manifest %s: %+v", m.Name, m.Status)
			}
			if m.Labels[v1beta2.LabelModuleName] == "scaler" && m.Spec.Version != version {
				return false, "the scaler's Manifest has version " + m.Spec.Version
			}
			ready = append(ready, m.Labels[v1beta2.LabelModuleName])
		}
		slices.Sort(ready)
		for _, m := range kyma.Status.Modules {
			if m.Name == "scaler" && m.Version != version {
				return false, state
			}
		}
		return slices.Equal(ready, modules), fmt.Sprint(ready)
	})
}

// untilAdopted waits until the agent has adopted the given number of modules.
func (l landscapeOf) untilAdopted(modules int) {
	l.t.Helper()
	want := fmt.Sprintf("%d/%d", modules, modules)
	until(l.t, fleet.LongTimeout, "all modules are adopted", func() (bool, string) {
		output, err := l.f.Ask(l.t.Context(), "takeover", "status", "one")
		return err == nil && strings.Contains(output, want), output
	})
}

// running returns the version of module scaler in a runtime.
func (l landscapeOf) running(r *fleet.Runtime) string {
	l.t.Helper()
	_, version, _ := strings.Cut(deploymentOf(l.t, r, "scaler-manager").Spec.Template.Spec.Containers[0].Image, ":")
	return version
}

// watchVersion checks that scaler is never downgraded. The check runs until stop is called.
func (l landscapeOf) watchVersion(r *fleet.Runtime) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for newest := ""; ; {
			d := &appsv1.Deployment{}
			if err := r.API.Get(l.t.Context(), inKyma("scaler-manager"), d); err == nil {
				_, version, _ := strings.Cut(d.Spec.Template.Spec.Containers[0].Image, ":")
				if newest != "" && bundle.IsOlder(version, newest) {
					l.t.Errorf("scaler was downgraded from %s to %s", newest, version)
				}
				newest = version
			} else if apierrors.IsNotFound(err) {
				l.t.Errorf("the scaler's Deployment does not exist: %v", err)
			}
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() { close(ended); <-done }
}

// untilTakenOver waits until all of lifecycle-manager's objects for a runtime are deleted, and checks that the running
// lifecycle-manager does not recreate them.
func (l landscapeOf) untilTakenOver(r *fleet.Runtime) {
	l.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		var all v1beta2.ManifestList
		must(l.t, l.f.Control.List(l.t.Context(), &all, client.InNamespace(sample.Namespace)))
		if len(all.Items) > 0 {
			l.t.Fatalf("lifecycle-manager still has Manifest %s", all.Items[0].Name)
		}
		err := r.API.Get(l.t.Context(), inKyma("skr-webhook"), &appsv1.Deployment{})
		if !apierrors.IsNotFound(err) {
			l.t.Fatalf("lifecycle-manager's Deployment skr-webhook exists: %v", err)
		}
	}
}

// untilNone waits until an object in kyma-system is deleted.
func untilNone(t *testing.T, r *fleet.Runtime, o client.Object, name string) {
	t.Helper()
	until(t, fleet.LongTimeout, name+" is deleted", func() (bool, string) {
		err := r.API.Get(t.Context(), inKyma(name), o)
		return apierrors.IsNotFound(err) || meta.IsNoMatchError(err), fmt.Sprint(err)
	})
}
