package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
)

// resumeTimeout is the maximum time until the API server of a resumed cluster is ready.
const resumeTimeout = time.Minute

// freeze suspends the programs of an idle cluster, which would otherwise use CPU time. It suspends each program before
// the program's dependencies.
func (s *server) freeze() error {
	if err := s.signal(syscall.SIGSTOP, s.running()...); err != nil {
		return fmt.Errorf("freeze an idle cluster: %w", err)
	}
	s.frozen = true
	return nil
}

// thaw resumes the programs of a suspended cluster. It does not wait until the API server is ready.
func (s *server) thaw() error {
	if !s.frozen {
		return nil
	}
	programs := s.running()
	slices.Reverse(programs)
	if err := s.signal(syscall.SIGCONT, programs...); err != nil {
		return fmt.Errorf("resume a frozen cluster: %w", err)
	}
	s.frozen = false
	return nil
}

// revive resumes a suspended cluster and waits until its API server is ready.
func (s *server) revive(ctx context.Context) error {
	if err := s.thaw(); err != nil {
		return err
	}
	config, err := s.place().Config()
	if err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(
		ctx,
		20*time.Millisecond,
		resumeTimeout,
		true,
		func(ctx context.Context) (bool, error) {
			last = client.RESTClient().Get().AbsPath("/readyz").Timeout(time.Second).Do(ctx).Error()
			return last == nil, nil
		},
	)
	if err != nil {
		return fmt.Errorf("wait for the API server of a frozen cluster: %w", errors.Join(err, last))
	}
	return nil
}

// running returns the names of the running programs. Each program comes before its dependencies.
func (s *server) running() []string {
	programs := []string{"kube-apiserver", "etcd"}
	if s.kwok != nil {
		programs = append([]string{"kwok"}, programs...)
	}
	return programs
}

// signal sends a signal to programs in the given order.
func (s *server) signal(signal syscall.Signal, programs ...string) error {
	for _, program := range programs {
		pid, err := s.reaper.process(program)
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, signal); err != nil {
			return fmt.Errorf("send %s to %s: %w", signal, program, err)
		}
	}
	return nil
}
