package main

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/bench/process"
)

// product is one of the two measured products: kyma-pull or Flux.
type product interface {
	name() string
	// settings describes the product's configuration for the table.
	settings() string
	// prepare starts everything except the measured programs, and releases the first version of every application.
	prepare(ctx context.Context) error
	// start and stop control the product's programs. programs returns their process IDs. profiles returns the address
	// of a program's pprof endpoint, or "" if it does not have one.
	start(ctx context.Context) error
	stop() error
	programs() []int
	profiles() string
	log() string
	// cluster returns the client configuration of the cluster with the applications.
	cluster() *rest.Config
	// units returns the kind of the objects whose status reports whether an application is Ready.
	units() kind
	ready(version string) func(*unstructured.Unstructured) bool
	// report describes the state of the applications in the control plane. It is empty for a product without a control
	// plane.
	report(ctx context.Context) (string, error)
	// requestReconcile makes the programs reconcile the applications, unless the programs watch the applications'
	// objects. It returns the number of requests that it sent.
	requestReconcile(ctx context.Context, apps []int) (requests, error)
	// revise releases the second version of every application. It calls the function before while the programs cannot
	// see the new version yet. It returns the time when the programs were notified of the new version, and the number
	// of requests that it sent.
	revise(ctx context.Context, before func() error) (time.Time, requests, error)
	close() error
}

// longest is the timeout for each wait.
const longest = 10 * time.Minute

// deleted is the number of Services to delete for the drift measurement.
const deleted = 20

// bench measures one product.
type bench struct {
	product
	options   options
	apiServer int
	figures   map[string]float64
	reported  string
}

func (b *bench) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, b.close()) }()
	b.figures = map[string]float64{}
	b.say("setting up %d applications", b.options.Apps)
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if b.apiServer, err = apiServerOf(b.cluster()); err != nil {
		return err
	}
	for _, stage := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"install", b.install}, {"report", b.notify}, {"idle", b.measureIdle}, {"drift", b.drift}, {"revision", b.revision},
		{"restart", b.restart},
	} {
		b.say("%s", stage.name)
		others, began := process.OthersCPU(), time.Now()
		if err := stage.run(ctx); err != nil {
			return fmt.Errorf("%s: %w\n%s", stage.name, err, b.log())
		}
		b.figures[stage.name+" others"] = 100 * float64(process.OthersCPU()-others) / float64(
			time.Since(began)) / float64(goruntime.NumCPU())
	}
	return b.stop()
}

// meter contains the programs' and the API server's CPU times and request counts since their start.
type meter struct {
	programs, apiServer time.Duration
	requests            requests
}

func (b *bench) read(ctx context.Context) (meter, error) {
	programs, err := cpuOf(b.programs()...)
	if err != nil {
		return meter{}, err
	}
	apiServer, err := cpuOf(b.apiServer)
	if err != nil {
		return meter{}, err
	}
	asked, err := requestsOf(ctx, b.cluster())
	return meter{programs, apiServer, asked}, err
}

// recordUsage waits until the programs are idle and records their resource usage since the earlier reading.
func (b *bench) recordUsage(ctx context.Context, name string, before meter) (time.Time, error) {
	since, programs, err := untilRest(ctx, longest, b.programs()...)
	if err != nil {
		return since, err
	}
	now, err := b.read(ctx)
	b.figures[name+" CPU"] = (programs - before.programs).Seconds()
	b.figures[name+" API server CPU"] = (now.apiServer - before.apiServer).Seconds()
	asked := now.requests.since(before.requests)
	b.figures[name+" requests"], b.figures[name+" writes"], b.figures[name+" dry runs"] = asked.All, asked.Writes,
		asked.DryRuns
	return since, err
}

// install starts the programs for the first time and waits until all applications are Ready.
func (b *bench) install(ctx context.Context) error {
	awaited, err := await(ctx, b.cluster(), b.units(), b.options.Apps, b.ready(first))
	if err != nil {
		return err
	}
	before, err := b.read(ctx) // the programs' usage is still 0
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	b.profile(ctx, "install")
	one, all, err := awaited.wait(ctx, longest)
	if err != nil {
		return err
	}
	b.figures["install"], b.figures["install first"] = all.Sub(began).Seconds(), one.Sub(began).Seconds()
	_, err = b.recordUsage(ctx, "install", before)
	return err
}

func (b *bench) notify(ctx context.Context) error {
	var err error
	if b.reported, err = b.report(ctx); err != nil || b.reported == "" {
		return err
	}
	_, _, err = untilRest(ctx, longest, b.programs()...)
	return err
}

// measureIdle measures the programs during a period without changes.
func (b *bench) measureIdle(ctx context.Context) error {
	with, err := b.usageDuring(ctx, b.options.Idle)
	if err != nil {
		return err
	}
	memory, err := process.UsageOf(b.programs()...)
	if err != nil {
		return err
	}
	b.figures["anonymous"], b.figures["file"], b.figures["peak"] = float64(memory.Anonymous), float64(memory.File),
		float64(memory.Peak)
	minutes := b.options.Idle.Minutes()
	b.figures["idle CPU"] = with.programs.Seconds() * 1000 / b.options.Idle.Seconds()
	b.figures["idle requests"], b.figures["idle writes"] = with.requests.All/minutes, with.requests.Writes/minutes
	return nil
}

// usageDuring waits for a duration and returns the resource usage in that time.
func (b *bench) usageDuring(ctx context.Context, while time.Duration) (meter, error) {
	before, err := b.read(ctx)
	if err != nil {
		return meter{}, err
	}
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return meter{}, ctx.Err()
	case <-timer.C:
	}
	now, err := b.read(ctx)
	return meter{now.programs - before.programs, now.apiServer - before.apiServer, now.requests.since(before.requests)},
		err
}

// drift deletes Services and waits until the controllers under test have created them again.
func (b *bench) drift(ctx context.Context) error {
	api, err := client.New(b.cluster(), client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return err
	}
	services := kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, Namespace: namespace}
	was, apps := map[string]string{}, []int{}
	for i := range min(deleted, b.options.Apps) {
		service := object(services.GroupVersionKind, appName(i), nil)
		service.SetNamespace(namespace)
		if err := api.Get(ctx, client.ObjectKeyFromObject(service), service); err != nil {
			return err
		}
		was[appName(i)], apps = string(service.GetUID()), append(apps, i)
	}
	awaited, err := await(ctx, b.cluster(), services, len(apps), func(o *unstructured.Unstructured) bool {
		uid := was[o.GetName()]
		return uid != "" && uid != string(o.GetUID())
	})
	if err != nil {
		return err
	}
	before, err := b.read(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for _, i := range apps {
		service := object(services.GroupVersionKind, appName(i), nil)
		service.SetNamespace(namespace)
		if err := api.Delete(ctx, service); err != nil {
			return err
		}
	}
	own, err := b.requestReconcile(ctx, apps)
	if err != nil {
		return err
	}
	_, all, err := awaited.wait(ctx, longest)
	if err != nil {
		return err
	}
	b.figures["drift"] = all.Sub(began).Seconds()
	before.requests = before.requests.plus(own).plus(changes(len(apps)))
	_, err = b.recordUsage(ctx, "drift", before)
	return err
}

func (b *bench) revision(ctx context.Context) error {
	awaited, err := await(ctx, b.cluster(), b.units(), b.options.Apps, b.ready(second))
	if err != nil {
		return err
	}
	var before meter
	began, own, err := b.revise(ctx, func() (err error) {
		before, err = b.read(ctx)
		return err
	})
	if err != nil {
		return err
	}
	before.requests = before.requests.plus(own)
	b.profile(ctx, "revision")
	one, all, err := awaited.wait(ctx, longest)
	if err != nil {
		return err
	}
	b.figures["revision"], b.figures["revision first"] = all.Sub(began).Seconds(), one.Sub(began).Seconds()
	_, err = b.recordUsage(ctx, "revision", before)
	return err
}

// restart restarts the programs without a new version.
func (b *bench) restart(ctx context.Context) error {
	if err := b.stop(); err != nil {
		return err
	}
	// Subtract the API server's requests to itself.
	own, err := b.usageDuring(ctx, b.options.Idle/2)
	if err != nil {
		return err
	}
	minutes := (b.options.Idle / 2).Minutes()
	b.figures["idle requests"] = max(0, b.figures["idle requests"]-own.requests.All/minutes)
	b.figures["idle writes"] = max(0, b.figures["idle writes"]-own.requests.Writes/minutes)
	before, err := b.read(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	b.profile(ctx, "restart")
	since, err := b.recordUsage(ctx, "restart", before)
	b.figures["restart"] = since.Sub(began).Seconds()
	return err
}
