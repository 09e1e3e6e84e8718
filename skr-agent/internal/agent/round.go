package agent

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// roundFacts is the input of decideRound.
type roundFacts struct {
	bundle *bundle.Bundle // the last accepted bundle with the runtime's own selections; nil before the first bundle
	// polled means that this round polled the registry. postponed means that an earlier round polled, but could not
	// apply the complete bundle because content was missing.
	polled, postponed bool
	// fetching means that content is being fetched. unfetchable means that the content store returned an error.
	fetching, unfetchable bool
	// proven means that the agent's image ran for one minute without a failure. onTrial means that bundles can
	// replace the image.
	proven, onTrial bool
}

// syncScope is the part of a bundle to apply.
type syncScope int

const (
	syncNothing syncScope = iota // no bundle, or its content cannot be stored
	syncStaged                   // the modules whose content is present
	syncAll
)

type roundActions struct {
	sync syncScope
	// report sends a report. False while content is being fetched, or if the content store returned an error.
	report bool
	// status updates the status of the Kyma. False if the bundle returns the runtime to lifecycle-manager.
	status bool
	// upgrade updates the image of the agent's Deployment.
	upgrade bool
	// postponed becomes roundFacts.postponed of the next round.
	postponed bool
	// again is the maximum time until the next round, or 0 for the next poll.
	again time.Duration
}

// decideRound returns the actions of a round. It is a pure function.
func decideRound(f roundFacts) roundActions {
	switch {
	case f.bundle != nil && f.unfetchable:
		return roundActions{postponed: f.postponed || f.polled}
	case f.bundle != nil && f.fetching:
		// Install only the modules whose content is present. A round after the fetch installs the others and sends
		// the report.
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
