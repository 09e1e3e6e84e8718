package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// sendReport sends a report if its content changed or the report interval has passed. After a failure, it sends the
// report after the next poll. It returns the delay until the agent must read module details again, or zero if no
// further read is necessary.
func (a *Agent) sendReport(ctx context.Context, log logr.Logger, facts report.Facts) (delay time.Duration) {
	facts.Details, delay = a.inspectModules(ctx, facts.Manifests)
	next := report.New(a.Runtime, facts)
	next.AgentVersion, next.KubernetesVersion, next.ClusterUID = a.Version, a.KubernetesVersion, a.ClusterUID
	next.Recipient = a.Secrets.Recipient()
	next.Instance, next.Confirmed, next.Twin = a.Instance, a.twinDetector.isConfirmed(), a.twinDetector.twin
	if err := a.addIdentity(log, &next); err != nil {
		log.Error(err, "failed to add the identity to the report")
		return delay
	}
	content, err := json.Marshal(withoutCheckValues(next))
	now := a.Now()
	if err != nil || !a.delivery.isNeeded(string(content), now, a.reportInterval(), a.pollInterval()) {
		return delay
	}
	a.resumeSequence(ctx, log)
	a.checkForTwin(ctx, log, false)
	next.Confirmed, next.Twin = a.twinDetector.isConfirmed(), a.twinDetector.twin
	a.sequence = a.nextSequence()
	next.Sequence, next.Time, next.Follows = a.sequence, now.UTC().Truncate(time.Second), a.twinDetector.ownReport
	err = a.pushReport(ctx, next)
	before := a.delivery
	a.delivery = before.afterAttempt(string(content), now, err)
	switch {
	case err != nil && !before.failed:
		log.Error(err, "failed to deliver the report, retrying")
	case err == nil && before.failed:
		log.Info("delivered a report after failures")
	}
	if err != nil {
		reportFailures.Inc()
		return delay
	}
	reportsSent.Inc()
	a.saveReported(ctx, log)
	return delay
}

// withoutCheckValues returns the report without check counts and values. The agent compares reports in this form, so
// that a change to these values does not cause a new report.
func withoutCheckValues(r bundle.Report) bundle.Report {
	r.Modules = slices.Clone(r.Modules)
	for i := range r.Modules {
		r.Modules[i].Checks = checks.WithoutValues(r.Modules[i].Checks)
	}
	return r
}

// saveReported stores the sequence and the sender of the last sent report in the cluster, because the registry can lose
// the report. While the agent must not accept bundles, it stores pull.UnconfirmedReporter as the sender, so that the
// next process does not accept bundles either.
func (a *Agent) saveReported(ctx context.Context, log logr.Logger) {
	reporter := a.Instance
	if a.twinDetector.holdsBundles() {
		reporter = pull.UnconfirmedReporter
	}
	err := a.Puller.SaveReported(ctx, a.sequence, reporter)
	if err == nil {
		a.logged.Update(loggedNotSaved, "")
		return
	}
	if a.logged.Update(loggedNotSaved, "reported") {
		log.Error(err, "failed to save the sequence of a delivered report, retrying after the next report")
	}
}

func (a *Agent) nextSequence() int64 {
	verified := a.Puller.NewestSignedTime()
	if a.hasResumed && a.sequence == 0 {
		// Before a runtime's first report, ignore the bundle's signing time. It is too old if the registry was restored
		// from a backup.
		verified = time.Time{}
	}
	return bundle.NextReportSequence(a.sequence, a.Puller.CurrentTime(), verified)
}

// resumeSequence reads the sequence of the last report from the cluster and the registry. A sequence that is computed
// from the clock alone could be too low if the clock was set back.
func (a *Agent) resumeSequence(ctx context.Context, log logr.Logger) {
	if a.hasResumed {
		return
	}
	saved, err := a.Puller.ReportedSequence(ctx)
	if err != nil {
		return // hasResumed stays false, so the next report reads the sequence again
	}
	a.sequence = max(a.sequence, saved)
	last, err := a.readLastReport(ctx)
	if err != nil {
		a.twinDetector.recordUnreadStart(a.Puller.LastReporter())
		if a.logged.Update(loggedUnreadReport, "unread") {
			log.Error(err, "failed to read the newest report, accepting no newer bundles if this agent reported before")
		}
		return // hasResumed stays false, so the next report reads the sequence again
	}
	a.sequence = max(a.sequence, last.Sequence)
	a.twinDetector.recordStart(last, a.Puller.LastReporter(), saved)
	a.hasResumed = true
	a.logged.Update(loggedUnreadReport, "")
	if a.twinDetector.foundUnknownReporter {
		log.Info("another agent may have this agent's key, accepting no newer bundles until three polls confirm this agent")
	}
}

// readLastReport returns the newest report in the registry that was signed with this agent's key, or zero.
func (a *Agent) readLastReport(ctx context.Context) (last bundle.AcceptedReport, err error) {
	key, err := a.Signer.PublicKey()
	if err != nil {
		return last, err
	}
	repository, err := a.Puller.Location().Reading(ctx, bundle.ReportRepository(a.Runtime))
	if err != nil {
		return last, err
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagLatest)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return last, nil
	case err != nil:
		return last, err
	}
	if verified, err := bundle.VerifyReport(fetched, bundle.Reporter{Runtime: a.Runtime, Key: key}); err == nil {
		last = verified
	}
	return last, nil
}

func (a *Agent) pushReport(ctx context.Context, r bundle.Report) error {
	manifest, err := bundle.ComposeReport(r, a.Signer)
	if err != nil {
		return err
	}
	if err := store.PushReport(ctx, a.Puller.Location(), a.Runtime, manifest); err != nil {
		return err
	}
	a.twinDetector.recordReport(manifest.Descriptor.Digest, a.Now())
	return nil
}

// checkForTwin compares the newest report in the registry with the agent's own report to detect a second agent. polled
// is true if the call is part of a poll. Only such calls count toward the confirmation of this agent.
func (a *Agent) checkForTwin(ctx context.Context, log logr.Logger, polled bool) {
	if a.Instance == "" {
		return
	}
	if a.twinDetector.ownReport == "" {
		a.resumeSequence(ctx, log)
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
	if newest != a.twinDetector.ownReport {
		if report, err = a.fetchOwnReport(ctx, repository, newest.String()); err != nil {
			return
		}
	}
	before := a.twinDetector.twin
	if polled && newest == a.twinDetector.ownReport {
		a.twinDetector.recordPoll(a.Now(), a.pollInterval())
	}
	if !a.twinDetector.detectTwin(newest, report, a.Instance, a.sequence) {
		return
	}
	a.delivery.content = "" // report again, to replace the second agent's report
	// The control plane accepts only increasing sequences. The second agent's sequences can be ahead of the clock.
	a.sequence = max(a.sequence, report.Sequence)
	if a.twinDetector.twin != before {
		why := a.twinMessage()
		log.Error(errors.New(why), "detected a second agent, accepting no newer bundles")
		a.emitEvent(ctx, v1beta2.ReasonCloneDetected, why)
	}
}

// fetchOwnReport fetches a report, or returns nil if another key signed it.
func (a *Agent) fetchOwnReport(
	ctx context.Context, reader store.Reader, reference string,
) (*bundle.AcceptedReport, error) {
	key, err := a.Signer.PublicKey()
	if err != nil {
		return nil, err
	}
	fetched, err := store.Fetch(ctx, reader, reference)
	if err != nil {
		return nil, err
	}
	report, err := bundle.VerifyReport(fetched, bundle.Reporter{Runtime: a.Runtime, Key: key})
	if err != nil {
		return nil, nil //nolint:nilerr // signed by another key
	}
	return &report, nil
}

// twinMessage returns a message if a second agent reports with the same key, and "" otherwise.
func (a *Agent) twinMessage() string {
	if a.twinDetector.twin == "" {
		return ""
	}
	return fmt.Sprintf(
		"another agent (instance %s) reports with this agent's key: a copy of this cluster is running. Stop the "+
			"copy. Then delete Secret %s/skr-agent-key in the original cluster, and "+
			"apply the output of `kcp-publisher enroll %s` there",
		bundle.Quote(a.twinDetector.twin, 64),
		v1beta2.RuntimeNamespace,
		a.Runtime,
	)
}
