package agent

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// contents is what a round has to know of the contents that are stored.
type contents struct {
	// unstaged says why contents cannot be had, by module.
	unstaged map[string]error
	// staged names the contents that were looked for last; staging goes on with it, nil once all were.
	staged  string
	staging *pull.Staging
	// looked is the last one that ended.
	looked *pull.Staging
	// postponed says that the round of a poll ended early for that, so that the next one does what a poll asks for.
	postponed bool
	// polled says that a poll came while contents were fetched, of which some may not have been there before.
	polled bool
	// kept is what the last prune left; unpruned says that more may have been stored since.
	kept     map[digest.Digest]bool
	unpruned bool
}

// stageStretch is how long contents are fetched until Manifests are written of what is there.
const stageStretch = 300 * time.Millisecond

// stage fetches the content of what is followed, once, and again with every poll while some cannot be had. It reports
// whether it did, and leaves in staging whether there is more to fetch. What was known of modules stays known when it
// cannot be read what is stored.
func (a *Agent) stage(ctx context.Context, log logr.Logger, state bundle.DesiredState) (bool, error) {
	needed := contentsOf(state)
	if a.staged != needed {
		a.staging, a.unpruned = a.Puller.Stage(state, a.unstaged), true
	}
	a.staged = needed
	if a.staging == nil {
		return false, nil
	}
	unstaged, done, err := a.staging.Continue(ctx, stageStretch)
	if err != nil {
		a.staged, a.staging = "", nil
		return false, err
	}
	if !done {
		return true, nil
	}
	for module, why := range unstaged {
		if known := a.unstaged[module]; known == nil || known.Error() != why.Error() {
			log.Error(why, "content of a module is not at hand", "module", module)
		}
	}
	a.unstaged, a.looked, a.staging = unstaged, a.staging, nil
	return true, nil
}

// notePoll has looked again for what could not be had, which may be there now: at once, or when all other contents were
// looked for.
func (a *Agent) notePoll() {
	switch {
	case a.staging != nil:
		a.polled = true
	case len(a.unstaged) > 0:
		a.staged = ""
	}
}

// stageAgain returns how soon to look again because a poll came while contents were fetched, 0 for not before the next
// poll.
func (a *Agent) stageAgain() time.Duration {
	polled := a.polled
	a.polled = false
	if !polled || len(a.unstaged) == 0 {
		return 0
	}
	a.staged = ""
	return minRound
}

// lacks reports whether it is known that a content is not stored: it is fetched with the next poll at the latest.
func (a *Agent) lacks(d digest.Digest) bool {
	last := cmp.Or(a.staging, a.looked)
	return last != nil && last.Lacks(d)
}

// prune drops content that neither the bundle in force nor any Manifest needs.
func (a *Agent) prune(ctx context.Context, facts report.Facts) error {
	if facts.Bundle == nil {
		return nil
	}
	keep := a.Puller.Needed(facts.Bundle.State)
	for i := range facts.Manifests {
		for _, needed := range contentOf(&facts.Manifests[i]) {
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
