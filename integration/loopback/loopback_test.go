package loopback

import (
	"net"
	"testing"
)

// TestAddressStaysFreeWhileOtherProgramsConnect uses all addresses at the same time. Other listeners and connections on
// 127.0.0.1 take the same ports.
func TestAddressStaysFreeWhileOtherProgramsConnect(t *testing.T) {
	for range 20 {
		address, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		if host == "127.0.0.1" {
			t.Skip("the system has no other loopback address")
		}
		if other, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			t.Cleanup(func() { _ = other.Close() })
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatalf("the address is in use: %v", err)
		}
		t.Cleanup(func() { _ = listener.Close() })
	}
}
