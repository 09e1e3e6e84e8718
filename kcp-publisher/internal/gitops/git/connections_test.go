package git

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// The publisher opens the repository again for each poll.
func TestPollsLeaveNoConnectionsBehind(t *testing.T) {
	var begun, open atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			begun.Add(1)
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	for range 5 {
		repository, err := Open(Options{URL: server.URL + "/fleet.git"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := repository.Head(t.Context()); err == nil {
			t.Error("a missing repository returned a head")
		}
	}
	for deadline := time.Now().Add(time.Minute); open.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %d open connections of %d, want none", open.Load(), begun.Load())
		}
	}
	if begun.Load() == 0 {
		t.Error("no poll connected to the server")
	}
}
