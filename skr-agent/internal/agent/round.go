package agent

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
)

// roundFacts is what a round knows before it decides: it has read the runtime and started to fetch content.
type roundFacts struct {
	bundle *bundle.Bundle // the bundle to follow, nil before the first
	// polled says that the registry was asked just now; postponed that an earlier round had to leave out what
	// follows a poll.
	polled, postponed bool
	// fetching says that content is still being fetched, unfetchable that the store of content failed.
	fetching, unfetchable bool
	// proven says that this image of the agent has shown that it works; onTrial that the agent can replace itself,
	// and may be on trial.
	proven, onTrial bool
}

// syncScope is the part of a bundle that a round applies.
type syncScope int

const (
	syncNothing syncScope = iota // there is no bundle, or its content cannot be stored
	syncStaged                   // the modules whose content is present
	syncAll
)

// roundActions is what a round does.
type roundActions struct {
	sync syncScope
	// report says that the round ends with a report and the status of the Kyma. Until the outcome of all modules is
	// known, there is neither.
	report bool
	// status says that the agent writes the status of the Kyma. After a takeover is undone, lifecycle-manager writes
	// it.
	status bool
	// upgrade says that the agent considers another image of itself.
	upgrade bool
	// postponed says that a later round does what follows a poll.
	postponed bool
	// again is when the next round is due at the latest, 0 for the next poll.
	again time.Duration
}

// decideRound returns what a round does. It is pure: the loop reads, decides, acts and records.
func decideRound(f roundFacts) roundActions {
	switch {
	case f.bundle != nil && f.unfetchable:
		return roundActions{postponed: f.postponed || f.polled}
	case f.bundle != nil && f.fetching:
		// Present modules are installed now. All others, and the report, wait until the outcome of the fetch is
		// known.
		return roundActions{sync: syncStaged, postponed: f.postponed || f.polled, again: minRound}
	}
	actions := roundActions{report: true, status: !released(f.bundle)}
	polled := f.polled
	if f.bundle != nil {
		actions.sync, polled = syncAll, f.polled || f.postponed
	} else {
		actions.postponed = f.postponed
	}
	actions.upgrade = polled || !f.proven
	if f.onTrial && !f.proven {
		actions.again = upgrade.Trial
	}
	return actions
}
