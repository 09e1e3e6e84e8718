package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// errBootstrapChanged stops the manager after a change to the bootstrap Secret.
var errBootstrapChanged = errors.New("the bootstrap Secret changed")

// stopOnRequest returns a function that stops the manager with errBootstrapChanged. The function does not block, and
// can be called several times.
func stopOnRequest(mgr ctrl.Manager) (end func(), err error) {
	requested := make(chan struct{})
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-requested:
			return errBootstrapChanged
		case <-ctx.Done():
			return nil
		}
	}))
	return sync.OnceFunc(func() { close(requested) }), err
}

// restart replaces the process with a new process that runs the same program with the same arguments. The new process
// keeps the leader election lease.
func restart(program string) error {
	if err := syscall.Exec(program, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("restart %s: %w", program, err)
	}
	return nil
}
