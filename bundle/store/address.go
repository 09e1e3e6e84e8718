package store

import (
	"net/netip"
	"slices"
	"strings"
)

// addressKinds is a bit mask of IP address kinds that a request can connect to.
type addressKinds uint8

const (
	reachPublic addressKinds = 1 << iota
	// reachPrivate means private addresses and all reserved addresses that the other constants do not include.
	reachPrivate
	// reachLinkLocal means link-local addresses, such as most cloud metadata services.
	reachLinkLocal
	reachLoopback
	// reachMetadata means addresses of metadata services that are not link-local.
	reachMetadata
)

func (r addressKinds) String() string {
	switch r {
	case reachPublic:
		return "public"
	case reachPrivate:
		return "private"
	case reachLinkLocal:
		return "link-local"
	case reachMetadata:
		return "metadata service"
	}
	return "loopback"
}

// reservedRanges lists the reserved address ranges that package netip has no methods for.
//
// Source: IANA's registries of special-purpose addresses.
var reservedRanges = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"), // site-local IPv6 addresses
}

// metadataServices lists the addresses of the services that give credentials and settings to machines in a cloud. It
// omits link-local addresses.
//
// Source: documentation of the instance metadata of AWS (fd00:ec2::/32 also contains the credentials of EKS Pods),
// Google Cloud, Alibaba Cloud, Azure and Oracle Cloud.
var metadataServices = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"), netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"),
}

// embeddingRanges lists reserved IPv6 ranges whose last 32 bits are an IPv4 address: NAT64 with a local prefix,
// IPv4-compatible and IPv4-translated addresses. Gateways send packets for these addresses to the IPv4 address.
var embeddingRanges = []netip.Prefix{
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("::/96"), netip.MustParsePrefix("::ffff:0:0:0/96"),
}

// sixToFour is the reserved IPv6 range whose bits 16 to 47 are an IPv4 address (RFC 3056).
var sixToFour = netip.MustParsePrefix("2002::/16")

var (
	// thisNetwork contains addresses that Linux routes to the local machine.
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	// nat64Prefix is the IPv6 prefix that NAT64 uses for IPv4 addresses (RFC 6052).
	nat64Prefix = netip.MustParsePrefix("64:ff9b::/96")
)

// PlainAddress returns an address without its IPv6 zone. It converts an IPv6 address that contains an IPv4 address,
// such as an IPv4-mapped or NAT64 address, to that IPv4 address.
func PlainAddress(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if address.Is4() || address == netip.IPv6Loopback() || address == netip.IPv6Unspecified() {
		return address
	}
	bytes := address.As16()
	switch {
	case nat64Prefix.Contains(address), isIn(embeddingRanges, address):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return address
}

func isIn(ranges []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(n netip.Prefix) bool { return n.Contains(address) })
}

func addressKindOf(written netip.Addr) addressKinds {
	written = written.WithZone("")
	address := PlainAddress(written)
	switch {
	case address.IsLoopback(), address.IsUnspecified(), thisNetwork.Contains(address):
		return reachLoopback
	case address.IsLinkLocalUnicast(), address.IsLinkLocalMulticast(), address.IsInterfaceLocalMulticast():
		return reachLinkLocal
	case isIn(metadataServices, address):
		return reachMetadata
	case !address.IsGlobalUnicast(), address.IsPrivate():
		return reachPrivate
	case isIn(reservedRanges, address), isIn(embeddingRanges, written), sixToFour.Contains(written):
		return reachPrivate
	}
	return reachPublic
}

// localDomains are top-level domains that exist only in private networks.
var localDomains = []string{"localhost", "local", "internal", "svc"}

// IsInternalHost reports whether HOST or HOST:PORT is the local machine, a private address or a host name in a private
// network. It does not resolve names.
func IsInternalHost(hostPort string) bool {
	host := strings.ToLower(hostPort)
	if bare, bracketed := strings.CutPrefix(host, "["); bracketed {
		host, _, _ = strings.Cut(bare, "]")
	} else if strings.Count(host, ":") == 1 {
		host, _, _ = strings.Cut(host, ":")
	}
	host, _, _ = strings.Cut(host, "%") // remove an IPv6 address's zone
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
