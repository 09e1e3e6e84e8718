package agent

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// roundInput is the input of decideRound: the state of the agent at the start of a reconciliation.
type roundInput struct {
	bundle *bundle.Bundle // the last accepted bundle with the runtime's own selections; nil before the first bundle
	// polled is true if this reconciliation polled the registry. postponed is true if content was missing after an
	// earlier poll, so the bundle was not applied completely.
	polled, postponed bool
	// fetching is true while the agent fetches module content. storeFailed is true if the content store returned an
	// error.
	fetching, storeFailed bool
	// proven is true if the agent's image ran for one minute without a failure. managesImage is true if bundles can
	// change the image of the agent's Deployment.
	proven, managesImage bool
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
	// If report is true, the agent sends a report. It is false while the agent fetches module content, or if the
	// content store returned an error.
	report bool
	// If status is true, the agent updates the Kyma's status. It is false if the bundle returns the runtime to
	// lifecycle-manager.
	status bool
	// If upgrade is true, the agent updates the image of its Deployment.
	upgrade bool
	// postponed is the value of roundInput.postponed for the next reconciliation.
	postponed bool
	// requeueAfter is the maximum time until the next reconciliation. If it is 0, the next reconciliation is the next
	// poll.
	requeueAfter time.Duration
}

// decideRound returns the actions of a reconciliation. It is a pure function.
func decideRound(f roundInput) roundActions {
	switch {
	case f.bundle != nil && f.storeFailed:
		return roundActions{postponed: f.postponed || f.polled}
	case f.bundle != nil && f.fetching:
		// Apply the modules whose content is present. The next reconciliation applies the rest and sends the report.
		return roundActions{sync: syncStaged, postponed: f.postponed || f.polled, requeueAfter: minDelay}
	}
	actions := roundActions{report: true, status: !takeover.ReleasesRuntime(f.bundle)}
	polled := f.polled
	if f.bundle != nil {
		actions.sync, polled = syncAll, f.polled || f.postponed
	} else {
		actions.postponed = f.postponed
	}
	actions.upgrade = polled || !f.proven
	if f.managesImage && !f.proven {
		actions.requeueAfter = upgrade.Trial
	}
	return actions
}
