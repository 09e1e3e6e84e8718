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

// contentState is the agent's state for fetching and storing module content.
type contentState struct {
	// contentErrors contains the error for each module with missing content.
	contentErrors map[string]error
	// stagedKey identifies the content that the agent fetches or has fetched (see contentsKey). It is empty if the
	// agent must fetch missing content again. staging is the running fetch, or nil.
	stagedKey string
	staging   *pull.Staging
	// finished is the last completed fetch.
	finished *pull.Staging
	// polled is true if the agent polled the registry during the running fetch. Content that was missing before the
	// poll can then be available.
	polled bool
	// keptDigests is the set of blobs that the last prune did not delete. needsPrune is true if content was stored
	// after that prune.
	keptDigests map[digest.Digest]bool
	needsPrune  bool
}

// stageTimeSlice is how long a reconciliation waits for content before it applies the modules whose content is
// present.
const stageTimeSlice = 300 * time.Millisecond

// stageContents fetches a desired state's content, and fetches missing content again after every poll. It reports
// whether it fetched content. A long fetch continues in the background.
func (a *Agent) stageContents(ctx context.Context, log logr.Logger, state bundle.DesiredState) (bool, error) {
	needed := contentsKey(state)
	if a.stagedKey != needed {
		a.staging, a.needsPrune = a.Puller.StartStaging(state, a.contentErrors), true
	}
	a.stagedKey = needed
	if a.staging == nil {
		return false, nil
	}
	unstaged, done, err := a.staging.Continue(ctx, stageTimeSlice)
	if err != nil {
		a.stagedKey, a.staging = "", nil
		return false, err
	}
	if !done {
		return true, nil
	}
	for module, why := range unstaged {
		if known := a.contentErrors[module]; known == nil || known.Error() != why.Error() {
			log.Error(why, "failed to fetch a module's content", "module", module)
		}
	}
	a.finishStaging(unstaged)
	return true, nil
}

// finishStaging records a completed fetch's errors. If a poll occurred during the fetch, it requests another fetch for
// missing content.
func (c *contentState) finishStaging(unstaged map[string]error) {
	c.contentErrors, c.finished, c.staging = unstaged, c.staging, nil
	if c.polled && len(unstaged) > 0 {
		c.stagedKey = ""
	}
	c.polled = false
}

// refetchMissing requests another fetch for missing content. The agent calls it after a poll.
func (c *contentState) refetchMissing() {
	switch {
	case c.staging != nil:
		c.polled = true
	case len(c.contentErrors) > 0:
		c.stagedKey = ""
	}
}

// isContentMissing reports whether a content blob is still missing after the last fetch.
func (c *contentState) isContentMissing(d digest.Digest) bool {
	last := cmp.Or(c.staging, c.finished)
	return last != nil && last.IsMissing(d)
}

// prune deletes stored content, except content that the last accepted bundle or Manifests refer to. It also keeps
// content for deleted Manifests that the agent restores, because a restored Manifest can have an older version.
func (a *Agent) prune(ctx context.Context, facts report.Facts) error {
	if facts.Bundle == nil {
		return nil
	}
	keep := a.Puller.NeededDigests(facts.Bundle.State)
	for _, m := range slices.Concat(facts.Manifests, a.Restorer.ListRestorable()) {
		for _, needed := range contentDigests(&m) {
			keep[needed] = true
		}
	}
	if maps.Equal(keep, a.keptDigests) && !a.needsPrune {
		return nil
	}
	if err := a.Store.Prune(ctx, keep); err != nil {
		return err
	}
	a.keptDigests, a.needsPrune = keep, false
	return nil
}
