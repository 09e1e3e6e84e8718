package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	quickLatency, slowLatency = 10 * time.Millisecond, 400 * time.Millisecond
	// requestEvery is the interval between two requests to the workload. readEvery is the interval between two reads of
	// the module's version.
	requestEvery, readEvery = 100 * time.Millisecond, time.Second
)

// firstSlow is the first slow version of scaler.
var firstSlow = semver.MustParse("1.9.0")

// manager is scaler's Deployment. Its image tag is scaler's version.
var manager = client.ObjectKey{Namespace: "kyma-system", Name: "scaler-manager"}

// workload serves requests with the latency of the scaler version in the runtime.
type workload struct {
	runtime  client.Client
	slow     atomic.Bool
	registry *prometheus.Registry
	duration prometheus.Histogram
}

func newWorkload(runtime client.Client) *workload {
	w := &workload{
		runtime: runtime, registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scaler_request_duration_seconds", Help: "Duration of requests to the sample module scaler.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1},
		}),
	}
	w.registry.MustRegister(w.duration)
	return w
}

// start serves requests and metrics on a port of host until ctx ends, and sends requests. It returns the address.
func (w *workload) start(ctx context.Context, host string) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	pages := http.NewServeMux()
	pages.Handle("/metrics", promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}))
	pages.HandleFunc("/", w.serve)
	server := &http.Server{Handler: pages, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logError("serve requests", err)
		}
	}()
	address := listener.Addr().String()
	go callRepeatedly(ctx, readEvery, func() { w.read(ctx) })
	go callRepeatedly(ctx, requestEvery, func() { go request(ctx, "http://"+address+"/") })
	return address, nil
}

// serve responds after the latency of the current version.
func (w *workload) serve(_ http.ResponseWriter, r *http.Request) {
	started, latency := time.Now(), quickLatency
	if w.slow.Load() {
		latency = slowLatency
	}
	select {
	case <-time.After(latency):
		w.duration.Observe(time.Since(started).Seconds())
	case <-r.Context().Done():
	}
}

// read reads the version from the Deployment. If the Deployment does not exist, the workload keeps its version.
func (w *workload) read(ctx context.Context) {
	var deployment appsv1.Deployment
	if err := w.runtime.Get(ctx, manager, &deployment); err != nil {
		if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			logError("read Deployment "+manager.String(), err)
		}
		return
	}
	_, tag, _ := strings.Cut(deployment.Spec.Template.Spec.Containers[0].Image, ":")
	version, err := semver.StrictNewVersion(tag)
	if err != nil {
		logError("parse the version in the image of Deployment "+manager.String(), err)
		return
	}
	w.slow.Store(!version.LessThan(firstSlow))
}

func request(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		logError("create a request", err)
		return
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			logError("send a request", err)
		}
		return
	}
	response.Body.Close()
}

// callRepeatedly calls f at once and then at each interval until ctx ends.
func callRepeatedly(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
