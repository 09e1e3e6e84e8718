package agent

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// roundFacts is the input of decideRound. A round collects it after it reads the runtime and starts to fetch content.
type roundFacts struct {
	bundle *bundle.Bundle // the last accepted bundle with the runtime's choices, nil before the first bundle
	// polled is true if this round polled the registry. postponed is true if an earlier round polled the registry, but
	// could not apply the complete bundle because content was missing.
	polled, postponed bool
	// fetching is true while content is being fetched. unfetchable is true if the content store returned an error.
	fetching, unfetchable bool
	// proven is true if the agent's image ran for one minute without a failed round. onTrial is true if bundles can
	// replace the image.
	proven, onTrial bool
}

// syncScope is the part of a bundle that a round applies.
type syncScope int

const (
	syncNothing syncScope = iota // no bundle, or its content cannot be stored
	syncStaged                   // the modules whose content is present
	syncAll
)

type roundActions struct {
	sync syncScope
	// report is true if the round reports to the control plane. It is false while content is being fetched, or if the
	// content store returned an error.
	report bool
	// status writes the status of the Kyma. It is false if the bundle returns the runtime to lifecycle-manager, which
	// then writes the status.
	status bool
	// upgrade reconciles the image of the agent's Deployment.
	upgrade bool
	// postponed becomes roundFacts.postponed of the next round.
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
		// This round installs only the modules whose content is present. A round after the fetch installs the others
		// and reports.
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
