package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// confirmingPolls is the number of polls that must find the agent's own report in the registry before a report is sent
// as Confirmed. A second agent with the same key would find this report with its next poll, and replace it.
const confirmingPolls = 3

// twins detects a second agent that reports with the same key, such as the agent in a cluster that was restored from a
// snapshot of this cluster. If the registry has a newer report with this key that this agent did not write, a second
// agent wrote it.
type twins struct {
	// own is the digest of the last report that this agent delivered, empty before the first report.
	own digest.Digest
	// reads counts the polls that found own in the registry, up to confirmingPolls.
	reads int
	// twin is the instance of the second agent, empty for none. It stays set until the agent restarts. Until then, the
	// agent accepts no newer bundle, because the bundle can be a response to the other cluster's request.
	twin string
}

// confirmed reports whether enough polls found this agent's report in the registry, and no second agent was detected.
func (t *twins) confirmed() bool { return t.twin == "" && t.reads >= confirmingPolls }

// delivered records a report that this agent pushed.
func (t *twins) delivered(d digest.Digest) { t.own = d }

// found reports whether a second agent wrote the newest report in the registry, and records its instance. report is nil
// if this agent's key did not sign the newest report.
func (t *twins) found(newest digest.Digest, report *bundle.AcceptedReport, instance string, sequence int64) bool {
	switch {
	case t.own == "" || newest == "":
		return false // before its first report, the agent finds the report of the previous process
	case newest == t.own:
		return false
	case report == nil || report.Sequence <= sequence || report.Instance == instance:
		return false // from an older copy of the registry, signed with another key, or from this process
	}
	if t.twin = report.Instance; t.twin == "" {
		t.twin = "unknown"
	}
	return true
}

// checkForTwin compares the newest report in the registry with this agent's last report. It is a no-op if the registry
// does not respond. If polled is true and the report is still the newest, the check counts toward the confirmation of
// the report. Other rounds do not count, because a second agent needs a poll interval to replace the report.
func (a *Agent) checkForTwin(ctx context.Context, log logr.Logger, polled bool) {
	if a.twins.own == "" || a.Instance == "" {
		return
	}
	repository, err := a.Puller.Location().Reading(ctx, bundle.ReportRepository(a.Runtime))
	if err != nil {
		return
	}
	newest, err := store.Head(ctx, repository, bundle.TagLatest)
	if err != nil {
		return
	}
	var report *bundle.AcceptedReport
	if newest != a.twins.own {
		if report, err = a.ownReport(ctx, repository, newest.String()); err != nil {
			return
		}
	}
	before := a.twins.twin
	if polled && newest == a.twins.own {
		a.twins.reads = min(a.twins.reads+1, confirmingPolls)
	}
	if !a.twins.found(newest, report, a.Instance, a.sequence) {
		return
	}
	a.delivery.sent = "" // report again, because the second agent replaced this agent's report
	if a.twins.twin != before {
		why := a.cloned()
		log.Error(errors.New(why), "detected a second agent, accepting no newer bundles")
		a.event(ctx, v1beta2.ReasonCloneDetected, why)
	}
}

// ownReport fetches a report. It returns nil if another key signed the report.
func (a *Agent) ownReport(ctx context.Context, from store.Reader, reference string) (*bundle.AcceptedReport, error) {
	key, err := a.Signer.PublicKey()
	if err != nil {
		return nil, err
	}
	fetched, err := store.Fetch(ctx, from, reference)
	if err != nil {
		return nil, err
	}
	report, err := bundle.VerifyReport(fetched, bundle.Reporter{Runtime: a.Runtime, Key: key})
	if err != nil {
		return nil, nil //nolint:nilerr // signed by another key
	}
	return &report, nil
}

// cloned returns a message about the second agent, "" if none was detected.
func (a *Agent) cloned() string {
	if a.twins.twin == "" {
		return ""
	}
	return fmt.Sprintf(
		"another agent (instance %s) reports with this agent's key: a copy of this cluster is running. Stop the "+
			"copy. Then delete Secret %s/skr-agent-key in the original cluster, and "+
			"apply the output of `kcp-publisher enroll %s` there",
		bundle.Quote(a.twins.twin, 64),
		v1beta2.RuntimeNamespace,
		a.Runtime,
	)
}
