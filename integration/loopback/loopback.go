// Package loopback provides local addresses for programs that tests and benchmarks start.
package loopback

import (
	"crypto/rand"
	"fmt"
	"net"
)

// Host returns a random loopback IP, so that its ports are free. A free port of 127.0.0.1 can become the local port of
// another program's connection before a listener uses it. If the system has only 127.0.0.1, Host returns that address.
func Host() (string, error) {
	part := make([]byte, 3)
	_, _ = rand.Read(part) // never fails
	// 127.64.0.0/10 does not contain 127.0.0.1 and the addresses of local resolvers.
	host := fmt.Sprintf("127.%d.%d.%d", 64+part[0]%64, part[1], 1+part[2]%254)
	address, err := listen(host)
	if err != nil {
		if address, err = listen("127.0.0.1"); err != nil {
			return "", err
		}
	}
	host, _, err = net.SplitHostPort(address)
	return host, err
}

// Address returns HOST:PORT for a later listener, with a host of its own.
func Address() (string, error) {
	host, err := Host()
	if err != nil {
		return "", err
	}
	return listen(host)
}

func listen(host string) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
