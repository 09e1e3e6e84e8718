package component

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// foreign opens a repository that a descriptor names, for reading. What a descriptor says is foreign: neither it nor the registry
// that it names may lead the publisher to addresses of its own network that nobody configured.
func (r *Reader) foreign(name string, place store.Store) (oras.ReadOnlyTarget, *remote.Repository, error) {
	host, _, _ := strings.Cut(name, "/")
	if r.internal(host, place) {
		return nil, nil, fmt.Errorf("access: %s is an address of this network: name that registry with --components to allow it", host)
	}
	repository, err := r.Registries.Repository(name)
	if err != nil {
		return nil, nil, err
	}
	if !r.configured(host, place) {
		client, ok := repository.Client.(*auth.Client)
		if !ok {
			return nil, nil, fmt.Errorf("access: %s: its client cannot be kept out of this network", host)
		}
		repository.Client = r.guard(client, place)
	}
	if r.Cached != nil {
		return r.Cached(repository), repository, nil
	}
	return repository, repository, nil
}

// guard returns the client with its credentials and connections, for a registry that nobody configured.
func (r *Reader) guard(client *auth.Client, place store.Store) *auth.Client {
	guarded, inner := *client, http.Client{}
	if client.Client != nil {
		inner = *client.Client
	}
	if inner.Transport == nil {
		inner.Transport = http.DefaultTransport
	}
	inner.Transport = guardedTransport{next: inner.Transport, internal: func(host string) bool { return r.internal(host, place) }}
	guarded.Client = &inner
	return &guarded
}

// guardedTransport refuses where redirects and token services lead, by the same rule as the address they were found at.
type guardedTransport struct {
	next     http.RoundTripper
	internal func(hostPort string) bool
}

func (g guardedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if g.internal(request.URL.Host) {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("the registry leads to %s, which is an address of this network", request.URL.Host)
	}
	return g.next.RoundTrip(request)
}

// configured reports whether a host is that of a source or of the place.
func (r *Reader) configured(hostPort string, place store.Store) bool {
	if place != nil && strings.HasPrefix(place.String(), hostPort+"/") {
		return true
	}
	return slices.ContainsFunc(r.Sources, func(s Source) bool {
		registry, ok := s.(Registry)
		return ok && registry.host() == hostPort
	})
}

// internal reports whether a host is, by its name or address, one of this machine or network and not one of the configured ones.
// What a public name resolves to is not looked at: a company's registries may well have private addresses.
func (r *Reader) internal(hostPort string, place store.Store) bool {
	return !r.configured(hostPort, place) && isInternal(hostPort)
}

// localDomains are names that only mean something inside a network, by RFC 6761, RFC 6762, ICANN's reservation of "internal", and
// Kubernetes' services.
var localDomains = []string{"localhost", "local", "internal", "svc"}

func isInternal(hostPort string) bool {
	host := strings.ToLower(hostPort)
	if bare, bracketed := strings.CutPrefix(host, "["); bracketed {
		host, _, _ = strings.Cut(bare, "]")
	} else if strings.Count(host, ":") == 1 {
		host, _, _ = strings.Cut(host, ":")
	}
	host, _, _ = strings.Cut(host, "%") // the zone of an address
	host = strings.TrimSuffix(host, ".")
	if address, err := netip.ParseAddr(host); err == nil {
		return isInternalAddress(address.Unmap())
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	// No domain is a number, but some resolvers read 127.1, 2130706433 and 0x7f.1 as addresses.
	numeric := last == "" || last[0] >= '0' && last[0] <= '9'
	return numeric || len(labels) == 1 || slices.Contains(localDomains, last)
}

// internalNetworks are not for everybody, beside those that netip knows: this network, shared addresses of providers, protocol
// assignments, benchmarks, and IPv4 inside of IPv6.
//
// Source: IANA's registries of special-purpose addresses.
var internalNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
}

func isInternalAddress(address netip.Addr) bool {
	return !address.IsGlobalUnicast() || address.IsPrivate() ||
		slices.ContainsFunc(internalNetworks, func(n netip.Prefix) bool { return n.Contains(address) })
}
