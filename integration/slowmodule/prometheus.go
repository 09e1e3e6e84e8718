package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/hack/assets"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// startTimeout is the maximum time that Prometheus may need to start.
const startTimeout = time.Minute

// listening matches the line that Prometheus logs when its port is open.
var listening = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// server is a running Prometheus.
type server struct {
	process *fleet.Process
	dir     string
	address string
}

// startPrometheus starts a Prometheus that scrapes the target every second.
func startPrometheus(ctx context.Context, host, target string) (*server, error) {
	program, err := assets.EnsurePrometheus(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "slowmodule-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s}\n"+
		"scrape_configs:\n- job_name: scaler\n  static_configs:\n  - targets: [%q]\n", target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.process, err = fleet.Command{
		Binary: program, Log: s.log(), Args: []string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + net.JoinHostPort(host, "0"),
		},
	}.Start()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = fleet.Until(ctx, startTimeout, "Prometheus listens", func() (bool, string) {
		output := s.output()
		if found := listening.FindStringSubmatch(output); found != nil {
			s.address = found[1]
		}
		return s.address != "", output
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// untilMeasured waits until Prometheus can compute the rate of the requests in the last ten seconds.
func (s *server) untilMeasured(ctx context.Context) error {
	api, err := promapi.NewClient(promapi.Config{Address: "http://" + s.address})
	if err != nil {
		return err
	}
	return fleet.Until(ctx, startTimeout, "Prometheus measures the module", func() (bool, string) {
		result, _, _, err := promv1.NewAPI(api).Query(ctx, "rate(scaler_request_duration_seconds_count[10s]) > 0", time.Now())
		vector, ok := result.(model.Vector)
		return ok && len(vector) > 0, fmt.Sprint(result, err)
	})
}

func (s *server) log() string { return filepath.Join(s.dir, "log") }

// output returns the Prometheus log.
func (s *server) output() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *server) close() {
	if err := errors.Join(s.process.Stop(), os.RemoveAll(s.dir)); err != nil {
		logError("stop Prometheus", err)
	}
}

// publish creates the Service monitoring/prometheus with an address as its only endpoint.
func publish(ctx context.Context, runtime client.Client, address string) error {
	endpoint, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	// A previous run may have left the Service behind, with the address of its own Prometheus.
	service := client.ObjectKey{Namespace: "monitoring", Name: "prometheus"}
	return fleet.ExposeEndpoint(ctx, runtime, service, 9090, endpoint)
}
