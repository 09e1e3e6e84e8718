package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/logonce"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

const (
	// restoreInterval is the delay until the first retry of a failed restoration. The delay doubles with each retry, up
	// to restoreDoublings times.
	restoreInterval  = time.Second
	restoreDoublings = 5
	// definitionsInterval is the interval at which the agent checks its CRDs. A watch alone is not enough, because the
	// agent may not be permitted to watch CRDs.
	definitionsInterval = 10 * time.Minute
)

// restoration is the state of the agent for restoring its own objects after a user deleted or changed them.
type restoration struct {
	// changes contains the changes of the agent's objects since the last reconciliation. notRestored contains the last
	// logged error of each object that the agent could not restore. suspected contains the state of each failed
	// Manifest whose stored content the agent has verified again.
	changes                changeLog
	notRestored, suspected logonce.Memo
	lost                   lossLog
	// isKindUnserved is true if the API server does not serve one of the agent's kinds. documentsError is the error of
	// storing the documents of the bundle, such as its desired state.
	isKindUnserved bool
	documentsError error
	// definitions are the CRDs of the agent's kinds. nextDefinitions is the time of their next check.
	definitions     objects.Definitions
	nextDefinitions time.Time
	// restoreFailed counts the consecutive failed restorations.
	restoreFailed int
	// hasStarted is true after the first reconciliation has started.
	hasStarted atomic.Bool
}

// changeLog contains the changes of the agent's own objects since the last reconciliation.
type changeLog struct {
	mu sync.Mutex // guards all fields below
	// definitions is true if one of the agent's CRDs was changed or deleted.
	definitions bool
	// contents contains the digests of stored blobs whose Secrets were changed or deleted. The value is true if a
	// Secret was deleted.
	contents map[digest.Digest]bool
	// secrets contains the names of deleted Secrets that contained the agent's state.
	secrets map[string]bool
}

func (c *changeLog) recordDefinition() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definitions = true
}

func (c *changeLog) recordContents(touched []digest.Digest, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.contents == nil {
		c.contents = map[digest.Digest]bool{}
	}
	for _, d := range touched {
		c.contents[d] = c.contents[d] || deleted
	}
}

// recordSecret records a changed Secret. It returns true if the change must start a reconciliation.
func (c *changeLog) recordSecret(secret *metav1.PartialObjectMetadata, deleted bool) bool {
	if d := contentstore.BlobDigest(secret.Annotations); d.Validate() == nil {
		c.recordContents([]digest.Digest{d}, deleted)
		return true
	}
	if !deleted || secret.Name != pull.StateSecret && secret.Name != objects.MemorySecret {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secrets == nil {
		c.secrets = map[string]bool{}
	}
	c.secrets[secret.Name] = true
	return true
}

func (c *changeLog) take() (definitions bool, contents map[digest.Digest]bool, secrets map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	definitions, contents, secrets = c.definitions, c.contents, c.secrets
	c.definitions, c.contents, c.secrets = false, nil, nil
	return definitions, contents, secrets
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

// watchOwnObjects watches the CRDs of the agent's kinds and the agent's Secrets.
func (a *Agent) watchOwnObjects(ctx context.Context, client metadata.Interface, q queue) error {
	wake := func() { q.AddAfter(request, eventDelay) }
	crds := schema.GroupVersionResource{
		Group:    "apiextensions.k8s.io",
		Version:  "v1",
		Resource: "customresourcedefinitions",
	}
	for _, kind := range []string{"kymas", "manifests", "moduletemplates", "modulereleasemetas"} {
		definition := manager.Watched{Resource: crds, Name: kind + "." + v1beta2.Group}
		err := manager.WatchChanges(ctx, client, definition, func(*metav1.PartialObjectMetadata, bool) {
			a.changes.recordDefinition()
			wake()
		})
		if err != nil {
			return err
		}
	}
	secrets := manager.Watched{
		Resource:  corev1.SchemeGroupVersion.WithResource("secrets"),
		Namespace: v1beta2.RuntimeNamespace,
	}
	return manager.WatchChanges(ctx, client, secrets, func(secret *metav1.PartialObjectMetadata, deleted bool) {
		if secret.Name == BootstrapSecret && !deleted {
			a.enrolled.Store(true)
			wake()
		}
		if a.changes.recordSecret(secret, deleted) {
			wake()
		}
	})
}

// restoreOwnObjects restores the agent's own objects. It returns the time until a retry, or 0 if no retry is needed.
func (a *Agent) restoreOwnObjects(ctx context.Context, log logr.Logger, polled bool) time.Duration {
	definitions, contents, secrets := a.changes.take()
	problems := map[string]string{}
	if polled {
		a.lost.resetPoll()
	}
	b := a.Puller.Current()
	if !takeover.ReleasesRuntime(b) && (definitions || a.isKindUnserved || !a.Now().Before(a.nextDefinitions)) {
		a.nextDefinitions = a.Now().Add(definitionsInterval)
		if err := a.restoreDefinitions(ctx, log); err != nil {
			problems["definitions"] = err.Error()
		}
	}
	if err := a.restoreSecrets(ctx, log, secrets); err != nil {
		problems["secrets"] = err.Error()
	}
	postponed, err := a.verifyContents(ctx, log, contents)
	if err != nil {
		problems["contents"] = err.Error()
	}
	restored, err := a.restoreObjects(ctx, b)
	if len(restored) > 0 {
		log.Info("restored deleted objects", "objects", restored)
	}
	if err != nil {
		problems["objects"] = err.Error()
	}
	if ctx.Err() != nil {
		return 0 // the process is shutting down, so errors are expected
	}
	failed := maps.Clone(problems)
	if polled && a.documentsError != nil {
		a.documentsError = a.Puller.StageDocuments(ctx)
	}
	if a.documentsError != nil {
		failed["documents"] = a.documentsError.Error() // the next poll tries to store the documents again
	}
	for _, what := range a.notRestored.Replace(failed) {
		log.Info("failed to restore objects of the agent, retrying", "objects", what, "error", failed[what])
	}
	if len(problems) == 0 && !a.isKindUnserved {
		a.restoreFailed = 0
		if postponed {
			return minDelay
		}
		return 0
	}
	a.restoreFailed++
	return restoreInterval << min(a.restoreFailed-1, restoreDoublings)
}

// restoreObjects restores a deleted Kyma and deleted Manifests. It does nothing if the bundle returns the runtime to
// lifecycle-manager.
func (a *Agent) restoreObjects(ctx context.Context, b *bundle.Bundle) ([]string, error) {
	if takeover.ReleasesRuntime(b) {
		return nil, nil
	}
	return a.Restorer.Restore(ctx, b)
}

// restoreDefinitions restores the CRDs. It sets isKindUnserved if the API server does not serve one of the kinds yet.
func (a *Agent) restoreDefinitions(ctx context.Context, log logr.Logger) error {
	served, err := a.definitions.Restore(ctx, a.Uncached)
	switch undefined := err != nil || !served; {
	case ctx.Err() != nil:
	case undefined && !a.isKindUnserved:
		log.Info("CRDs of the agent were deleted or changed, restoring them")
		a.isKindUnserved = true
	case !undefined && a.isKindUnserved:
		log.Info("restored all CRDs of the agent")
		a.isKindUnserved = false
	}
	return err
}

// restoreCRDsUntilStart restores CRDs that a user deletes before the first reconciliation. Without the CRDs, the agent
// would hang, because its controllers wait until the API server serves their kinds.
func (a *Agent) restoreCRDsUntilStart(ctx context.Context) error {
	var definitions objects.Definitions
	for failed := 0; ; failed++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restoreInterval << min(failed, restoreDoublings)):
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
	for name, save := range map[string]func(context.Context) error{pull.StateSecret: a.Puller.Save,
		objects.MemorySecret: a.Restorer.Save} {
		if !deleted[name] {
			continue
		}
		if err := save(ctx); err != nil {
			a.changes.recordSecret(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}, true)
			return fmt.Errorf("write Secret %s/%s again: %w", v1beta2.RuntimeNamespace, name, err)
		}
		log.Info("restored a Secret of the agent", "name", name)
	}
	return nil
}

// verifyContents verifies stored contents whose Secrets changed, and fetches damaged documents of the last accepted
// bundle again. The next fetch replaces damaged contents of modules.
func (a *Agent) verifyContents(
	ctx context.Context, log logr.Logger, changed map[digest.Digest]bool,
) (postponed bool, err error) {
	var kept, later []digest.Digest
	for _, d := range slices.Sorted(maps.Keys(changed)) {
		switch deleted := changed[d]; {
		case a.isContentMissing(d): // still missing after the last fetch, so not lost
		case a.keptDigests[d]:
			kept = append(kept, d)
		case deleted && a.needsPrune:
			later = append(later, d)
		}
	}
	a.changes.recordContents(later, true)
	postponed = len(later) > 0 && a.staging != nil
	lost, err := a.Puller.VerifyContents(ctx, kept)
	if err != nil {
		a.changes.recordContents(kept, true)
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

// verifyFailedModules verifies the stored content of each module that failed because of missing or damaged content. If
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
			a.changes.recordContents(contentDigests(m), true)
		}
		if fetched && a.contentErrors[m.Module()] == nil {
			select {
			case a.Requeue <- event.GenericEvent{Object: m}:
			default: // the channel is full; the installer retries the module later anyway
			}
		}
	}
}
