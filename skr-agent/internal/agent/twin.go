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

// confirmingLooks is the number of polls that must find the agent's own report in the registry before its requests
// count. A running agent of the same key finds this agent's report with its next poll, and replaces it.
const confirmingLooks = 3

// twins finds a second agent that reports with the same key, such as one in a cluster that was restored from a snapshot
// of this one. One key signs one chain of reports: a report in the registry that is newer than this agent's newest, and
// that this agent did not write, is of the second agent.
type twins struct {
	// own is the report that this agent delivered last, empty before the first.
	own digest.Digest
	// reads is the number of times that own was found in the registry, up to confirmingLooks.
	reads int
	// twin is the instance of the second agent, empty for none. It stays until the agent restarts: until then, no newer
	// bundle is accepted, because it may answer the other cluster's request.
	twin string
}

// confirmed reports whether no second agent has replaced this agent's report for long enough.
func (t *twins) confirmed() bool { return t.twin == "" && t.reads >= confirmingLooks }

// delivered records a report that this agent pushed.
func (t *twins) delivered(d digest.Digest) { t.own = d }

// found decides by the digest and content of the newest report in the registry, nil for a report that this agent's key
// did not sign. It reports whether a second agent wrote it.
func (t *twins) found(newest digest.Digest, report *bundle.AcceptedReport, instance string, sequence int64) bool {
	switch {
	case t.own == "" || newest == "":
		return false // before the first report, the newest is of the agent before this one
	case newest == t.own:
		return false
	case report == nil || report.Sequence <= sequence || report.Instance == instance:
		return false // an older copy of the registry, or a stranger's
	}
	if t.twin = report.Instance; t.twin == "" {
		t.twin = "unknown"
	}
	return true
}

// checkForTwin compares the newest report in the registry with this agent's own. A registry that does not answer
// decides nothing. Only polls confirm: they leave the other agent time for a poll of its own.
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
		a.twins.reads = min(a.twins.reads+1, confirmingLooks)
	}
	if !a.twins.found(newest, report, a.Instance, a.sequence) {
		return
	}
	a.delivery.sent = "" // the control plane must read this agent's report as well
	if a.twins.twin != before {
		why := a.cloned()
		log.Error(errors.New(why), "no newer bundle is accepted")
		a.event(ctx, v1beta2.ReasonCloneDetected, why)
	}
}

// ownReport fetches a report, nil if another key signed it.
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
		return nil, nil //nolint:nilerr // it is not this key's
	}
	return &report, nil
}

// cloned returns why the agent accepts no newer bundle, empty if it does.
func (a *Agent) cloned() string {
	if a.twins.twin == "" {
		return ""
	}
	return fmt.Sprintf(
		"another agent (instance %s) reports with this agent's key: a copy of this cluster is running. Stop the "+
			"copy; then delete Secret %s/skr-agent-key in the original, and "+
			"apply the output of `kcp-publisher enroll %s` there",
		bundle.Quote(a.twins.twin, 64),
		v1beta2.RuntimeNamespace,
		a.Runtime,
	)
}
