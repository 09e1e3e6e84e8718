package store

import (
	"net/netip"
	"slices"
	"strings"
)

// addressKinds is a bit mask of the kinds of IP addresses to which a request can connect.
type addressKinds uint8

const (
	reachPublic addressKinds = 1 << iota
	// reachPrivate means private addresses and all reserved addresses that the other constants do not include.
	reachPrivate
	// reachLinkLocal means link-local addresses, such as the metadata services of cloud providers.
	reachLinkLocal
	reachLoopback
)

func (r addressKinds) String() string {
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

// reservedRanges lists the reserved address ranges that no method of package netip covers.
//
// Source: IANA's registries of special-purpose addresses.
var reservedRanges = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"),
	// IPv4-translated and site-local IPv6 addresses, and Azure's platform address
	netip.MustParsePrefix("::ffff:0:0:0/96"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("168.63.129.16/32"),
}

var (
	// thisNetwork contains addresses that Linux routes to the local machine.
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	// nat64Prefix is the IPv6 prefix that NAT64 uses for IPv4 addresses (RFC 6052).
	nat64Prefix = netip.MustParsePrefix("64:ff9b::/96")
)

// PlainAddress returns an address without its IPv6 zone. It converts an IPv4-mapped or NAT64 address to the IPv4
// address.
func PlainAddress(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if nat64Prefix.Contains(address) {
		bytes := address.As16()
		address = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return address
}

func addressKindOf(address netip.Addr) addressKinds {
	address = PlainAddress(address)
	switch {
	case address.IsLoopback(), address.IsUnspecified(), thisNetwork.Contains(address):
		return reachLoopback
	case address.IsLinkLocalUnicast(), address.IsLinkLocalMulticast(), address.IsInterfaceLocalMulticast():
		return reachLinkLocal
	case !address.IsGlobalUnicast(), address.IsPrivate():
		return reachPrivate
	case slices.ContainsFunc(reservedRanges, func(n netip.Prefix) bool { return n.Contains(address) }):
		return reachPrivate
	}
	return reachPublic
}

// localDomains are top-level domains that exist only in private networks.
var localDomains = []string{"localhost", "local", "internal", "svc"}

// IsInternalHost reports whether HOST or HOST:PORT is the local machine, a private address or a name of a private
// network. It does not resolve names.
func IsInternalHost(hostPort string) bool {
	host := strings.ToLower(hostPort)
	if bare, bracketed := strings.CutPrefix(host, "["); bracketed {
		host, _, _ = strings.Cut(bare, "]")
	} else if strings.Count(host, ":") == 1 {
		host, _, _ = strings.Cut(host, ":")
	}
	host, _, _ = strings.Cut(host, "%") // remove the zone of an IPv6 address
	host = strings.TrimSuffix(host, ".")
	if address, err := netip.ParseAddr(host); err == nil {
		return addressKindOf(address) != reachPublic
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	// A public name never ends with a number. Some resolvers accept 127.1, 2130706433 and 0x7f.1 as addresses.
	numeric := last == "" || last[0] >= '0' && last[0] <= '9'
	return numeric || len(labels) == 1 || slices.Contains(localDomains, last)
}
