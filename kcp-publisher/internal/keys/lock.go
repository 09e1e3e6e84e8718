package keys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

const (
	// lockTimeout is long, because another command can hold the lock while it waits for a key management service.
	lockTimeout = time.Minute
	lockRetry   = 20 * time.Millisecond
)

// lock returns the folder's lock. It locks the directory itself instead of a lock file.
func (f Folder) lock() *flock.Flock { return flock.New(f.Dir, flock.SetFlag(os.O_RDONLY)) }

// WithLock locks the folder, completes an interrupted change, and then runs change.
func (f Folder) WithLock(ctx context.Context, change func(Folder) error) error {
	if f.exclusive {
		return change(f)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock := f.lock()
	if locked, err := lock.TryLockContext(ctx, lockRetry); err != nil || !locked {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("key folder %s has been locked by another program for over %s: wait until that "+
				"program ends, or stop it",
				f.Dir, lockTimeout)
		}
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: set --keys to the folder of the fleet's keys, or create one with "+
				"`kcp-publisher keys init --keys %s`", err, f.Dir)
		}
		return fmt.Errorf("lock key folder %s: %w", f.Dir, err)
	}
	defer func() { _ = lock.Unlock() }() // the operating system releases the lock when the process ends
	f.exclusive = true
	if err := f.finishInterrupted(); err != nil {
		return fmt.Errorf("complete the interrupted change of key folder %s: %w", f.Dir, err)
	}
	return change(f)
}

// withSharedLock calls read while it holds a shared lock on the folder. If the folder cannot be locked, for example
// because it is read-only, it calls read without a lock.
func (f Folder) withSharedLock(ctx context.Context, read func() error) error {
	if f.exclusive {
		return read()
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock := f.lock()
	locked, err := lock.TryRLockContext(ctx, lockRetry)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("key folder %s is locked by another program: %w", f.Dir, err)
	}
	if locked {
		defer func() { _ = lock.Unlock() }() // the operating system releases the lock when the process ends
	}
	return read()
}
