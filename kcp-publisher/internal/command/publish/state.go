package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish/statefile"
)

// openState opens the state file and warns if it is new. It returns nil if --state is not set and the key folder is not
// writable.
func (f *publishFlags) openState(
	ctx context.Context, place store.Store, out io.Writer,
) (*statefile.File, error) {
	location := place.String()
	if dir, layout := strings.CutPrefix(location, store.LayoutScheme); layout {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
		location = store.LayoutScheme + absolute
	}
	path := cmp.Or(f.state, filepath.Join(f.keys.Dir, "published.json"))
	const consequence = "Until a module resolves, bundles do not contain it. Any commit is accepted."
	if f.dryRun {
		return statefile.Read(path, location)
	}
	memory, err := statefile.Open(ctx, path, location)
	switch {
	case err != nil && f.state == "" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		cli.Printf(out, "published bundles are not recorded (%v): set --state to a writable file. %s\n", err,
			consequence)
		return nil, nil
	case err == nil && memory.IsNew:
		cli.Printf(out, "state file %s is new: the bundles of earlier runs are unknown. %s\n", path, consequence)
	}
	return memory, err
}

// acceptCommit records the commit that contains the objects as the last published commit. Unless --allow-rewind is set,
// it returns an error if the commit does not descend from the last run's commit.
func (f *publishFlags) acceptCommit(ctx context.Context, loaded flagset.LoadedObjects, file *statefile.File) error {
	commit, ok := loaded.Applied()
	if !ok || file == nil {
		return nil
	}
	if !f.rewind {
		if err := loaded.CheckSuccessor(ctx, file.LastCommit()); err != nil {
			return err
		}
	}
	file.SetCommit(commit)
	return file.Save() // before the first push, in case the process is killed
}

type savedState struct {
	file  *statefile.File
	flush func() error
}

func (m savedState) save() error {
	if err := m.flush(); err != nil {
		return err
	}
	return m.saveFile()
}

// saveFile saves only the state file. If no state file is used, it does nothing.
func (m savedState) saveFile() error {
	if m.file == nil {
		return nil
	}
	return m.file.Save()
}

func (m savedState) close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
