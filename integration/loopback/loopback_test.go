package loopback

import (
	"errors"
	"net"
	"os"
	"os/exec"
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

func TestListenAtWaitsForProgramsThatHoldTheListener(t *testing.T) {
	first, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	held, err := first.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), "sleep", "0.3")
	program.ExtraFiles = []*os.File{held}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Wait() })
	if err := errors.Join(held.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	if early, err := net.Listen("tcp", first.Addr().String()); err == nil {
		t.Skip("this system allows a second listener", early.Close())
	}
	second, err := ListenAt(t.Context(), first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
