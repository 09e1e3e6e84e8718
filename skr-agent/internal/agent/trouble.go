package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
)

// addTrouble adds errors to the report's facts. It logs failed writes once.
func (a *Agent) addTrouble(log logr.Logger, facts *report.Facts, written objects.Outcome, others ...error) {
	facts.ContentErrors = withRefused(facts.ContentErrors, written.Failures)
	facts.Trouble = summarizeTrouble(a.storeErr, facts.PinsError, written.Failures, others...)
	text := ""
	if refused := summarizeTrouble(nil, nil, written.Failures); refused != nil {
		text = refused.Message
	}
	switch changed := a.logged.Update(loggedTrouble, text); {
	case changed && text != "":
		log.Error(errors.New(text), "failed to write objects into the runtime, retrying")
	case changed:
		log.Info("wrote all objects into the runtime")
	}
}

// withRefused returns contentErrors with an additional error for each module whose Manifest the API server refused.
func withRefused(contentErrors map[string]error, failures []objects.Failure) map[string]error {
	all := maps.Clone(contentErrors)
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

// canBeAgentFault reports whether the agent's image could have caused an error. It returns false for errors with other
// causes: the runtime's policies, webhooks and quotas. A webhook can deny a request or not respond.
func canBeAgentFault(err error) bool {
	return err != nil && !errors.Is(err, guard.ErrExposed) && !objects.IsDenied(err) && !objects.IsIntercepted(err)
}

// summarizeTrouble summarizes errors for the report. It returns nil if nothing failed. A bundle that cannot be
// stored comes first, because it blocks all newer bundles.
func summarizeTrouble(notKept, unreadable error, failures []objects.Failure, others ...error) *bundle.ReportedTrouble {
	trouble := bundle.ReportedTrouble{Reason: v1beta2.ReasonObjectRefused}
	var texts []string
	if notKept != nil {
		trouble.Reason = v1beta2.ReasonStorageRefused
		texts = append(texts, "the agent cannot store a newer bundle: allow it to write Secrets in "+
			v1beta2.RuntimeNamespace+
			" (a quota, admission policy or webhook refuses them): "+innermost(notKept).Error())
	}
	if unreadable != nil {
		if notKept == nil {
			trouble.Reason = v1beta2.ReasonPinsUnreadable
		}
		texts = append(texts, fmt.Sprintf("Kyma %s/%s: %v; its previous request applies until this is corrected",
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
		texts = append(texts,
			fmt.Sprintf("%d objects could not be written (%s): %v", n, describeFailures(failures), failures[0].Err))
	}
	for _, err := range others {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	trouble.Message = bundle.Bounded(excerpt.RedactKnown(strings.Join(texts, "; ")), bundle.MaxMessageBytes)
	return &trouble
}

// describeFailures lists the first three objects that could not be written, with shortened names.
func describeFailures(failures []objects.Failure) string {
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

// innermost returns the innermost wrapped error, such as the API server's error.
func innermost(err error) error {
	for {
		switch wrapped := err.(type) { //nolint:errorlint // unwrap one layer at a time
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

// logOutage logs the start and end of an outage once.
func (a *Agent) logOutage(log logr.Logger, outage bool, err error) {
	state := ""
	switch {
	case a.storeErr != nil:
		state = "not kept"
	case outage:
		state = "unreadable"
	}
	switch changed := a.logged.Update(loggedOutage, state); {
	case changed && a.storeErr != nil:
		log.Error(err, "failed to store a newer bundle, continuing with the last accepted bundle")
	case changed && outage:
		log.Error(err, "failed to read bundles, continuing with the last accepted bundle",
			"location", a.Puller.Location().String())
	case changed:
		log.Info("bundles can be read again", "location", a.Puller.Location().String())
	}
}
