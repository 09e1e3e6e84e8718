package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
)

// addTrouble adds to the facts what could not be written into the runtime, and logs once what of it nothing else logs.
func (a *Agent) addTrouble(log logr.Logger, facts *report.Facts, written objects.Outcome, others ...error) {
	facts.Unstaged = withRefused(facts.Unstaged, written.Failures)
	facts.Trouble = troubleOf(a.notKept, facts.Unreadable, written.Failures, others...)
	text := ""
	if refused := troubleOf(nil, nil, written.Failures); refused != nil {
		text = refused.Message
	}
	switch changed := a.said.Changed(saidTrouble, text); {
	case changed && text != "":
		log.Error(errors.New(text), "not everything could be written into the runtime, it is tried again")
	case changed:
		log.Info("everything is written into the runtime")
	}
}

// withRefused returns why modules are not in the version that they should have: for lack of content, or because their
// Manifest was refused.
func withRefused(unstaged map[string]error, failures []objects.Failure) map[string]error {
	all := maps.Clone(unstaged)
	for _, f := range failures {
		if f.Module == "" || all[f.Module] != nil {
			continue
		}
		if all == nil {
			all = map[string]error{}
		}
		all[f.Module] = reason.With(reason.ApplyFailed, f.Err)
	}
	return all
}

// isOurs reports whether a failure may be the agent's own doing. What a policy, webhook or quota of the runtime denies,
// or would do to the agent, is not, and says nothing against an image of the agent.
func isOurs(f objects.Failure) bool {
	return !errors.Is(f.Err, guard.ErrExposed) && !objects.IsDenied(f.Err)
}

// troubleOf returns what could not be read or written, nil for nothing. A bundle that cannot be kept comes first: while
// that lasts, nothing newer is followed; what the Kyma asks for comes next.
func troubleOf(notKept, unreadable error, failures []objects.Failure, others ...error) *bundle.ReportedTrouble {
	trouble := bundle.ReportedTrouble{Reason: v1beta2.ReasonObjectRefused}
	var texts []string
	if notKept != nil {
		trouble.Reason = v1beta2.ReasonStorageRefused
		texts = append(texts, "the agent cannot keep a newer bundle: let it write Secrets in "+v1beta2.RuntimeNamespace+
			" (no quota, admission policy or webhook may refuse them): "+innermost(notKept).Error())
	}
	if unreadable != nil {
		if notKept == nil {
			trouble.Reason = v1beta2.ReasonPinsUnreadable
		}
		texts = append(texts, fmt.Sprintf("Kyma %s/%s: %v; what it asked for before is followed until that can be read",
			v1beta2.RuntimeNamespace, v1beta2.RuntimeKymaName, unreadable))
	}
	for _, f := range failures {
		trouble.Catalog = trouble.Catalog || slices.Contains([]string{"ModuleTemplate", "ModuleReleaseMeta"}, f.Kind)
	}
	switch n := len(failures); n {
	case 0:
	case 1:
		texts = append(texts, failures[0].Err.Error())
	default:
		texts = append(texts, fmt.Sprintf("%d objects could not be written (%s): %v", n, named(failures), failures[0].Err))
	}
	for _, err := range others {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	trouble.Message = bundle.Bounded(strings.Join(texts, "; "), bundle.MaxMessageBytes)
	return &trouble
}

// named lists the first few objects, with names that leave room for the reason.
func named(failures []objects.Failure) string {
	const shown, nameBytes = 3, 64
	var names []string
	for _, f := range failures[:min(len(failures), shown)] {
		names = append(names, f.Kind+" "+bundle.Bounded(f.Name, nameBytes))
	}
	if over := len(failures) - shown; over > 0 {
		names = append(names, fmt.Sprintf("and %d more", over))
	}
	return strings.Join(names, ", ")
}

// innermost returns what the API server said, without what was being done.
func innermost(err error) error {
	for {
		switch wrapped := err.(type) { //nolint:errorlint // each layer is taken off
		case interface{ Unwrap() error }:
			if wrapped.Unwrap() == nil {
				return err
			}
			err = wrapped.Unwrap()
		case interface{ Unwrap() []error }:
			all := wrapped.Unwrap()
			if len(all) == 0 {
				return err
			}
			err = all[len(all)-1]
		default:
			return err
		}
	}
}

// noteOutage logs once that there may be newer bundles that cannot be had, whatever the reason, and that this is over.
func (a *Agent) noteOutage(log logr.Logger, outage bool, err error) {
	state := ""
	switch {
	case a.notKept != nil:
		state = "not kept"
	case outage:
		state = "unreadable"
	}
	switch changed := a.said.Changed(saidOutage, state); {
	case changed && a.notKept != nil:
		log.Error(err, "failed to keep a newer bundle in the runtime, the bundle in force stays")
	case changed && outage:
		log.Error(err, "failed to read bundles, the bundle in force stays", "location", a.Place.String())
	case changed:
		log.Info("bundles can be read again", "location", a.Place.String())
	}
}

func newRounds() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Minute}
}

// noteRound logs once that a round could not be finished, and returns when it is tried again: 0 when it was finished.
func (a *Agent) noteRound(ctx context.Context, log logr.Logger, err error) time.Duration {
	if err == nil || ctx.Err() != nil {
		a.rounds = newRounds()
		if a.said.Changed(saidRound, "") {
			log.Info("rounds are finished again")
		}
		return 0
	}
	if a.said.Changed(saidRound, err.Error()) {
		log.Error(err, "failed to finish a round, it is tried again")
	}
	return a.rounds.Step()
}
