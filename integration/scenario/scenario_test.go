// Package scenario says what happens to whom: each test is a story over real API servers, a real registry and the project's two
// programs as their users run them.
package scenario

import (
	"context"
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

// clusters are those of all stories, one after the other.
var clusters cluster.Pool

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	flag.Parse()
	if err := turns.replaceFlag(flag.Lookup("test.parallel")); err != nil {
		panic(err)
	}
	if len(cluster.CollectSeldom()) > 0 {
		debug.SetGCPercent(cluster.CollectAt)
	}
	code := m.Run()
	if err := clusters.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "scenario:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// startFleet starts a fleet that offers nothing, and shows the logs of a story that went wrong.
func startFleet(t *testing.T, options fleet.Options) *fleet.Fleet {
	t.Helper()
	besideOthers(t)
	options.Progress, options.Clusters = os.Stderr, &clusters
	f, err := fleet.Start(t.Context(), options)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(f.Dir, "*.log"))
			for _, path := range logs {
				if data, err := os.ReadFile(path); err == nil {
					t.Logf("%s:\n%s", filepath.Base(path), last(data, 6000))
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// newFleet starts a fleet that offers scaler 1.7.0 (regular) and 1.8.0 (fast) and mailer 1.0.0.
func newFleet(t *testing.T, options fleet.Options) *fleet.Fleet {
	t.Helper()
	f := startFleet(t, options)
	must(t, f.Offer(t.Context(), sample.Scaler("1.7.0"), sample.Scaler("1.8.0"), sample.Mailer("1.0.0")))
	must(t, f.Release(t.Context(), "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.7.0"), sample.Channel("fast", "1.8.0")))
	must(t, f.Release(t.Context(), "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.0.0"), sample.Channel("fast", "1.0.0")))
	return f
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

// runtimeWith adds a runtime of channel regular and waits until the modules are ready.
func runtimeWith(t *testing.T, f *fleet.Fleet, id string, modules map[string]string) *fleet.Runtime {
	t.Helper()
	var names []string
	for name := range modules {
		names = append(names, name)
	}
	r, err := f.AddRuntime(t.Context(), id, "regular", names...)
	must(t, err)
	for name, version := range modules {
		must(t, r.UntilState(t.Context(), name, version, v1beta2.StateReady))
	}
	return r
}

func promote(t *testing.T, f *fleet.Fleet, version string) {
	t.Helper()
	must(t, f.Release(t.Context(), "scaler", sample.Scaler("").Component(), sample.Channel("regular", version), sample.Channel("fast", version)))
}

func inKyma(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: name}
}

func settings(ctx context.Context, r *fleet.Runtime) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	err := r.API.Get(ctx, inKyma("scaler-settings"), config)
	return config, err
}

// change gets an object and updates it, again when somebody else was faster, as publisher and agents are at any time.
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

// drift changes an object of module scaler as somebody does whom the agent has to correct.
func drift(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	config, err := settings(t.Context(), r)
	must(t, err)
	change(t, r.API, config, func(c *corev1.ConfigMap) { c.Data["level"] = "debug" })
}

// until waits for as long as is generous at least, as the others may have the processors.
func until(t *testing.T, limit time.Duration, what string, seen func() (bool, string)) {
	t.Helper()
	must(t, fleet.Until(t.Context(), max(limit, fleet.Generous), what, seen))
}
