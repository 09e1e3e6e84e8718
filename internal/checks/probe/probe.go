// Package probe measures the checks of modules in a runtime. Input is a check, output a checks.Measurement.
//
// The expressions, queries and Jobs come from module teams and operators of the control plane, and the responses from
// any workload of the runtime. The package limits the time, size and cost of each measurement, and the text that it
// returns. It connects to endpoints of Services by their addresses from the API server. It needs no cluster DNS,
// follows no redirects and sends no credentials.
//
// A Prober uses the rights of one account. Nothing but the Job of a check writes to the API server.
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
)

// Limits of one measurement.
const (
	maxBodyBytes = 1 << 20
	// maxAnswerBytes limits a response of the API server.
	maxAnswerBytes = 16 << 20
	// addressLifetime is the time for which the addresses of a Service are kept.
	addressLifetime = time.Minute
	// maxKept limits the kept programs and addresses. A bundle has at most as many checks in practice.
	maxKept = 1_000
)

// Options configure a Prober.
type Options struct {
	// Config connects to the runtime with the rights of the account.
	Config *rest.Config
	// Mapper finds the resources of kinds. Nil creates one.
	Mapper meta.RESTMapper
	// Guard returns an error for a Job that a module must not write. Nil allows all Jobs.
	Guard func(*unstructured.Unstructured) error
	// Mask removes secrets from a text before the text is shortened. Nil keeps all.
	Mask func(string) string
}

// Subject is the module that a measurement is for.
type Subject struct {
	Module, Version string
	// Namespaces are the allowed namespaces of the module's Jobs. Nil means all.
	Namespaces []string
}

// Prober measures checks with the rights of one account. It is safe for concurrent use.
type Prober struct {
	options   Options
	cluster   client.Client
	pods      corev1client.PodsGetter
	transport *http.Transport
	apiServer []netip.AddrPort
	env       *cel.Env
	reads     reads

	mu        sync.Mutex // guards the fields below
	programs  map[string]cel.Program
	addresses map[string]addresses
}

// New returns a Prober. It connects to the API server only when it measures.
func New(options Options) (*Prober, error) {
	config := rest.CopyConfig(options.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return limited(next, maxAnswerBytes) })
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
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	p := &Prober{
		options: options, cluster: cluster, pods: pods, apiServer: apiServerOf(config), env: env,
		reads: reads{kept: map[selection]*read{}}, programs: map[string]cel.Program{},
		addresses: map[string]addresses{},
	}
	p.transport = newTransport(store.InsideDialer(p.refuse))
	return p, nil
}

// apiServerOf returns the configured address of the API server, if it is not a name.
func apiServerOf(config *rest.Config) []netip.AddrPort {
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
		port = uint16(number) //nolint:gosec // LookupPort returns ports only
	}
	return []netip.AddrPort{plain(netip.AddrPortFrom(at, port))}
}

// refuse refuses the API server: a check could otherwise use the agent's place in the network.
func (p *Prober) refuse(at netip.AddrPort) error {
	for _, known := range p.apiServer {
		if known == at {
			return fmt.Errorf("%s: refused: it is the API server", at)
		}
	}
	return nil
}

// Measure measures a check once, within its timeout.
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
	m.Message = bundle.Bounded(p.masked(m.Message), bundle.MaxCheckMessageBytes)
	m.Value = bundle.Bounded(p.masked(m.Value), bundle.MaxCheckValueBytes)
	return m
}

// masked returns a text as one printable line without secrets.
func (p *Prober) masked(text string) string {
	if p.options.Mask != nil {
		text = p.options.Mask(text)
	}
	return bundle.PrintableLine(text)
}

// Before returns the value of a query before an upgrade, "" if it cannot be measured.
func (p *Prober) Before(ctx context.Context, d checks.Definition) string {
	if d.PromQL == nil || d.Problem != "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout.Duration)
	defer cancel()
	value, err := p.query(ctx, *d.PromQL)
	if err != nil {
		return ""
	}
	return checks.FormatNumber(value)
}

func explain(ctx context.Context, err error, timeout time.Duration) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("the measurement did not end within %s", timeout)
	}
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, whose query can be long
	}
	return err.Error()
}
