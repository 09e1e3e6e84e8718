// Package loopback provides local addresses for programs that tests and benchmarks start.
package loopback

import (
	"crypto/rand"
	"fmt"
	"net"
)

// Address returns HOST:PORT for a later listener. The host is a random loopback IP, because another program's
// connection can take a free port of 127.0.0.1 before a listener uses it. On a system with only 127.0.0.1, it is this
// IP.
func Address() (string, error) {
	part := make([]byte, 3)
	_, _ = rand.Read(part) // never fails
	// 127.64.0.0/10 does not contain 127.0.0.1 and the addresses of local resolvers.
	address, err := listen(fmt.Sprintf("127.%d.%d.%d", 64+part[0]%64, part[1], 1+part[2]%254))
	if err != nil {
		return listen("127.0.0.1")
	}
	return address, nil
}

func listen(host string) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
