package store

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// InternalDialer returns a dialer for endpoints in the runtime's own network. It refuses loopback and link-local
// addresses, cloud metadata services, and every address that the function refuse rejects. It checks the resolved
// address of each connection.
func InternalDialer(refuse func(netip.AddrPort) error) func(context.Context, string, string) (net.Conn, error) {
	check := func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
		at = netip.AddrPortFrom(PlainAddress(at.Addr()), at.Port())
		if kind := addressKindOf(at.Addr()); kind&(reachPublic|reachPrivate) == 0 {
			return fmt.Errorf("connection to %s refused: it is a %s address", at, kind)
		}
		return refuse(at)
	}
	dialer := net.Dialer{ControlContext: check}
	return dialer.DialContext
}
