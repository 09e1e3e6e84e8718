package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/logonce"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/round"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

const (
	// restoreInterval is the delay until the first retry of restoreCRDsUntilStart. The delay doubles with each retry,
	// up to restoreDoublings times.
	restoreInterval  = time.Second
	restoreDoublings = 5
)

// restoration is the agent's state for restoring its own objects after a user deleted or changed them.
type restoration struct {
	// changes collects changes to the agent's objects since the last reconciliation. notRestored contains the last
	// logged error for each object that the agent could not restore. suspected contains the state that each failed
	// Manifest had when the agent last verified its stored content.
	changes                changeLog
	notRestored, suspected logonce.Memo
	lost                   lossLog
	// documentsError is the error from storing the bundle's documents, such as its desired state.
	documentsError error
	// definitions are the CRDs for the agent's kinds.
	definitions objects.Definitions
	// hasStarted is true after the agent has read the state of the previous process.
	hasStarted atomic.Bool
}

// lossLog limits the log lines about deleted or damaged content. Content that is lost repeatedly is logged at most once
// per poll.
type lossLog struct {
	logged    logonce.Memo
	sincePoll map[string]string
}

// newLosses records lost content and returns the digests to log now.
func (l *lossLog) newLosses(lost []digest.Digest) []digest.Digest {
	if l.sincePoll == nil {
		l.sincePoll = map[string]string{}
	}
	var news []digest.Digest
	for _, d := range lost {
		l.sincePoll[d.String()] = "lost"
		if l.logged.Update(d.String(), "lost") {
			news = append(news, d)
		}
	}
	return news
}

func (l *lossLog) resetPoll() {
	l.logged.Replace(l.sincePoll)
	l.sincePoll = nil
}

// restoreDefinitions restores the CRDs for the agent's kinds. It returns false if the API server does not serve one of
// the kinds yet.
func (a *Agent) restoreDefinitions(ctx context.Context, p *roundRun) bool {
	served, err := a.definitions.Restore(ctx, a.Uncached)
	if err != nil {
		p.unrestored["definitions"], served = err.Error(), false
	}
	switch {
	case ctx.Err() != nil:
	case !served && !p.facts.IsKindMissing:
		p.log.Info("the agent's CRDs were deleted or changed, restoring them")
	case served && p.facts.IsKindMissing:
		p.log.Info("restored all of the agent's CRDs")
	}
	return served
}

// restoreOwnObjects restores the agent's own objects, except CRDs. It returns false if an object is not restored yet.
func (a *Agent) restoreOwnObjects(ctx context.Context, p *roundRun) bool {
	if p.hasPolled() {
		a.lost.resetPoll()
	}
	if err := a.restoreSecrets(ctx, p.log, p.secrets); err != nil {
		p.unrestored["secrets"] = err.Error()
	}
	postponed, err := a.verifyContents(ctx, p.log, p.contents)
	if err != nil {
		p.unrestored["contents"] = err.Error()
	}
	if postponed {
		p.facts.Wake(round.MinDelay)
	}
	if !p.facts.IsReleased {
		restored, err := a.Restorer.Restore(ctx, a.Puller.Current())
		if len(restored) > 0 {
			p.log.Info("restored deleted objects", "objects", restored)
		}
		if err != nil {
			p.unrestored["objects"] = err.Error()
		}
	}
	if ctx.Err() != nil {
		return true // the process is shutting down, so errors are expected
	}
	isRestored := len(p.unrestored) == 0
	if p.hasPolled() && a.documentsError != nil {
		a.documentsError = a.Puller.StageDocuments(ctx)
	}
	if a.documentsError != nil {
		p.unrestored["documents"] = a.documentsError.Error() // the next poll tries to store the documents again
	}
	for _, what := range a.notRestored.Replace(p.unrestored) {
		p.log.Info("failed to restore the agent's objects, retrying", "objects", what, "error", p.unrestored[what])
	}
	return isRestored
}

// restoreCRDsUntilStart restores CRDs that a user deletes before the first reconciliation. Without the CRDs, the agent
// would hang, because its controllers wait until the API server serves their kinds.
func (a *Agent) restoreCRDsUntilStart(ctx context.Context) error {
	var definitions objects.Definitions
	for failed := 0; ; failed++ {
		if !pause.Sleep(ctx, restoreInterval<<min(failed, restoreDoublings)) {
			return nil
		}
		if a.hasStarted.Load() {
			return nil
		}
		if served, err := definitions.Restore(ctx, a.Uncached); err == nil && served {
			failed = -1 // no backoff, because a CRD can be deleted again at any time
		}
	}
}

// restoreSecrets creates deleted Secrets that contained the agent's state. It does not restore Secrets with keys,
// because operators delete a key to replace it.
func (a *Agent) restoreSecrets(ctx context.Context, log logr.Logger, deleted map[string]bool) error {
	var failed []error
	for name, save := range map[string]func(context.Context) error{pull.StateSecret: a.Puller.Save,
		objects.MemorySecret: a.Restorer.Save} {
		if !deleted[name] {
			continue
		}
		if err := save(ctx); err != nil {
			a.changes.recordSecret(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}, true)
			failed = append(failed, fmt.Errorf("write Secret %s/%s again: %w", v1beta2.RuntimeNamespace, name, err))
			continue
		}
		log.Info("restored one of the agent's Secrets", "name", name)
	}
	return errors.Join(failed...)
}

// verifyContents verifies stored blobs whose Secrets another client changed, and fetches the last accepted bundle's
// damaged documents again. The next fetch replaces damaged module content.
func (a *Agent) verifyContents(
	ctx context.Context, log logr.Logger, changed map[digest.Digest]contentChange,
) (postponed bool, err error) {
	var kept, later []digest.Digest
	for _, d := range slices.Sorted(maps.Keys(changed)) {
		switch change := changed[d]; {
		case a.isContentMissing(d): // still missing after the last fetch, so not lost
		case change.isOwn(a.Store):
		case a.keptDigests[d]:
			kept = append(kept, d)
		case change.isLost && a.needsPrune:
			later = append(later, d)
		}
	}
	a.changes.recordLost(later)
	postponed = len(later) > 0 && a.staging != nil
	lost, err := a.Puller.VerifyContents(ctx, kept)
	if err != nil {
		a.changes.recordLost(kept)
		return postponed, err
	}
	if news := a.lost.newLosses(lost); len(news) > 0 {
		log.Info("stored content was deleted or damaged, fetching it again", "contents", news)
	}
	if len(lost) > 0 {
		a.stagedKey, a.documentsError = "", a.Puller.StageDocuments(ctx)
	}
	return postponed, nil
}

// verifyFailedModules verifies the stored content for each module that failed because of missing or damaged content. If
// fetched is true, the agent has just fetched content, and verifyFailedModules also requests another reconciliation of
// these modules.
func (a *Agent) verifyFailedModules(manifests []v1beta2.Manifest, fetched bool) {
	for i := range manifests {
		m := &manifests[i]
		c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionResources)
		if c == nil || c.Status == metav1.ConditionTrue ||
			c.Reason != v1beta2.ReasonContentMissing && c.Reason != v1beta2.ReasonContentBroken {
			a.suspected.Update(m.Name, "")
			continue
		}
		if a.suspected.Update(m.Name, fmt.Sprint(c.ObservedGeneration, c.LastTransitionTime, c.Reason)) {
			a.changes.recordLost(contentDigests(m))
		}
		if fetched && a.contentErrors[m.Module()] == nil {
			select {
			case a.Requeue <- event.GenericEvent{Object: m}:
			default: // the channel is full; the installer retries the module later anyway
			}
		}
	}
}
