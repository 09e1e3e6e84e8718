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
	// lockTimeout is the time that a change waits for another one. A key management service can take that long to respond.
	lockTimeout = time.Minute
	lockRetry   = 20 * time.Millisecond
)

// lock returns the folder's lock. It locks the folder itself, so it leaves no lock file.
func (f Folder) lock() *flock.Flock { return flock.New(f.Dir, flock.SetFlag(os.O_RDONLY)) }

// Exclusively runs change while it holds the folder's lock, after it completed an interrupted change.
func (f Folder) Exclusively(ctx context.Context, change func(Folder) error) error {
	if f.exclusive {
		return change(f)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock := f.lock()
	if locked, err := lock.TryLockContext(ctx, lockRetry); err != nil || !locked {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("key folder %s: another program has been changing it for %s: wait for it, or end it",
				f.Dir, lockTimeout)
		}
		return fmt.Errorf("lock key folder %s: %w", f.Dir, err)
	}
	defer func() { _ = lock.Unlock() }() // the lock ends with the process at the latest
	f.exclusive = true
	if err := f.finishInterrupted(); err != nil {
		return fmt.Errorf("complete the interrupted change of key folder %s: %w", f.Dir, err)
	}
	return change(f)
}

// consistently runs read while no program changes the folder. It reads without a lock if the folder cannot be locked:
// some file systems have no locks, and a read-only folder does not change.
func (f Folder) consistently(ctx context.Context, read func() error) error {
	if f.exclusive {
		return read()
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock := f.lock()
	locked, err := lock.TryRLockContext(ctx, lockRetry)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("key folder %s: another program is changing it: %w", f.Dir, err)
	}
	if locked {
		defer func() { _ = lock.Unlock() }() // see above
	}
	return read()
}
