package main

import (
	"net"
	"os"
	"testing"

	"github.com/kyma-pull/kyma-pull/hack/lender"
)

func TestLendReturnsExitCodeOfItsCommand(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for script, want := range map[string]int{
		"exit 0":                            0,
		"exit 3":                            3,
		"test -S \"$" + lender.Env + "\"":   0,
		"kill -9 $$ # as if it had crashed": 1,
	} {
		code, err := run([]string{"sh", "-c", script}, os.Environ())
		if err != nil || code != want {
			t.Errorf("%s: got %d, %v, want %d", script, code, err, want)
		}
	}
	if _, err := run([]string{"/no/such/program"}, nil); err == nil {
		t.Error("pass returned no error for a missing command")
	}
}

func TestSecondLenderInAFolderGetsItsOwnSocket(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	second, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	if first.Addr().String() == second.Addr().String() {
		t.Errorf("both listen at %s", first.Addr())
	}
	path := first.Addr().String()
	first.(*net.UnixListener).SetUnlinkOnClose(false) // leave the socket file behind, as a killed lender does
	for _, listener := range []net.Listener{first, second} {
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	again, err := listen()
	if err != nil {
		t.Fatalf("listen after a lender was killed: %v", err)
	}
	if again.Addr().String() != path {
		t.Errorf("listens at %s, want %s", again.Addr(), path)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
