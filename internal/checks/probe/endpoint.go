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

// maxSlices limits the number of EndpointSlices that are read for a Service.
const maxSlices = 20

// addresses is a cache entry with the endpoints of a Service port, as HOST:PORT. The entry expires at the time until.
type addresses struct {
	all   []string
	until time.Time
}

type contextKey struct{}

// newTransport returns a transport that ignores the URL's host. It connects to the first reachable address in the
// request's context.
func newTransport(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			all, ok := ctx.Value(contextKey{}).([]string)
			if !ok {
				return nil, errors.New("the request's context contains no addresses")
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
		// Do not verify the certificate: Services' certificates are usually not signed by a public CA, and a
		// measurement does not need to authenticate the server.
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
			MinVersion:         tls.VersionTLS12,
		}, //nolint:gosec // see the comment above
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    1,
		MaxIdleConns:           10,
		IdleConnTimeout:        40 * time.Second,
		DisableCompression:     true, // a small compressed body could expand to gigabytes
	}
}

// client returns an HTTP client that does not follow redirects.
func (p *Prober) client() *http.Client {
	return &http.Client{
		Transport:     transport{p.transport, maxBodyBytes},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// serviceURL returns the URL for a Service port, as SCHEME://HOST:PORT.
func serviceURL(s fleet.ServiceReference) string {
	scheme := s.Scheme
	if scheme == "" {
		scheme = "http"
	}
	return scheme + "://" + net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(s.Port)))
}

// withAddresses returns a context for requests to a Service. The context contains the Service's addresses, which are
// cached.
func (p *Prober) withAddresses(ctx context.Context, s fleet.ServiceReference) (context.Context, error) {
	name := serviceURL(s)
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

// dropAddresses removes a Service's addresses from the cache.
func (p *Prober) dropAddresses(s fleet.ServiceReference) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.addresses, serviceURL(s))
}

// resolve returns a Service's ready endpoints from the API server.
func (p *Prober) resolve(ctx context.Context, s fleet.ServiceReference) ([]string, error) {
	var service corev1.Service
	if err := p.cluster.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, &service); err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, fmt.Errorf("service %s/%s is of type ExternalName and has no endpoints in the runtime", s.Namespace,
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
	all := readyEndpoints(published.Items, portName)
	if len(all) == 0 {
		return nil, fmt.Errorf("service %s/%s has no ready endpoint", s.Namespace, s.Name)
	}
	// Refuse endpoints of the API server. Otherwise, any user who can create EndpointSlices could make the agent send
	// requests to the API server.
	servers := p.apiServers(ctx)
	for _, address := range all {
		if at, err := netip.ParseAddrPort(address); err != nil {
			return nil, fmt.Errorf("endpoint of Service %s/%s: %w", s.Namespace, s.Name, err)
		} else if slices.Contains(servers, normalizeAddress(at)) {
			return nil, fmt.Errorf("connection to %s refused: it is the API server", address)
		}
	}
	return all, nil
}

// apiServers returns all endpoints and cluster IPs for the API server's Service. It returns nil if the account cannot
// read them.
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
				//nolint:gosec // the API server checks ports
				all = append(all, normalizeAddress(netip.AddrPortFrom(at, uint16(port))))
			}
		}
	}
	return all
}

// normalizeAddress normalizes an IP address for comparisons.
func normalizeAddress(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(store.PlainAddress(at.Addr()), at.Port())
}

const apiServerService = "kubernetes"

// maxEndpoints limits how many of a Service's endpoints one request tries.
const maxEndpoints = 3

func readyEndpoints(found []discoveryv1.EndpointSlice, portName string) []string {
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
