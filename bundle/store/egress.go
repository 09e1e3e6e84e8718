package store

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"
)

// egress is a program's HTTP transport for all registries. Requests to hosts that an operator configured can go to any
// address. For redirects, and for hosts whose names come from a component descriptor, egress allows only some kinds of
// addresses.
type egress struct {
	mu             sync.Mutex                       // guards the fields below
	base           *http.Transport                  // connects to any address
	configured     map[string]bool                  // value is false for a host from a component descriptor
	limited        map[addressKinds]*http.Transport // key is the set of allowed address kinds
	lastConnection map[string]addressKinds          // address kind of the last connection, by HOST:PORT
	foreign        addressKinds                     // allowed address kinds for hosts that are not in configured
}

const (
	// maxSeen limits the number of hosts in memory, because component descriptors can contain any number of hosts.
	maxSeen = 10_000
	// maxHostBytes is the maximum length of HOST:PORT. DNS cannot resolve longer names. With maxSeen, it limits each
	// map to 2.6 MB of names.
	maxHostBytes = 253 + len(":65535")
)

func newEgress(base *http.Transport) *egress {
	e := &egress{
		base: base, configured: map[string]bool{}, limited: map[addressKinds]*http.Transport{},
		lastConnection: map[string]addressKinds{}, foreign: reachPublic,
	}
	e.base.DialContext = e.dialer(reachPublic | reachPrivate | reachLinkLocal | reachLoopback | reachMetadata)
	return e
}

func (e *egress) allowHost(host string, configured bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.configured[host]; ok && (known || !configured) {
		return
	}
	if !configured && len(host) > maxHostBytes {
		return
	}
	if len(e.configured) >= maxSeen {
		for host, configured := range e.configured {
			if !configured {
				delete(e.configured, host) // open adds the host again at its next use
			}
		}
	}
	e.configured[host] = configured
}

func (e *egress) addAuthorities(authorities *x509.CertPool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closeIdleLocked()
	e.base = e.base.Clone() // a transport's configuration must not change after its first use
	e.base.TLSClientConfig.RootCAs = authorities
	clear(e.limited)
}

func (e *egress) closeIdle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closeIdleLocked()
}

func (e *egress) closeIdleLocked() {
	e.base.CloseIdleConnections()
	for _, transport := range e.limited {
		transport.CloseIdleConnections()
	}
}

func (e *egress) unlimited() *http.Transport {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.base
}

func (e *egress) RoundTrip(request *http.Request) (*http.Response, error) {
	allowed, everything := e.allowedAddresses(request)
	if everything {
		return e.unlimited().RoundTrip(request)
	}
	if e.isProxied(request) {
		// The proxy resolves the host name, so egress can check only the name and not the address.
		literal, err := netip.ParseAddr(request.URL.Hostname())
		if allowed == reachPublic && IsInternalHost(request.URL.Host) || err == nil && allowed&addressKindOf(literal) == 0 {
			return nil, newRefusedError(request, "the target is an internal address")
		}
		return e.unlimited().RoundTrip(request)
	}
	response, err := e.transport(allowed).RoundTrip(request)
	if err != nil && request.Response != nil {
		return nil, fmt.Errorf("redirected by %s: %w", firstRequest(request).URL.Host, err)
	}
	return response, err
}

func newRefusedError(request *http.Request, detail string) error {
	if request.Body != nil {
		_ = request.Body.Close()
	}
	return &RedirectError{From: firstRequest(request).URL.Host, To: request.URL.Host, Detail: detail}
}

func firstRequest(request *http.Request) *http.Request {
	for request.Response != nil && request.Response.Request != nil {
		request = request.Response.Request
	}
	return request
}

// allowedAddresses returns the address kinds that the request can connect to. It also reports whether the request can
// connect to any address, because an operator configured the host.
func (e *egress) allowedAddresses(request *http.Request) (allowed addressKinds, everything bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if request.Response != nil {
		return reachPublic | e.lastConnection[canonicalAddress(firstRequest(request))], false
	}
	switch configured, opened := e.configured[request.URL.Host]; {
	case configured:
		return 0, true
	case opened:
		// A registry from a component descriptor can be in a private network. It must not be on the local machine, at a
		// link-local address or at a metadata service.
		return reachPublic | reachPrivate, false
	}
	for host, configured := range e.configured {
		// A registry's token service can have the same host name with a different port.
		if name, _ := splitHost(host); configured && strings.EqualFold(name, request.URL.Hostname()) {
			return 0, true
		}
	}
	return e.foreign, false
}

func (e *egress) isProxied(request *http.Request) bool {
	find := e.unlimited().Proxy
	if find == nil {
		return false
	}
	proxy, err := find(request)
	return err == nil && proxy != nil
}

func (e *egress) transport(allowed addressKinds) *http.Transport {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.limited[allowed] == nil {
		transport := e.base.Clone()
		transport.DialContext = e.dialer(allowed)
		e.limited[allowed] = transport
	}
	return e.limited[allowed]
}

// dialer returns a dial function that connects only to allowed addresses. It checks the address after the host name was
// resolved.
func (e *egress) dialer(allowed addressKinds) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := net.Dialer{
			Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, ControlContext: control(allowed, address),
		}
		connection, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if at, err := netip.ParseAddrPort(connection.RemoteAddr().String()); err == nil {
			e.mu.Lock()
			if len(e.lastConnection) >= maxSeen {
				clear(e.lastConnection)
			}
			if len(address) <= maxHostBytes {
				e.lastConnection[address] = addressKindOf(at.Addr())
			}
			e.mu.Unlock()
		}
		return connection, nil
	}
}

func control(allowed addressKinds, host string) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
		if kind := addressKindOf(at.Addr()); allowed&kind == 0 {
			return &RedirectError{
				To: host,
				Detail: fmt.Sprintf("%s is a %s address, which is only allowed for configured hosts",
					at.Addr(), kind),
			}
		}
		return nil
	}
}

func canonicalAddress(request *http.Request) string {
	return net.JoinHostPort(request.URL.Hostname(), port(request.URL))
}
