package signin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

const (
	// triesPerSecond and triesAtOnce limit the failed attempts per client.
	triesPerSecond = 5
	triesAtOnce    = 30
	// pendingAtOnce limits the simultaneous attempts per peer, such as an ingress controller.
	pendingAtOnce = 100
	// maxClients is the maximum number of clients whose attempts are counted.
	maxClients  = 10_000
	clientBytes = 512
)

type clientAddress struct {
	// peer is the connection's address. client is the client's address, which differs from peer behind a proxy.
	peer, client string
}

// clientAddressOf returns a request's origin. If the peer has a private or loopback address, it counts as a proxy, and
// the client's address is the entry in X-Forwarded-For that the outermost of the trusted proxies appended. proxies is
// the number of trusted proxies. A client whose request passes through fewer proxies can forge the entry.
func clientAddressOf(r *http.Request, proxies int) clientAddress {
	peer := parseAddress(r.RemoteAddr)
	from := clientAddress{peer: addressRange(peer), client: addressRange(peer)}
	if !peer.IsPrivate() && !peer.IsLoopback() {
		return from
	}
	entries := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	if at := len(entries) - proxies; proxies > 0 && at >= 0 {
		if client := parseAddress(strings.TrimSpace(entries[at])); client.IsValid() {
			from.client = addressRange(client)
		}
	}
	return from
}

// parseAddress parses ADDRESS or ADDRESS:PORT. For other text, the result is invalid.
func parseAddress(text string) netip.Addr {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	address, _ := netip.ParseAddr(text)
	return address.Unmap().WithZone("")
}

// addressRange returns the range of addresses that one client controls. An IPv6 host usually controls a /64.
func addressRange(address netip.Addr) string {
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}

// attemptLimiter limits the failed attempts of each client separately, so that one client cannot lock out others.
type attemptLimiter struct {
	mu      sync.Mutex // guards all fields and each client's attempts
	clients *memo.Memo[string, *attemptCount]
	pending map[string]int // pending attempts by peer
}

// attemptCount counts one client's attempts. A pending attempt counts as failed until it ends, so that the client
// cannot exceed the limit with concurrent attempts.
type attemptCount struct {
	failed  *rate.Limiter
	pending int
}

func newTries() *attemptLimiter {
	return &attemptLimiter{
		clients: memo.New(memo.Limit{Bytes: maxClients * clientBytes}, func(string, *attemptCount) int {
			return clientBytes
		}),
		pending: map[string]int{},
	}
}

// startAttempt reports whether a client may try again. If it returns true, the caller must call end with the result.
func (t *attemptLimiter) startAttempt(
	from clientAddress, now time.Time,
) (end func(now time.Time, failed bool), allowed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	client, known := t.clients.Get(from.client)
	if !known {
		client = &attemptCount{failed: rate.NewLimiter(triesPerSecond, triesAtOnce)}
		t.clients.Put(from.client, client)
	}
	if client.failed.TokensAt(now) < float64(client.pending+1) || t.pending[from.peer] == pendingAtOnce {
		return nil, false
	}
	client.pending++
	t.pending[from.peer]++
	return func(now time.Time, failed bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		client.pending--
		if t.pending[from.peer]--; t.pending[from.peer] == 0 {
			delete(t.pending, from.peer)
		}
		if failed {
			client.failed.AllowN(now, 1)
		}
	}, true
}
