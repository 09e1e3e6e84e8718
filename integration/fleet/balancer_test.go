package fleet

import (
	"io"
	"net"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/loopback"
)

// greet returns the address of a server that sends a name to each caller.
func greet(t *testing.T, name string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(caller, name)
			_ = caller.Close()
		}
	}()
	return listener.Addr().String()
}

func TestBalancerSkipsStoppedPublishers(t *testing.T) {
	stopped, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	b, err := StartBalancer("127.0.0.1:0", greet(t, "a"), stopped, greet(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	served := map[string]int{}
	for range 6 {
		caller, err := net.Dial("tcp", b.Host())
		if err != nil {
			t.Fatal(err)
		}
		name, err := io.ReadAll(caller)
		if err != nil {
			t.Fatal(err)
		}
		served[string(name)]++
	}
	if served["a"]+served["b"] != 6 || served["a"] == 0 || served["b"] == 0 {
		t.Errorf("the publishers served %v, want 6 connections to a and b", served)
	}
}
