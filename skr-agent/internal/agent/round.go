package agent

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// roundFacts is the input of a round's decision, after it read the runtime and started to fetch content.
type roundFacts struct {
	bundle *bundle.Bundle // the bundle to follow, nil before the first
	// polled is true if this round polled the registry. postponed is true if an earlier round left the work after its
	// poll to a later round.
	polled, postponed bool
	// fetching is true if content is still being fetched. unfetchable is true if the content store failed.
	fetching, unfetchable bool
	// proven is true if the agent's image proved itself. onTrial is true if bundles can replace the image.
	proven, onTrial bool
}

// syncScope is the part of a bundle that a round applies.
type syncScope int

const (
	syncNothing syncScope = iota // no bundle, or its content cannot be stored
	syncStaged                   // the modules whose content is present
	syncAll
)

// roundActions are the actions of a round.
type roundActions struct {
	sync syncScope
	// report ends the round with a report and the status of the Kyma. Both wait until the outcome of all modules is
	// known.
	report bool
	// status writes the status of the Kyma. After a takeover is undone, lifecycle-manager writes it.
	status bool
	// upgrade reconciles the image of the agent's Deployment.
	upgrade bool
	// postponed leaves the work after a poll to a later round.
	postponed bool
	// again is the longest time until the next round, 0 for the next poll.
	again time.Duration
}

// decideRound returns the actions of a round. It is pure.
func decideRound(f roundFacts) roundActions {
	switch {
	case f.bundle != nil && f.unfetchable:
		return roundActions{postponed: f.postponed || f.polled}
	case f.bundle != nil && f.fetching:
		// Modules whose content is present are installed now. The others, and the report, wait for the fetch.
		return roundActions{sync: syncStaged, postponed: f.postponed || f.polled, again: minRound}
	}
	actions := roundActions{report: true, status: !takeover.Releases(f.bundle)}
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
