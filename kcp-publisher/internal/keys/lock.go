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
	// lockTimeout is how long a change waits for another one: long enough for a key management service to answer.
	lockTimeout = time.Minute
	lockRetry   = 20 * time.Millisecond
)

// lock returns the lock of the folder: on the folder itself, so that no file is left behind.
func (f Folder) lock() *flock.Flock { return flock.New(f.Dir, flock.SetFlag(os.O_RDONLY)) }

// Exclusively runs change while nobody else changes the folder, after whatever was cut off before is finished.
func (f Folder) Exclusively(ctx context.Context, change func(Folder) error) error {
	if f.exclusive {
		return change(f)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock := f.lock()
	if locked, err := lock.TryLockContext(ctx, lockRetry); err != nil || !locked {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("key folder %s: another program has been changing it for %s: wait for it, or end it", f.Dir, lockTimeout)
		}
		return fmt.Errorf("lock key folder %s: %w", f.Dir, err)
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process at the latest
	f.exclusive = true
	if err := f.finishInterrupted(); err != nil {
		return fmt.Errorf("finish the change of key folder %s that was cut off: %w", f.Dir, err)
	}
	return change(f)
}

// consistently runs read while nobody changes the folder. A folder that cannot be locked is read without: on some file
// systems there are no locks, and where nothing may be written nobody changes it either.
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
