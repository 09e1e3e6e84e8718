package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Folder is a read-only folder with exported files. It is not safe for concurrent use.
type Folder struct {
	Dir        string
	seen       map[string]string // size and modification time of each file in the last scan
	handled    map[string]string // size and modification time of each imported or refused file
	incomplete [][]string        // files refused because other files are missing or because they were issued in the future
	retryAt    time.Time         // when to import the files in incomplete again; zero if they only need other files
	reported   map[string]string // last error for each file in incomplete
	expired    [][]string        // files refused because their validity period has ended, except files in incomplete
	expiredAt  time.Time         // the importer's clock when it last refused an expired file
}

// FileResult is the result of importing one file.
type FileResult struct {
	File    string
	Outcome Outcome
	// Err is the reason why the import failed. It is a *refusal.Error if the file was refused.
	Err error
}

var carriedFile = regexp.MustCompile(`\.tar(\.zst)?(\.[0-9]{3})?$`)

// Import imports new files. It skips files that changed since the previous call, because they can be incomplete copies.
// It imports a refused file again only if the reason for the refusal can disappear, such as missing content or a wrong
// clock.
func (f *Folder) Import(ctx context.Context, importer Importer) ([]FileResult, error) {
	settled, err := f.listSettled()
	if err != nil {
		return nil, err
	}
	var waiting [][]string
	var all []FileResult
	for _, file := range settled {
		if file.Incomplete == nil {
			waiting = append(waiting, file.Paths)
			continue
		}
		all = append(all, FileResult{File: strings.Join(file.Paths, " "), Err: file.Incomplete})
		f.markHandled(file.Paths)
	}
	f.expired = slices.DeleteFunc(f.expired, f.hasChanged)
	isEarly := !f.retryAt.IsZero() && !time.Now().Before(f.retryAt)
	isSetBack := importer.Now().Before(f.expiredAt) // the clock was ahead when the importer refused the files
	if len(waiting) == 0 && !isEarly && !isSetBack {
		return all, nil
	}
	if isSetBack {
		waiting, f.expired, f.expiredAt = append(waiting, f.expired...), nil, time.Time{}
	}
	waiting, f.incomplete, f.retryAt = append(waiting, f.incomplete...), nil, time.Time{}
	for {
		var taken []FileResult
		for _, paths := range waiting {
			outcome, err := importer.Import(ctx, paths)
			taken = append(taken, FileResult{strings.Join(paths, " "), outcome, err})
		}
		var later [][]string
		progress := false
		for n, t := range taken {
			refused := refusal.Of(t.Err)
			f.recordExpired(waiting[n], refused, importer.Now())
			switch {
			case refused != nil && refused.Reason.MayPassLater():
				later = append(later, waiting[n])
				continue
			case t.Err == nil:
				progress = true
			}
			all = append(all, t)
			if t.Err == nil || refused != nil {
				f.markHandled(waiting[n])
			} else {
				f.retry(waiting[n]) // an earlier scan can have postponed the file
			}
		}
		if !progress || len(later) == 0 || ctx.Err() != nil {
			return append(all, f.postpone(waiting, taken)...), nil
		}
		waiting = later
	}
}

// recordExpired records a file that was refused because the clock is later than the end of a validity period. If the
// clock is set back, the next call to Import imports the file again.
func (f *Folder) recordExpired(paths []string, refused *refusal.Error, now time.Time) {
	if refused == nil || !refused.Reason.DependsOnClock() {
		return
	}
	f.expiredAt = now
	if !refused.Reason.MayPassLater() {
		f.expired = append(f.expired, paths)
	}
}

// hasChanged reports whether a file was deleted or changed after its import.
func (f *Folder) hasChanged(paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		state, isHandled := f.handled[path]
		return !isHandled || state != f.seen[path]
	})
}

// earlyInterval is the retry interval for a file whose issue time is later than the agent's clock.
const earlyInterval = 10 * time.Minute

// postpone records the refused files that can be accepted later. It returns the results whose error was not reported
// yet.
func (f *Folder) postpone(files [][]string, taken []FileResult) (unreported []FileResult) {
	for n, t := range taken {
		refused := refusal.Of(t.Err)
		if refused == nil || !refused.Reason.MayPassLater() {
			continue
		}
		if f.isNewError(t) {
			unreported = append(unreported, t)
		}
		if refused.Reason == refusal.NotYetIssued {
			f.retryAt = time.Now().Add(earlyInterval)
		}
		f.markHandled(files[n])
		f.incomplete = append(f.incomplete, files[n])
	}
	waiting := map[string]bool{}
	for _, paths := range f.incomplete {
		waiting[strings.Join(paths, " ")] = true
	}
	maps.DeleteFunc(f.reported, func(file, _ string) bool { return !waiting[file] })
	return unreported
}

// isNewError reports whether an import failed with an error that was not reported for this file before.
func (f *Folder) isNewError(t FileResult) bool {
	if f.reported == nil {
		f.reported = map[string]string{}
	}
	text := t.Err.Error()
	isNews := f.reported[t.File] != text
	f.reported[t.File] = text
	return isNews
}

// listSettled returns new files that have not changed since the last scan.
func (f *Folder) listSettled() ([]airgap.Volumes, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, fmt.Errorf("read the import folder: %w", err)
	}
	now := map[string]string{}
	var paths []string
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the import folder: %w", err)
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
	// Without this deletion, a client that keeps adding files to the folder could exhaust the agent's memory.
	maps.DeleteFunc(f.handled, func(path, _ string) bool { _, exists := now[path]; return !exists })
	var settled []airgap.Volumes
	for _, file := range airgap.Files(paths) {
		steady, known := true, true
		for _, path := range file.Paths {
			steady = steady && before[path] == now[path]
			known = known && f.handled[path] == now[path]
		}
		if steady && !known {
			settled = append(settled, file)
		}
	}
	return settled, nil
}

func (f *Folder) markHandled(paths []string) {
	if f.handled == nil {
		f.handled = map[string]string{}
	}
	for _, path := range paths {
		f.handled[path] = f.seen[path]
	}
}

// retry makes the next scan import the files again.
func (f *Folder) retry(paths []string) {
	for _, path := range paths {
		delete(f.handled, path)
	}
}
