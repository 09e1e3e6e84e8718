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

// contents records which module contents the agent has fetched and stored. It is kept from one round to the next.
type contents struct {
	// unstaged contains the error of each module whose content is missing.
	unstaged map[string]error
	// staged identifies the contents of the last fetch. staging is the running fetch, nil once it ended.
	staged  string
	staging *pull.Staging
	// finished is the last fetch that ended.
	finished *pull.Staging
	// postponed is true if a round polled the registry, but could not apply the complete bundle because content was
	// missing. A later round then applies it.
	postponed bool
	// polled is true if the agent polled the registry while the fetch was running. The poll can make missing contents
	// available.
	polled bool
	// kept contains the digests that the last prune did not delete. unpruned is true if the agent has stored contents
	// since that prune.
	kept     map[digest.Digest]bool
	unpruned bool
}

// stageTimeSlice is the maximum time to fetch contents before a round writes the Manifests whose content is present.
const stageTimeSlice = 300 * time.Millisecond

// stage fetches the contents of the state once, and missing contents again with every poll. It reports whether it
// fetched contents. An unfinished fetch stays in staging. If the content store is unreadable, stage does not change the
// errors of modules.
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

// refetchMissing requests another fetch of missing contents, immediately or after the current fetch.
func (a *Agent) refetchMissing() {
	switch {
	case a.staging != nil:
		a.polled = true
	case len(a.unstaged) > 0:
		a.staged = ""
	}
}

// stageAgain returns the time until another fetch, if contents are missing and a poll ran during the last fetch. 0
// means that the next poll fetches them.
func (a *Agent) stageAgain() time.Duration {
	polled := a.polled
	a.polled = false
	if !polled || len(a.unstaged) == 0 {
		return 0
	}
	a.staged = ""
	return minRound
}

// lacks reports whether the last fetch failed to store a content, or has not stored it yet.
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
