// Package probe runs module checks in a runtime. A Prober takes a check and returns a checks.Measurement.
//
// The responses come from arbitrary workloads in the runtime. The package therefore limits the time, size and cost of
// each measurement. It reads Services' addresses from the API server, so it does not need cluster DNS. It follows no
// redirects and sends no credentials to Services.
//
// A Prober accesses the API server with one account's permissions. Its only writes create and delete checks' Jobs.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/images"
)

// Limits for one measurement.
const (
	maxBodyBytes     = 1 << 20
	maxResponseBytes = 16 << 20
	addressLifetime  = time.Minute
	// maxKept limits the number of cached CEL programs and of cached Services.
	maxKept = 1_000
)

// Options configure a Prober.
type Options struct {
	// Config contains the address of the runtime's API server and the account's credentials.
	Config *rest.Config
	// Mapper maps kinds to REST resources. If nil, New creates a mapper.
	Mapper meta.RESTMapper
	// Guard returns an error for a Job that the module is not allowed to create. If nil, all Jobs are allowed.
	Guard func(*unstructured.Unstructured) error
	// Mask replaces secrets in text. If nil, text is not changed.
	Mask func(string) string
	// Memory is shared by all Probers in the process. If nil, New creates one.
	Memory *Memory
}

// Subject is the module whose check runs.
type Subject struct {
	Module, Version string
	// Namespaces lists the namespaces where the module can create Jobs. If nil, all namespaces are allowed.
	Namespaces []string
	// Images contains the rules for the images of the module's Jobs.
	Images images.ModuleRules
}

// Prober runs checks with one account's permissions. It is safe for concurrent use.
type Prober struct {
	options   Options
	cluster   client.Client
	pods      corev1client.PodsGetter
	transport *http.Transport
	apiServer []netip.AddrPort
	reads     readCache

	mu        sync.Mutex // guards the fields below
	programs  map[string]cel.Program
	addresses map[string]addresses
}

// New returns a Prober. It sends no request to the API server.
func New(options Options) (*Prober, error) {
	config := rest.CopyConfig(options.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, maxResponseBytes} })
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	cluster, err := client.New(config, client.Options{HTTPClient: httpClient, Mapper: options.Mapper})
	if err != nil {
		return nil, err
	}
	pods, err := corev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	if options.Memory == nil {
		options.Memory = NewMemory()
	}
	p := &Prober{
		options: options, cluster: cluster, pods: pods, apiServer: apiServerAddresses(config),
		reads: readCache{cachedReads: map[objectSelection]*cachedRead{}}, programs: map[string]cel.Program{},
		addresses: map[string]addresses{},
	}
	p.transport = newTransport(store.InternalDialer(p.checkAddress))
	return p, nil
}

// apiServerAddresses returns the IP address and port of the API server in config. It returns nil if config contains a
// host name.
func apiServerAddresses(config *rest.Config) []netip.AddrPort {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil
	}
	at, err := netip.ParseAddr(address.Hostname())
	if err != nil {
		return nil
	}
	port := map[bool]uint16{true: 443, false: 80}[address.Scheme == "https"]
	if number, err := net.LookupPort("tcp", address.Port()); address.Port() != "" && err == nil {
		port = uint16(number) //nolint:gosec // LookupPort returns at most 65535
	}
	return []netip.AddrPort{normalizeAddress(netip.AddrPortFrom(at, port))}
}

// checkAddress returns an error for an API server address, because checks must not use the agent's network access to
// the API server.
func (p *Prober) checkAddress(address netip.AddrPort) error {
	for _, known := range p.apiServer {
		if known == address {
			return fmt.Errorf("connection to %s refused: it is the API server", address)
		}
	}
	return nil
}

// Measure runs a check once, within its timeout.
func (p *Prober) Measure(ctx context.Context, subject Subject, d checks.Definition, before string) checks.Measurement {
	if d.Problem != "" {
		return checks.Measurement{Verdict: checks.Unknown, Message: d.Problem}
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout.Duration)
	defer cancel()
	var m checks.Measurement
	var err error
	switch {
	case d.CEL != nil:
		m, err = p.cel(ctx, *d.CEL)
	case d.HTTP != nil:
		m, err = p.http(ctx, *d.HTTP)
	case d.PromQL != nil:
		m, err = p.promQL(ctx, *d.PromQL, before)
	case d.Job != nil:
		m, err = p.job(ctx, subject, d)
	}
	if err != nil {
		m = checks.Measurement{Verdict: checks.Unknown, Message: explain(ctx, err, d.Timeout.Duration)}
	}
	m.Message = bundle.Bounded(p.maskSecrets(m.Message), bundle.MaxCheckMessageBytes)
	m.Value = bundle.Bounded(p.maskSecrets(m.Value), bundle.MaxCheckValueBytes)
	return m
}

// maskSecrets returns text without secrets as one printable line.
func (p *Prober) maskSecrets(text string) string {
	if p.options.Mask != nil {
		text = p.options.Mask(text)
	}
	return bundle.PrintableLine(text)
}

// MeasureBefore measures a check's value before an upgrade, for comparison: a PromQL query's number or an HTTP
// response's latency. It returns "" for other checks, and for a response that does not pass the check. It also returns
// "" for a query that fails or returns no finite number, for example an error rate without requests.
func (p *Prober) MeasureBefore(ctx context.Context, d checks.Definition) string {
	if d.PromQL == nil && d.HTTP == nil || d.Problem != "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout.Duration)
	defer cancel()
	if d.HTTP != nil {
		// The upgrade replaces the Pods, but a Pod of the old version can still respond for some time.
		defer p.transport.CloseIdleConnections()
		defer p.dropAddresses(d.HTTP.Service)
		m, err := p.http(ctx, *d.HTTP)
		if err != nil || m.Verdict != checks.Success {
			return ""
		}
		return m.Value
	}
	value, err := p.query(ctx, *d.PromQL)
	text := checks.FormatNumber(value)
	if _, finite := checks.ParseNumber(text); err != nil || !finite {
		return ""
	}
	return text
}

func explain(ctx context.Context, err error, timeout time.Duration) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		text := fmt.Sprintf("the measurement did not end within %s", timeout)
		if job := new(jobError); errors.As(err, job) && job.reason != "" {
			text += ": " + job.reason
		}
		return text
	}
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err // omits the URL, which can contain a long query
	}
	return err.Error()
}
