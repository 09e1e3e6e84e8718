package agent

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/importer"
)

// importTimeSlice is how long a poll waits for file imports. A longer import continues in the background, and the agent
// polls again when it ends.
const importTimeSlice = 2 * time.Second

// importFiles imports the files in the import folder into the registry or OCI layout that the agent polls.
func (a *Agent) importFiles(ctx context.Context, log logr.Logger) {
	target := importer.Importer{
		Target: a.Puller.Location(), Root: a.Puller.Root(), Now: a.Now, ClockSkew: a.Puller.Trust.ClockSkew,
	}
	taken, ended := a.imports.poll(importTimeSlice, a.notify, func() []importer.FileResult {
		taken, err := a.Folder.Import(ctx, target)
		if err != nil {
			taken = []importer.FileResult{{File: a.Folder.Dir, Err: err}}
		}
		return taken
	})
	if !ended {
		return
	}
	for _, t := range a.newImportResults(taken) {
		switch refused := refusal.Of(t.Err); {
		case t.Err == nil:
			log.Info("imported a file", "file", t.File, "bundles", t.Outcome.Bundles, "written", t.Outcome.WrittenCount,
				"images", len(t.Outcome.Images))
		case refused != nil && refused.Reason == refusal.Rollback:
			log.Info("skipped a file that is older than the last accepted bundle", "file", t.File, "reason",
				t.Err.Error())
		default:
			log.Error(t.Err, "failed to import a file", "file", t.File)
		}
	}
}

// background runs a task that can take longer than a poll. It is not safe for concurrent use.
type background[T any] struct {
	// result receives the running task's result. It is nil if no task is running.
	result chan T
}

// poll starts the task if it is not running, and waits at most one time slice for its end. If the task ends in this
// time, poll returns its result. Otherwise, poll returns ended=false. It then calls wake when the task ends, and the
// next call to poll returns the result.
func (b *background[T]) poll(slice time.Duration, wake func(), task func() T) (result T, ended bool) {
	if b.result == nil {
		results, late := make(chan T, 1), time.Now().Add(slice)
		b.result = results
		go func() {
			results <- task()
			if time.Now().After(late) {
				wake()
			}
		}()
	}
	timer := time.NewTimer(slice)
	defer timer.Stop()
	select {
	case result = <-b.result:
		b.result = nil
		return result, true
	case <-timer.C:
		return result, false
	}
}

// newImportResults returns the import results that must be logged. It omits errors that were logged before.
func (a *Agent) newImportResults(taken []importer.FileResult) []importer.FileResult {
	failed := map[string]string{}
	for _, t := range taken {
		if t.Err != nil {
			failed[t.File] = t.Err.Error()
		}
	}
	news := a.notImported.Replace(failed)
	return slices.DeleteFunc(taken, func(t importer.FileResult) bool {
		return t.Err != nil && !slices.Contains(news, t.File)
	})
}
