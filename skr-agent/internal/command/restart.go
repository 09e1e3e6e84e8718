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

// errEnrolledAgain ends the manager of an agent whose bootstrap Secret changed.
var errEnrolledAgain = errors.New("the bootstrap Secret changed")

// endOnDemand returns a function that ends the manager with errEnrolledAgain. It returns at once, and can be called
// several times.
func endOnDemand(mgr ctrl.Manager) (end func(), err error) {
	requested := make(chan struct{})
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-requested:
			return errEnrolledAgain
		case <-ctx.Done():
			return nil
		}
	}))
	return sync.OnceFunc(func() { close(requested) }), err
}

// startAgain replaces the process by the same program with the same arguments. The container and its identity stay, so
// that the agent continues with its lease.
func startAgain(program string) error {
	if err := syscall.Exec(program, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("start %s again: %w", program, err)
	}
	return nil
}
