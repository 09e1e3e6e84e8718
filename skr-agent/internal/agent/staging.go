package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// contents is the agent's state for fetching and storing module contents.
type contents struct {
	// unstaged contains the error of each module with missing content.
	unstaged map[string]error
	// staged identifies the contents that the agent fetches or has fetched. It is empty if missing contents must be
	// fetched again. staging is the running fetch, or nil.
	staged  string
	staging *pull.Staging
	// finished is the last completed fetch.
	finished *pull.Staging
	// postponed is true if content was missing after the last poll, so the bundle was not applied completely.
	postponed bool
	// polled is true if the agent polled the registry during the running fetch. Contents that were missing before the
	// poll can then be available.
	polled bool
	// kept contains the digests that the last call of prune did not delete. unpruned is true if contents were stored
	// after that call.
	kept     map[digest.Digest]bool
	unpruned bool
}

// stageTimeSlice is how long a reconciliation waits for content before it applies the modules whose content is
// present.
const stageTimeSlice = 300 * time.Millisecond

// stage fetches the contents of a desired state, and missing contents again after every poll. It reports whether it
// fetched contents. A long fetch continues in the background.
func (a *Agent) stage(ctx context.Context, log logr.Logger, state bundle.DesiredState) (bool, error) {
	needed := contentsOf(state)
	if a.staged != needed {
		a.staging, a.unpruned = a.Puller.Stage(state, a.unstaged), true
	}
	a.staged = needed
	if a.staging == nil {
		return false, nil
	}
	unstaged, done, err := a.staging.Continue(ctx, stageTimeSlice)
	if err != nil {
		a.staged, a.staging = "", nil
		return false, err
	}
	if !done {
		return true, nil
	}
	for module, why := range unstaged {
		if known := a.unstaged[module]; known == nil || known.Error() != why.Error() {
			log.Error(why, "failed to fetch the content of a module", "module", module)
		}
	}
	a.unstaged, a.finished, a.staging = unstaged, a.staging, nil
	return true, nil
}

// refetchMissing requests that missing contents are fetched again. The agent calls it after a poll.
func (a *Agent) refetchMissing() {
	switch {
	case a.staging != nil:
		a.polled = true
	case len(a.unstaged) > 0:
		a.staged = ""
	}
}

// stageAgain returns the time until missing contents are fetched again, or 0 for the next poll.
func (a *Agent) stageAgain() time.Duration {
	polled := a.polled
	a.polled = false
	if !polled || len(a.unstaged) == 0 {
		return 0
	}
	a.staged = ""
	return minRound
}

// lacks reports whether a content is still missing after the last fetch.
func (a *Agent) lacks(d digest.Digest) bool {
	last := cmp.Or(a.staging, a.finished)
	return last != nil && last.Lacks(d)
}

// prune deletes stored content, except the content of the last accepted bundle and of Manifests. It also keeps the
// content of deleted Manifests that the agent restores, because a restored Manifest can have an older version.
func (a *Agent) prune(ctx context.Context, facts report.Facts) error {
	if facts.Bundle == nil {
		return nil
	}
	keep := a.Puller.Needed(facts.Bundle.State)
	for _, m := range slices.Concat(facts.Manifests, a.Keeper.Remembered()) {
		for _, needed := range contentOf(&m) {
			keep[needed] = true
		}
	}
	if maps.Equal(keep, a.kept) && !a.unpruned {
		return nil
	}
	if _, err := a.Store.Prune(ctx, keep); err != nil {
		return err
	}
	a.kept, a.unpruned = keep, false
	return nil
}
