package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// pullProduct is kyma-pull's side of the comparison: an agent whose runtime has one module per application. The
// publisher uses a separate API server.
type pullProduct struct {
	apps    int
	options options
	pool    *cluster.Pool
	fleet   *fleet.Fleet
	runtime *fleet.Runtime
	config  *rest.Config
	agents  []int
	bundles bundleDelay
}

const (
	runtimeID = "one"
	channel   = "regular"
	writers   = 16 // equals the publisher's default concurrency
)

func (o *pullProduct) name() string { return "kyma-pull" }

// prepare publishes the first bundle and starts the runtime's cluster.
func (o *pullProduct) prepare(ctx context.Context) error {
	o.pool = &cluster.Pool{}
	var err error
	o.fleet, err = fleet.Start(ctx, fleet.Options{
		LeaderElect: true, Measured: true, Clusters: o.pool, TimeLimit: longest,
		PublisherFlags: []string{"--agent-poll-interval", o.options.Poll.String(), "--agent-report-interval", "5m"},
		AgentFlags:     o.options.agentFlags(),
	})
	if err != nil {
		return err
	}
	o.fleet.Registry.Intercept(o.bundles.intercept)
	if err := forEachApplication(ctx, o.apps, func(ctx context.Context, i int) error {
		return o.fleet.Offer(ctx, app(i, first), app(i, second))
	}); err != nil {
		return err
	}
	if err := o.release(ctx, first); err != nil {
		return err
	}
	names := make([]string, o.apps)
	for i := range names {
		names[i] = appName(i)
	}
	if err := o.fleet.Control.Create(ctx, fleet.NewKyma(runtimeID, channel, names...)); err != nil {
		return err
	}
	if err := o.untilPublished(ctx, first); err != nil {
		return err
	}
	if err := o.fleet.Publisher().Stop(); err != nil {
		return err
	}
	if o.runtime, err = o.fleet.AddRuntime(ctx, runtimeID, channel); err != nil {
		return err
	}
	// AddRuntime has started the agent. Stop it before it sends a request.
	if err := o.runtime.Agent().Kill(); err != nil {
		return err
	}
	if o.config, err = clientcmd.BuildConfigFromFlags("", o.runtime.Kubeconfig()); err != nil {
		return err
	}
	o.config.QPS = -1
	return o.runtime.API.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

func (o *pullProduct) release(ctx context.Context, version string) error {
	return forEachApplication(ctx, o.apps, func(ctx context.Context, i int) error {
		v := app(i, version)
		return o.fleet.Release(ctx, v.Module, v.Component(), sample.Channel(channel, version))
	})
}

func (o *pullProduct) untilPublished(ctx context.Context, version string) error {
	return fleet.Until(ctx, longest,
		fmt.Sprintf("a bundle with %d modules of version %s is published", o.apps, version), func() (bool, string) {
			record, err := o.record(ctx)
			if err != nil {
				return false, err.Error()
			}
			n := 0
			if r := record.Status.Runtime; r != nil && r.Published != nil {
				for _, published := range r.Published.Versions {
					if published == version {
						n++
					}
				}
			}
			return n == o.apps, fmt.Sprint(n)
		})
}

func (o *pullProduct) record(ctx context.Context) (*v1beta2.Kyma, error) {
	if o.runtime != nil {
		return o.runtime.Record(ctx)
	}
	kyma := fleet.NewKyma(runtimeID, channel)
	err := o.fleet.Control.Get(ctx, client.ObjectKeyFromObject(kyma), kyma)
	return kyma, err
}

func (o *pullProduct) start(context.Context) error {
	if err := o.runtime.StartAgent(); err != nil {
		return err
	}
	pid, err := process.Child("skr-agent", "")
	o.agents = []int{pid}
	return err
}

func (o *pullProduct) stop() error {
	o.agents = nil
	return o.runtime.Agent().Stop()
}

func (o *pullProduct) programs() []int       { return o.agents }
func (o *pullProduct) profiles() string      { return o.options.profilesAddress }
func (o *pullProduct) cluster() *rest.Config { return o.config }
func (o *pullProduct) log() string           { return lastLines(o.runtime.Agent().Log()) }
func (o *pullProduct) settings() string {
	return fmt.Sprintf("one runtime whose Kyma has a module per application, agent with a lease, polls every %s",
		o.options.Poll)
}

func (o *pullProduct) units() kind {
	return kind{v1beta2.GroupVersion.WithKind("Manifest"), v1beta2.RuntimeNamespace}
}

// ready returns a function that reports whether a Manifest is Ready in this version.
func (o *pullProduct) ready(version string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		manifest := &v1beta2.Manifest{}
		if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, manifest); err != nil {
			return false
		}
		// status.state can belong to the previous version until the observed generation is current.
		ready := meta.FindStatusCondition(manifest.Status.Conditions, v1beta2.ConditionReady)
		return manifest.Spec.Version == version && manifest.Status.State == v1beta2.StateReady &&
			ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == manifest.Generation
	}
}

// revise promotes every application and returns the time of the agent's next poll. It stops the publisher during the
// promotion, so that one bundle contains all new versions. The measurement starts with the poll, because the time until
// then depends on the polling interval.
func (o *pullProduct) revise(ctx context.Context, before func() error) (time.Time, requests, error) {
	if err := o.fleet.Publisher().Stop(); err != nil {
		return time.Time{}, requests{}, err
	}
	if err := o.release(ctx, second); err != nil {
		return time.Time{}, requests{}, err
	}
	asked, answer := o.bundles.hold()
	defer answer()
	if err := o.fleet.StartPublisher(); err != nil {
		return time.Time{}, requests{}, err
	}
	limit, stop := context.WithTimeout(ctx, longest+o.options.Poll)
	defer stop()
	select {
	case <-asked:
	case <-limit.Done():
		return time.Time{}, requests{}, fmt.Errorf("wait for the agent to request the new bundle: %w", limit.Err())
	}
	err := before()
	return time.Now(), requests{}, err
}

// requestReconcile does nothing, because the agent watches the objects that it installed.
func (o *pullProduct) requestReconcile(context.Context, []int) (requests, error) {
	return requests{}, nil
}

// report returns the number of Ready modules once the publisher has read the agent's report.
func (o *pullProduct) report(ctx context.Context) (string, error) {
	if err := o.fleet.StartPublisher(); err != nil {
		return "", err
	}
	ready, enrolled := 0, false
	err := fleet.Until(ctx, 2*time.Minute+o.options.Poll, "the control plane shows every module as Ready",
		func() (bool, string) {
			record, err := o.record(ctx)
			if err != nil {
				return false, err.Error()
			}
			ready = 0
			for _, m := range record.Status.Modules {
				if m.Version == first && m.State == v1beta2.StateReady {
					ready++
				}
			}
			r := record.Status.Runtime
			// The publisher publishes another bundle after it has enrolled the agent's key. Wait for the report about
			// that bundle.
			enrolled = r != nil && r.Key != nil && r.Published != nil && r.Observed != nil &&
				r.Observed.Digest == r.Published.Digest
			return ready == o.apps && enrolled,
				fmt.Sprintf("%d modules Ready, agent enrolled with the newest bundle: %t", ready, enrolled)
		})
	if err != nil && ctx.Err() == nil {
		// If modules are missing, do not end the benchmark: the table shows the number and the error.
		return fmt.Sprintf("%d of %d (%v)", ready, o.apps, err), nil
	}
	return fmt.Sprintf("%d of %d", ready, o.apps), err
}

func (o *pullProduct) close() error {
	var problems []error
	if o.fleet != nil {
		problems = append(problems, o.fleet.Close())
	}
	return errors.Join(append(problems, o.pool.Close())...)
}

// bundleDelay can delay the registry's response to the next request for a new bundle. The benchmark can then take its
// first measurements before the agent receives the bundle.
type bundleDelay struct {
	mu            sync.Mutex // guards the fields below
	written       bool
	asked, answer chan struct{} // nil if no response is delayed
}

// hold delays the registry's response to the agent's next request for a new bundle. The channel asked is closed when
// the request arrives. answer releases the response and can be called several times.
func (b *bundleDelay) hold() (asked <-chan struct{}, answer func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delayFor := make(chan struct{})
	b.written, b.asked, b.answer = false, make(chan struct{}), delayFor
	return b.asked, sync.OnceFunc(func() { close(delayFor) })
}

func (b *bundleDelay) intercept(_ http.ResponseWriter, request *http.Request) bool {
	if !strings.Contains(request.URL.Path, "/"+bundle.DesiredRepository(runtimeID)+"/manifests/") {
		return false
	}
	if answer := b.delayFor(request.Method); answer != nil {
		select {
		case <-answer:
		case <-request.Context().Done():
		}
	}
	return false
}

// delayFor returns the channel that a request must wait for, or nil if its response is not delayed.
func (b *bundleDelay) delayFor(method string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.answer == nil:
		return nil
	case method == http.MethodPut:
		b.written = true
		return nil
	case method != http.MethodGet || !b.written:
		return nil
	}
	if b.asked != nil {
		close(b.asked)
		b.asked = nil
	}
	return b.answer
}

// forEachApplication calls the function do once per application. The constant writers limits the number of concurrent
// calls.
func forEachApplication(ctx context.Context, apps int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range apps {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// lastLines returns the last lines of a log.
func lastLines(log string) string {
	lines := slices.Collect(strings.Lines(log))
	return strings.Join(lines[max(0, len(lines)-10):], "")
}
