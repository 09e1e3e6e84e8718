// Package loopback provides local addresses for programs that tests and benchmarks start.
package loopback

import (
	"crypto/rand"
	"fmt"
	"net"
)

// Address returns HOST:PORT for a later listener. Another program that listens at all addresses can take the port
// meanwhile, so use Listen where possible.
func Address() (string, error) {
	listener, err := Listen()
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// Listen listens at a free port. The host is a random loopback IP, because another program's connection can take a port
// of 127.0.0.1 while a stopped server restarts. On a system with only 127.0.0.1, it is this IP.
func Listen() (net.Listener, error) {
	part := make([]byte, 3)
	_, _ = rand.Read(part) // never fails
	// 127.64.0.0/10 does not contain 127.0.0.1 and the addresses of local resolvers.
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+part[0]%64, part[1], 1+part[2]%254))
	if err != nil {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return listener, nil
}
