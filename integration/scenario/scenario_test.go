// Package scenario tests the behavior that users see. Each test runs the two programs with real API servers and a real
// registry. Most tests share a fleet with other tests (shareFleet). A test that stops or breaks a part of the fleet
// starts its own fleet (newFleet).
package scenario

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

var clusters cluster.Pool

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	flag.Parse()
	if err := queue.replaceFlag(flag.Lookup("test.parallel")); err != nil {
		panic(err)
	}
	if len(cluster.GOGCSetting()) > 0 {
		debug.SetGCPercent(cluster.TestGOGC)
	}
	code := m.Run()
	if err := errors.Join(shared.close(), clusters.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "scenario:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// startFleet starts a fleet without modules.
func startFleet(t *testing.T, options fleet.Options) *fleet.Fleet {
	t.Helper()
	runInQueue(t)
	options.Progress, options.Clusters = os.Stderr, &clusters
	f, err := fleet.Start(t.Context(), options)
	must(t, err)
	t.Cleanup(func() {
		dumpLogs(t, f)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// dumpLogs logs the end of the programs' logs if the scenario failed.
func dumpLogs(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	if !t.Failed() {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(f.Dir, "*"+f.Own("")+".log"))
	for _, path := range append(logs, filepath.Join(f.Dir, "kcp-publisher.log")) {
		if data, err := os.ReadFile(path); err == nil {
			t.Logf("%s:\n%s", filepath.Base(path), last(data, 6000))
		}
	}
}

// newFleet starts a fleet with scaler 1.7.0 (regular) and 1.8.0 (fast) and mailer 1.0.0.
func newFleet(t *testing.T, options fleet.Options) *fleet.Fleet {
	t.Helper()
	f := startFleet(t, options)
	offerSamples(t, f)
	return f
}

func offerSamples(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	must(t, f.Offer(t.Context(), scaler(f, "1.7.0"), scaler(f, "1.8.0"), mailer(f, "1.0.0")))
	setChannels(t, f, "1.7.0", "1.8.0")
	v := mailer(f, "1.0.0")
	both := []v1beta2.ChannelVersion{sample.Channel("regular", "1.0.0"), sample.Channel("fast", "1.0.0")}
	must(t, f.Release(t.Context(), v.Module, v.Component(), both...))
}

// setChannels sets the versions of module scaler in the channels "regular" and "fast".
func setChannels(t *testing.T, f *fleet.Fleet, regular, fast string) {
	t.Helper()
	v := scaler(f, regular)
	both := []v1beta2.ChannelVersion{sample.Channel("regular", regular), sample.Channel("fast", fast)}
	must(t, f.Release(t.Context(), v.Module, v.Component(), both...))
}

func last(data []byte, n int) []byte {
	return data[max(0, len(data)-n):]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runtimeWith adds a runtime with the channel "regular" and waits until the modules are ready. In a shared fleet, all
// names get a suffix (see shareFleet).
func runtimeWith(t *testing.T, f *fleet.Fleet, id string, modules map[string]string) *fleet.Runtime {
	t.Helper()
	var names []string
	for name := range modules {
		names = append(names, f.Own(name))
	}
	r, err := f.AddRuntime(t.Context(), f.Own(id), "regular", names...)
	must(t, err)
	for name, version := range modules {
		must(t, r.UntilState(t.Context(), f.Own(name), version, v1beta2.StateReady))
	}
	return r
}

// managed returns a spec.modules entry for a managed module.
func managed(name string) v1beta2.Module {
	return v1beta2.Module{Name: name, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete}
}

// promote sets the same version of module scaler in the channels "regular" and "fast".
func promote(t *testing.T, f *fleet.Fleet, version string) {
	t.Helper()
	setChannels(t, f, version, version)
}

func inKyma(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: name}
}

func settings(ctx context.Context, r *fleet.Runtime) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	err := r.API.Get(ctx, inKyma("scaler-settings"), config)
	return config, err
}

// change updates an object, and retries after a conflict.
func change[T client.Object](t *testing.T, api client.Client, object T, how func(T)) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		how(object)
		return api.Update(t.Context(), object)
	}))
}

// drift changes one of module scaler's objects, which the agent must correct.
func drift(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	config, err := settings(t.Context(), r)
	must(t, err)
	change(t, r.API, config, func(c *corev1.ConfigMap) { c.Data["level"] = "debug" })
}

// until waits for up to limit or fleet.LongTimeout, whichever is longer, because concurrent scenarios slow each other
// down.
func until(t *testing.T, limit time.Duration, what string, seen func() (bool, string)) {
	t.Helper()
	must(t, fleet.Until(t.Context(), max(limit, fleet.LongTimeout), what, seen))
}
