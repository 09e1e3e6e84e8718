package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Folder is a folder that files are dropped into. It is used by one goroutine, and only read.
type Folder struct {
	Dir string
	// seen is how files looked when they were last looked at, judged those that were imported or refused as they are, and
	// lacking those of them that another file may complete.
	seen, judged map[string]string
	lacking      [][]string
}

// Taken is what became of one file.
type Taken struct {
	File    string
	Outcome Outcome
	// Err is a *bundle.Refusal, or why the file or the target could not be used; nil when everything is at the target.
	Err error
}

var carriedFile = regexp.MustCompile(`\.tar(\.zst)?(\.[0-9]{3})?$`)

// Look imports every file that has not changed since the look before, so that none is taken while it is still being
// copied. A file is judged once, unless it lacks something that another one brings. The error says that the folder
// cannot be read.
func (f *Folder) Look(ctx context.Context, importer Importer) ([]Taken, error) {
	waiting, err := f.settled()
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	waiting, f.lacking = append(waiting, f.lacking...), nil
	var all []Taken
	for {
		var taken []Taken
		for _, paths := range waiting {
			outcome, err := importer.Import(ctx, paths)
			taken = append(taken, Taken{strings.Join(paths, " "), outcome, err})
		}
		var later [][]string
		progress := false
		for n, t := range taken {
			refused := refusal.Of(t.Err)
			switch {
			case refused != nil && refused.Reason == refusal.Incomplete:
				later = append(later, waiting[n])
				continue
			case t.Err == nil:
				progress = true
			}
			all = append(all, t)
			if t.Err == nil || refused != nil {
				f.done(waiting[n])
			}
		}
		if !progress || len(later) == 0 || ctx.Err() != nil {
			for n, t := range taken {
				if refused := refusal.Of(t.Err); refused != nil && refused.Reason == refusal.Incomplete {
					all = append(all, t)
					f.done(waiting[n])
					f.lacking = append(f.lacking, waiting[n])
				}
			}
			return all, nil
		}
		waiting = later
	}
}

// settled returns the files that look as they did before and were not judged as they are.
func (f *Folder) settled() ([][]string, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, fmt.Errorf("look into the import folder: %w", err)
	}
	now := map[string]string{}
	var paths []string
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look into the import folder: %w", err)
		}
		if !info.Mode().IsRegular() || !carriedFile.MatchString(entry.Name()) {
			continue
		}
		path := filepath.Join(f.Dir, entry.Name())
		now[path] = fmt.Sprintf("%d %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano))
		paths = append(paths, path)
	}
	before := f.seen
	f.seen = now
	files, err := airgap.Files(paths)
	if err != nil {
		return nil, nil //nolint:nilerr // a volume is still to come
	}
	var settled [][]string
	for _, file := range files {
		steady, known := true, true
		for _, path := range file {
			steady = steady && before[path] == now[path]
			known = known && f.judged[path] == now[path]
		}
		if steady && !known {
			settled = append(settled, file)
		}
	}
	return settled, nil
}

func (f *Folder) done(paths []string) {
	if f.judged == nil {
		f.judged = map[string]string{}
	}
	for _, path := range paths {
		f.judged[path] = f.seen[path]
	}
}
