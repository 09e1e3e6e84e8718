// Command lend runs a command, such as go test, and lends clusters to its tests. At the end, it prints the number of
// started API servers.
package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: lend COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	environment := os.Environ()
	code, err := 1, limitServers()
	if err == nil {
		code, err = run(os.Args[1:], environment)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lend:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs the command with the given environment and the address of the lender. It returns the command's exit code.
func run(command, environment []string) (int, error) {
	listener, err := listen()
	if err != nil {
		return 0, err
	}
	log.SetLogger(logr.Discard()) // silences envtest
	l := cluster.NewLender(os.Stderr)
	served := make(chan error, 1)
	go func() { served <- l.Serve(listener) }()
	code, err := runWithSignals(command, append(environment, lender.Env+"="+listener.Addr().String()))
	err = errors.Join(err, listener.Close(), <-served)
	fmt.Fprintln(os.Stderr, "lend:", l.Summary())
	return code, err
}

// listen opens a socket whose name depends only on the working folder, so that go test can cache results.
func listen() (net.Listener, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(dir)) // never fails
	path := filepath.Join(os.TempDir(), fmt.Sprintf("kyma-pull-lender-%x", hash.Sum64()))
	if other, err := net.Dial("unix", path); err == nil {
		path = fmt.Sprintf("%s-%d", path, os.Getpid())
		if err := other.Close(); err != nil {
			return nil, err
		}
	} else if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of a killed lender: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return listener, nil
}

// limitServers limits each lent API server and its etcd to one thread, through the environment that they inherit from
// this process. With more API servers than cores, additional threads would only cost scheduling time.
func limitServers() error {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	return os.Setenv("GOMAXPROCS", "1")
}

// runWithSignals runs the command in an environment and forwards signals to it.
func runWithSignals(command, environment []string) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = environment
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for received := range signals {
			_ = cmd.Process.Signal(received) // fails only if the command has just ended
		}
	}()
	err := cmd.Wait()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		return max(exited.ExitCode(), 1), nil
	}
	return 0, err
}
