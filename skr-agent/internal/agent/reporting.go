package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
)

// report tells the control plane when something changed or it has not been told for long. A report that cannot be
// delivered is tried again with the next poll.
func (a *Agent) report(ctx context.Context, log logr.Logger, facts report.Facts) {
	next := report.New(a.Runtime, facts)
	next.AgentVersion, next.KubernetesVersion, next.ClusterUID = a.Version, a.KubernetesVersion, a.ClusterUID
	next.Recipient = a.Secrets.Recipient()
	next.Instance, next.Confirmed, next.Twin = a.Instance, a.twins.confirmed(), a.twins.twin
	if err := a.identify(log, &next); err != nil {
		log.Error(err, "cannot introduce the runtime's key")
		return
	}
	said, err := json.Marshal(next)
	now := a.Now()
	if err != nil || !a.delivery.due(string(said), now, a.reportInterval(), a.pollInterval()) {
		return
	}
	a.resume(ctx)
	a.lookForTwin(ctx, log, false)
	next.Twin = a.twins.twin
	a.sequence = a.nextSequence()
	next.Sequence, next.Time, next.Follows = a.sequence, now.UTC().Truncate(time.Second), a.twins.own
	err = a.push(ctx, next)
	before := a.delivery
	a.delivery = before.after(string(said), now, err)
	switch {
	case err != nil && !before.down:
		log.Error(err, "failed to deliver the report, it is tried again")
	case err == nil && before.down:
		log.Info("reports are delivered again")
	}
	if err != nil {
		reportFailures.Inc()
		return
	}
	reportsSent.Inc()
	a.saveReported(ctx, log)
}

// saveReported makes the sequence survive a restart, also where the registry loses the report.
func (a *Agent) saveReported(ctx context.Context, log logr.Logger) {
	err := a.Puller.SaveReported(ctx, a.sequence)
	if err == nil {
		a.said.Changed(saidNotSaved, "")
		return
	}
	if a.said.Changed(saidNotSaved, "reported") {
		log.Error(err, "failed to save the sequence of a report that was delivered, it is tried again with the next one")
	}
}

// nextSequence returns the sequence of the next report, or less while it is not known which was the last.
func (a *Agent) nextSequence() int64 {
	verified := a.Puller.NewestTime()
	if a.resumed && a.sequence == 0 {
		verified = time.Time{} // a registry that lost the last one may not have brought a bundle for long: only the clock is later
	}
	return bundle.NextReportSequence(a.sequence, a.Puller.Clock(), verified)
}

// resume goes on from the sequence of the last report that was delivered: the saved one, or that in the registry where
// it is higher. By the clock alone a restarted agent would fall behind it where the clock was set back meanwhile, and
// be refused until the clock is there again.
func (a *Agent) resume(ctx context.Context) {
	if a.resumed {
		return
	}
	saved, err := a.Puller.Reported(ctx)
	if err != nil {
		return // nor could it be saved
	}
	a.sequence = max(a.sequence, saved)
	key, err := a.Signer.PublicKey()
	if err != nil {
		return
	}
	repository, err := a.Place.Reading(ctx, bundle.ReportRepository(a.Runtime))
	if err != nil {
		return // nor can a report be delivered
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagLatest)
	if err == nil {
		if last, err := bundle.VerifyReport(fetched, bundle.Reporter{Runtime: a.Runtime, Key: key}); err == nil {
			a.sequence = max(a.sequence, last.Sequence)
		}
	}
	a.resumed = err == nil || errors.Is(err, store.ErrNotFound)
}

func (a *Agent) push(ctx context.Context, r bundle.Report) error {
	manifest, err := bundle.ComposeReport(r, a.Signer)
	if err != nil {
		return err
	}
	if err := store.PushReport(ctx, a.Place, a.Runtime, manifest); err != nil {
		return err
	}
	a.twins.delivered(manifest.Descriptor.Digest)
	return nil
}
