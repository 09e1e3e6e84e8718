package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// The two host names let the registry count the publisher's and the agents' requests separately.
func TestRegistryIsReachableWithBothHostNames(t *testing.T) {
	stop, input := io.Pipe()
	output, addresses := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- serveRegistry(t.Context(), registry.Options{Dir: t.TempDir()}, stop, addresses)
		_ = addresses.Close()
	}()
	t.Cleanup(func() {
		if err := input.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	var started registryAddresses
	if err := json.NewDecoder(output).Decode(&started); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(started.Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{publisherHost, agentsHost} {
		response, err := http.Get("http://" + net.JoinHostPort(host, port) + "/v2/")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: status %s", host, response.Status)
		}
	}
}
