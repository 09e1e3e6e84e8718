package store

import (
	"net/netip"
	"slices"
	"strings"
)

// reach is a set of kinds of addresses, by the machines that they reach.
type reach uint8

const (
	// reachPublic are addresses with the same meaning everywhere.
	reachPublic reach = 1 << iota
	// reachPrivate are addresses of private networks, and all others that IANA reserves.
	reachPrivate
	// reachLinkLocal are link-local addresses. They include the metadata services of cloud providers.
	reachLinkLocal
	// reachLoopback are addresses of this machine.
	reachLoopback
)

func (r reach) String() string {
	switch r {
	case reachPublic:
		return "public"
	case reachPrivate:
		return "private"
	case reachLinkLocal:
		return "link-local"
	}
	return "loopback"
}

// setAside are the reserved prefixes that netip does not know: this network, shared addresses of providers, protocol
// assignments, benchmarks, and IPv4 within IPv6.
//
// Source: IANA's registries of special-purpose addresses.
var setAside = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"),
	// a provider's own, in every network
	netip.MustParsePrefix("::ffff:0:0:0/96"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("168.63.129.16/32"),
}

var (
	// thisNetwork reaches this machine on Linux, like 0.0.0.0.
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	// translated are IPv4 addresses as networks without IPv4 write them, RFC 6052.
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

// Plain returns the one form of an address that comparisons need: without a zone, and IPv4 for an IPv4 address that is
// written in IPv6 or translated by NAT64.
func Plain(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if translated.Contains(address) {
		bytes := address.As16()
		address = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return address
}

// reachOf returns the kind of an address.
func reachOf(address netip.Addr) reach {
	address = Plain(address)
	switch {
	case address.IsLoopback(), address.IsUnspecified(), thisNetwork.Contains(address):
		return reachLoopback
	case address.IsLinkLocalUnicast(), address.IsLinkLocalMulticast(), address.IsInterfaceLocalMulticast():
		return reachLinkLocal
	case !address.IsGlobalUnicast(), address.IsPrivate():
		return reachPrivate
	case slices.ContainsFunc(setAside, func(n netip.Prefix) bool { return n.Contains(address) }):
		return reachPrivate
	}
	return reachPublic
}

// localDomains are names that only mean something inside a network, by RFC 6761, RFC 6762, ICANN's reservation of
// "internal", and Kubernetes' services.
var localDomains = []string{"localhost", "local", "internal", "svc"}

// IsInternalHost reports whether the name or address in HOST or HOST:PORT belongs to this machine or network. It does
// not resolve public names; the dialer checks their addresses.
func IsInternalHost(hostPort string) bool {
	host := strings.ToLower(hostPort)
	if bare, bracketed := strings.CutPrefix(host, "["); bracketed {
		host, _, _ = strings.Cut(bare, "]")
	} else if strings.Count(host, ":") == 1 {
		host, _, _ = strings.Cut(host, ":")
	}
	host, _, _ = strings.Cut(host, "%") // the zone of an address
	host = strings.TrimSuffix(host, ".")
	if address, err := netip.ParseAddr(host); err == nil {
		return reachOf(address) != reachPublic
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	// No domain is a number, but some resolvers read 127.1, 2130706433 and 0x7f.1 as addresses.
	numeric := last == "" || last[0] >= '0' && last[0] <= '9'
	return numeric || len(labels) == 1 || slices.Contains(localDomains, last)
}
