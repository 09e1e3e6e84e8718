package lifecyclemanager

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/landscape"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

var update = flag.Bool("update", false, "write the recording instead of comparing with it")

// recorder runs lifecycle-manager with one Kyma, and records the objects after each step.
type recorder struct {
	t        *testing.T
	kcp, skr Cluster
	control  client.Client
	runtime  client.Client
	before   map[string]map[string]*unstructured.Unstructured // objects of the previous step by cluster
}

// The test records lifecycle-manager again and compares the result with the stored recording. With -update, it replaces
// the recording.
func TestRecordingMatchesLifecycleManager(t *testing.T) {
	suite.Long(t)
	program := Program(t)
	r, version := newRecorder(t, program)

	r.kyma(func(*v1beta2.Kyma) {})
	r.until("the modules are installed", func(k *v1beta2.Kyma) bool {
		return k.Status.State == v1beta2.StateReady && len(k.Status.Modules) == 2 && r.settled(k, 3)
	})
	r.record("1-installed")

	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		meta := &v1beta2.ModuleReleaseMeta{}
		if err := r.control.Get(t.Context(), inKCP("scaler"), meta); err != nil {
			return err
		}
		meta.Spec.Channels = []v1beta2.ChannelVersion{sample.Channel("regular", "1.8.0")}
		return r.control.Update(t.Context(), meta)
	}))
	r.until("the scaler is upgraded", func(k *v1beta2.Kyma) bool {
		return k.Status.State == v1beta2.StateReady && versionOf(k, "scaler") == "1.8.0" && r.settled(k, 3)
	})
	r.record("2-upgraded")

	r.edit(func(spec *v1beta2.KymaSpec) { spec.Modules[1].Managed = false })
	r.until("the mailer is unmanaged", func(k *v1beta2.Kyma) bool {
		return k.Status.State == v1beta2.StateReady && stateOf(k, "mailer") == v1beta2.StateUnmanaged && r.settled(k, 2)
	})
	r.record("3-unmanaged")

	own := landscape.UserScaler()
	must(t, r.runtime.Create(t.Context(), own))
	r.edit(func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[1:] })
	r.until("a user's object blocks the removal of the scaler", func(k *v1beta2.Kyma) bool {
		return stateOf(k, "scaler") == v1beta2.StateDeleting
	})
	r.record("4-removing")

	must(t, r.runtime.Delete(t.Context(), landscape.UserScaler()))
	r.until("the scaler is gone", func(k *v1beta2.Kyma) bool {
		return stateOf(k, "scaler") == "" && k.Status.State == v1beta2.StateReady && r.settled(k, 1)
	})
	r.record("5-removed")

	kyma := &v1beta2.Kyma{}
	must(t, r.control.Get(t.Context(), inKCP(landscape.RecordedKyma), kyma))
	must(t, r.control.Delete(t.Context(), kyma))
	must(t, fleet.Until(t.Context(), fleet.LongTimeout, "the Kyma is gone", func() (bool, string) {
		err := r.control.Get(t.Context(), inKCP(landscape.RecordedKyma), kyma)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v %+v", err, kyma.Status)
	}))
	r.record("6-deleted")

	if *update {
		must(t, os.WriteFile(filepath.Join(folder, "source.txt"),
			[]byte("github.com/kyma-project/lifecycle-manager "+version+"\n"), 0o644))
	}
}

// folder contains the stored recording.
var folder = filepath.Join("..", "landscape", "recorded")

func newRecorder(t *testing.T, program string) (*recorder, string) {
	t.Helper()
	ctx := t.Context()
	definitions := []fs.FS{os.DirFS(Definitions(program))}
	kcp, err := cluster.Start(ctx, cluster.Options{Progress: os.Stderr, CRDs: definitions})
	must(t, err)
	closing(t, kcp.Stop)
	skr, err := cluster.Start(ctx, cluster.Options{Progress: os.Stderr, Workloads: true})
	must(t, err)
	closing(t, skr.Stop)
	modules, err := registry.Start(ctx, registry.Options{})
	must(t, err)
	closing(t, modules.Close)
	replace := map[string]string{modules.Host(): "registry.example"}
	r := &recorder{
		t: t, kcp: Cluster{kcp.Config, replace}, skr: Cluster{skr.Config, replace},
		before: map[string]map[string]*unstructured.Unstructured{},
	}
	r.control, r.runtime = connect(t, kcp), connect(t, skr)

	must(t, Prepare(ctx, r.control))
	must(t, AddRuntime(ctx, r.control, landscape.RecordedKyma, skr.Kubeconfig()))
	access, err := store.NewRegistries(store.Access{NoRetry: true})
	must(t, err)
	place, err := store.Open(modules.Host()+"/modules", access)
	must(t, err)
	for _, v := range landscape.RecordedVersions() {
		v.Context = modules.Host() + "/modules"
		must(t, v.Push(ctx, place))
		must(t, r.control.Create(ctx, v.Template()))
	}
	for _, meta := range landscape.RecordedReleases() {
		must(t, r.control.Create(ctx, meta))
	}
	running, err := Start(Options{
		Program: program, Kubeconfig: kcp.Kubeconfig(), Components: modules.Host() + "/modules", Dir: t.TempDir(),
	})
	must(t, err)
	closing(t, running.Stop)
	t.Cleanup(func() {
		if t.Failed() {
			log := running.Log()
			t.Logf("lifecycle-manager's log:\n%s", log[max(0, len(log)-6000):])
		}
	})
	must(t, fleet.Until(ctx, fleet.LongTimeout, "lifecycle-manager runs", func() (bool, string) {
		return Version(running) != "", running.Log()
	}))
	return r, Version(running)
}

// kyma creates the Kyma in the control plane, as Kyma's environment broker does.
func (r *recorder) kyma(change func(*v1beta2.Kyma)) {
	r.t.Helper()
	kyma := fleet.NewKyma(landscape.RecordedKyma, "regular", "scaler", "mailer")
	kyma.Annotations = map[string]string{DomainAnnotation: "runtime.example.org"}
	change(kyma)
	must(r.t, r.control.Create(r.t.Context(), kyma))
}

// edit changes the runtime's Kyma, as the runtime's admin does.
func (r *recorder) edit(change func(*v1beta2.KymaSpec)) {
	r.t.Helper()
	must(r.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		kyma := &v1beta2.Kyma{}
		key := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName}
		if err := r.runtime.Get(r.t.Context(), key, kyma); err != nil {
			return err
		}
		change(&kyma.Spec)
		return r.runtime.Update(r.t.Context(), kyma)
	}))
}

// until waits for a state of the Kyma in the control plane.
func (r *recorder) until(what string, is func(*v1beta2.Kyma) bool) {
	r.t.Helper()
	must(r.t, fleet.Until(r.t.Context(), fleet.LongTimeout, what, func() (bool, string) {
		kyma := &v1beta2.Kyma{}
		err := r.control.Get(r.t.Context(), inKCP(landscape.RecordedKyma), kyma)
		return err == nil && is(kyma), fmt.Sprintf("%v %s %+v", err, kyma.Status.State, kyma.Status)
	}))
}

// settled reports whether all of the Kyma's conditions are True and the given number of Manifests exist and are Ready.
func (r *recorder) settled(kyma *v1beta2.Kyma, manifests int) bool {
	var all v1beta2.ManifestList
	if err := r.control.List(r.t.Context(), &all); err != nil || len(all.Items) != manifests {
		return false
	}
	for i := range all.Items {
		if all.Items[i].Status.State != v1beta2.StateReady {
			return false
		}
	}
	for _, c := range kyma.Status.Conditions {
		if c.Status != "True" {
			return false
		}
	}
	return true
}

// record stores or compares the objects that changed since the previous step.
func (r *recorder) record(step string) {
	r.t.Helper()
	for name, of := range map[string]Cluster{"kcp": r.kcp, "skr": r.skr} {
		var text string
		// Lifecycle-manager can still write objects after the Kyma's status is final, so repeat a failed comparison.
		path := filepath.Join(folder, step+"."+name+".yaml")
		want, err := os.ReadFile(path)
		if err != nil && (!*update || !errors.Is(err, fs.ErrNotExist)) {
			r.t.Fatal(err)
		}
		seen, last, since := map[string]*unstructured.Unstructured{}, "", time.Now()
		err = fleet.Until(r.t.Context(), fleet.LongTimeout/6, step+" is stable", func() (bool, string) {
			if seen, err = of.Objects(r.t.Context()); err != nil {
				return false, err.Error()
			}
			text, err = changes(r.before[name], seen)
			if text != last {
				last, since = text, time.Now()
			}
			// Lifecycle-manager reconciles again every two seconds.
			stable := time.Since(since) > 5*time.Second
			return err == nil && stable && (*update || text == string(want)), ""
		})
		r.before[name] = seen
		switch {
		case *update:
			must(r.t, err)
			must(r.t, os.WriteFile(path, []byte(text), 0o644))
		case text != string(want):
			r.t.Errorf("%s differs from the objects of lifecycle-manager: run it with -update and review; now\n%s",
				path, text)
		}
	}
}

// changes returns the changed and the removed objects as YAML.
func changes(before, now map[string]*unstructured.Unstructured) (string, error) {
	var keys []string
	for key := range before {
		keys = append(keys, key)
	}
	for key := range now {
		if before[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var text strings.Builder
	for _, key := range keys {
		o := now[key]
		if o == nil {
			fmt.Fprintf(&text, "---\nremoved: %s\n", key)
			continue
		}
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", err
		}
		if former := before[key]; former != nil {
			if same, err := yaml.Marshal(former.Object); err != nil || string(same) == string(data) {
				continue
			}
		}
		fmt.Fprintf(&text, "---\n%s", data)
	}
	return text.String(), nil
}

func connect(t *testing.T, c *cluster.Cluster) client.Client {
	t.Helper()
	api, err := fleet.Connect(c.Kubeconfig(), "")
	must(t, err)
	return client.WithFieldOwner(api, Operator)
}

func versionOf(kyma *v1beta2.Kyma, module string) string {
	for _, m := range kyma.Status.Modules {
		if m.Name == module {
			return m.Version
		}
	}
	return ""
}

func stateOf(kyma *v1beta2.Kyma, module string) v1beta2.State {
	for _, m := range kyma.Status.Modules {
		if m.Name == module {
			return m.State
		}
	}
	return ""
}

func inKCP(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: sample.Namespace, Name: name}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func closing(t *testing.T, stop func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
