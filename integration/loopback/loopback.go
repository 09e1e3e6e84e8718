// Package loopback provides local addresses for programs that tests and benchmarks start.
package loopback

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Address returns a free HOST:PORT for another program, which can listen there later. In the same process, use Listen
// or ListenAt.
func Address() (string, error) {
	listener, err := Listen()
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// Listen listens at a free port of a random loopback IP. Ports of 127.0.0.1 are not safe: another program's connection
// can take the port while a stopped server restarts. On a system with only 127.0.0.1, Listen uses this IP.
func Listen() (net.Listener, error) {
	part := make([]byte, 3)
	_, _ = rand.Read(part) // never fails
	// 127.64.0.0/10 contains neither 127.0.0.1 nor the addresses of local resolvers.
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+part[0]%64, part[1], 1+part[2]%254))
	if err != nil {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return listener, nil
}

// listenTimeout is the time after which ListenAt gives up.
const listenTimeout = 10 * time.Second

// ListenAt listens at the address of a listener that is closed or closes soon. It retries while the address is in use,
// because a child process holds a copy of this process's listeners until it executes its program.
func ListenAt(ctx context.Context, address string) (listener net.Listener, err error) {
	timeout := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, listenTimeout, true,
		func(ctx context.Context) (bool, error) {
			listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
			return !errors.Is(err, syscall.EADDRINUSE), nil
		})
	return listener, errors.Join(err, timeout)
}
