package agent

import (
	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/autonomy"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/round"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
)

// roundRun is the state of one round: the facts and the results of the actions.
type roundRun struct {
	log   logr.Logger
	facts round.Facts
	// contents and secrets describe the changes to stored blobs and to the agent's Secrets since the last round.
	contents map[digest.Digest]contentChange
	secrets  map[string]bool
	// unrestored contains restoration errors, by object kind.
	unrestored map[string]string
	kyma       *v1beta2.Kyma
	installed  []v1beta2.Manifest
	followed   autonomy.Result
	gate       maintenance.Gate
	// hasFetched is true if this round fetched content.
	hasFetched bool
	written    objects.Outcome
	report     report.Facts
	// errs contains errors from actions that the agent must repeat soon.
	errs []error
}

// hasPolled reports whether this round polled the registry.
func (p *roundRun) hasPolled() bool { return p.facts.Twin != "" }

// result returns an action's result, and records its error.
func (p *roundRun) result(err error) round.Result {
	if err != nil {
		p.errs = append(p.errs, err)
	}
	return answer(err == nil)
}

func answer(yes bool) round.Result {
	if yes {
		return round.Yes
	}
	return round.No
}
