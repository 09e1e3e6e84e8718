package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// maxSlices limits the EndpointSlices of a Service that are read.
const maxSlices = 20

// addresses are the endpoints of a port of a Service, as HOST:PORT.
type addresses struct {
	all   []string
	until time.Time
}

// contextKey is the key of a request's Service in its context.
type contextKey struct{}

// newTransport returns a transport that connects to the Service in the request's context. It keeps few idle
// connections: most intervals are longer than a server keeps them.
func newTransport(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			all, ok := ctx.Value(contextKey{}).([]string)
			if !ok {
				return nil, errors.New("the request names no Service")
			}
			var problems []error
			for _, address := range all {
				connection, err := dial(ctx, network, address)
				if err == nil {
					return connection, nil
				}
				problems = append(problems, err)
			}
			return nil, errors.Join(problems...)
		},
		// A Service has no certificate of a public authority, and a measurement trusts no response.
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
			MinVersion:         tls.VersionTLS12,
		}, //nolint:gosec // see above
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    1,
		MaxIdleConns:           10,
		IdleConnTimeout:        40 * time.Second,
		DisableCompression:     true, // a compressed body could be a bomb
	}
}

// client returns a client for requests to a Service. It follows no redirects.
func (p *Prober) client() *http.Client {
	return &http.Client{
		Transport:     limited(p.transport, maxBodyBytes),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// origin returns SCHEME://HOST:PORT of a Service.
func origin(s fleet.ServiceReference) string {
	scheme := s.Scheme
	if scheme == "" {
		scheme = "http"
	}
	return scheme + "://" + net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(s.Port)))
}

// reaching returns a context whose requests connect to the endpoints of a Service.
func (p *Prober) reaching(ctx context.Context, s fleet.ServiceReference) (context.Context, error) {
	name := origin(s)
	p.mu.Lock()
	known, ok := p.addresses[name]
	p.mu.Unlock()
	if !ok || time.Now().After(known.until) {
		all, err := p.resolve(ctx, s)
		if err != nil {
			return nil, err
		}
		known = addresses{all, time.Now().Add(addressLifetime)}
		p.mu.Lock()
		if len(p.addresses) >= maxKept {
			clear(p.addresses)
		}
		p.addresses[name] = known
		p.mu.Unlock()
	}
	return context.WithValue(ctx, contextKey{}, known.all), nil
}

// unreachable has the next measurement read the addresses of a Service again.
func (p *Prober) unreachable(s fleet.ServiceReference) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.addresses, origin(s))
}

// resolve returns the ready endpoints of a Service from the API server.
func (p *Prober) resolve(ctx context.Context, s fleet.ServiceReference) ([]string, error) {
	var service corev1.Service
	if err := p.cluster.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, &service); err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, fmt.Errorf("service %s/%s is of type ExternalName: it has no endpoints in the runtime", s.Namespace,
			s.Name)
	}
	portName, found := "", false
	for _, port := range service.Spec.Ports {
		if port.Port == s.Port && (port.Protocol == "" || port.Protocol == corev1.ProtocolTCP) {
			portName, found = port.Name, true
		}
	}
	if !found {
		return nil, fmt.Errorf("service %s/%s has no TCP port %d", s.Namespace, s.Name, s.Port)
	}
	var published discoveryv1.EndpointSliceList
	err := p.cluster.List(ctx, &published, client.InNamespace(s.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: s.Name}, client.Limit(maxSlices))
	if err != nil {
		return nil, err
	}
	all := endpointsOf(published.Items, portName)
	if len(all) == 0 {
		return nil, fmt.Errorf("service %s/%s has no ready endpoint", s.Namespace, s.Name)
	}
	// A user of the runtime can write an EndpointSlice with the addresses of the API server.
	servers := p.apiServers(ctx)
	for _, address := range all {
		if at, err := netip.ParseAddrPort(address); err != nil {
			return nil, fmt.Errorf("endpoint of Service %s/%s: %w", s.Namespace, s.Name, err)
		} else if slices.Contains(servers, plain(at)) {
			return nil, fmt.Errorf("%s: refused: it is the API server", address)
		}
	}
	return all, nil
}

// apiServers returns the addresses of the API server: of all its endpoints, ready or not, and of its Service. An
// account that cannot read them gets none, and the configured address is still refused.
func (p *Prober) apiServers(ctx context.Context) []netip.AddrPort {
	var hosts []string
	var ports []int32
	var published discoveryv1.EndpointSliceList
	if err := p.cluster.List(ctx, &published, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingLabels{discoveryv1.LabelServiceName: apiServerService}); err == nil {
		for _, slice := range published.Items {
			for _, endpoint := range slice.Endpoints {
				hosts = append(hosts, endpoint.Addresses...)
			}
			for _, port := range slice.Ports {
				ports = append(ports, ptr.Deref(port.Port, 0))
			}
		}
	}
	var service corev1.Service
	key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: apiServerService}
	if err := p.cluster.Get(ctx, key, &service); err == nil {
		hosts = append(hosts, service.Spec.ClusterIPs...)
		for _, port := range service.Spec.Ports {
			ports = append(ports, port.Port)
		}
	}
	var all []netip.AddrPort
	for _, host := range hosts {
		for _, port := range ports {
			if at, err := netip.ParseAddr(host); err == nil {
				all = append(all, plain(netip.AddrPortFrom(at, uint16(port)))) //nolint:gosec // the API server checks ports
			}
		}
	}
	return all
}

// plain returns the form of an address that comparisons need.
func plain(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(store.Plain(at.Addr()), at.Port())
}

// apiServerService is the Service of the API server in namespace default.
const apiServerService = "kubernetes"

// maxEndpoints limits the endpoints that one request tries.
const maxEndpoints = 3

func endpointsOf(found []discoveryv1.EndpointSlice, portName string) []string {
	var all []string
	for _, slice := range found {
		if slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, port := range slice.Ports {
			if port.Port == nil || (port.Name != nil && *port.Name != portName) ||
				(port.Name == nil && portName != "") {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
					continue
				}
				for _, address := range endpoint.Addresses {
					if len(all) < maxEndpoints {
						all = append(all, net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
					}
				}
			}
		}
	}
	return all
}
