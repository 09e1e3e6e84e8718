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
)

// restoreInterval is how soon something is tried again that could not be put back, and restoreMost how often that
// doubles.
const (
	restoreInterval = time.Second
	restoreMost     = 5
	// definitionsInterval is the time between two checks of the definitions without a change. Watches report changes; the
	// check is for agents that may not watch definitions.
	definitionsInterval = 10 * time.Minute
)

// restoration is what a round has to know to put back what the agent works by.
type restoration struct {
	// changes is what watches saw; notRestored is what was said of it, and suspected of Manifests without content.
	changes                changes
	notRestored, suspected logonce.Memo
	lost                   losses
	// undefined says that a definition of the agent's kinds is not served, undocumented why documents of the bundle in
	// force are not stored.
	undefined    bool
	undocumented error
	// definitions are those of the agent's kinds, which are looked at again at nextDefinitions.
	definitions     objects.Definitions
	nextDefinitions time.Time
	// restoreFailed counts rounds in a row in which something could not be put back.
	restoreFailed int
	// begun says that there was a round. Anybody may read it.
	begun atomic.Bool
}

// changes is what happened since the last round to what the agent works by. Watches write it, and rounds take it.
type changes struct {
	mu sync.Mutex // guards what follows
	// definitions says that one of the agent's CRDs was changed or deleted.
	definitions bool
	// contents are blobs of which a Secret was written or, where it says true, deleted.
	contents map[digest.Digest]bool
	// secrets are those with the agent's memory that were deleted.
	secrets map[string]bool
}

func (c *changes) noteDefinition() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definitions = true
}

func (c *changes) noteContents(touched []digest.Digest, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.contents == nil {
		c.contents = map[digest.Digest]bool{}
	}
	for _, d := range touched {
		c.contents[d] = c.contents[d] || deleted
	}
}

// noteSecret reports whether the Secret matters.
func (c *changes) noteSecret(secret *metav1.PartialObjectMetadata, deleted bool) bool {
	if d := contentstore.DigestOf(secret.Annotations); d.Validate() == nil {
		c.noteContents([]digest.Digest{d}, deleted)
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

func (c *changes) take() (definitions bool, contents map[digest.Digest]bool, secrets map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	definitions, contents, secrets = c.definitions, c.contents, c.secrets
	c.definitions, c.contents, c.secrets = false, nil, nil
	return definitions, contents, secrets
}

// losses are stored contents that were deleted or damaged. Whoever goes on damaging one has it logged once: it is news
// again after a time between two polls in which it was left alone.
type losses struct {
	said logonce.Memo
	// sincePoll are those since the last poll.
	sincePoll map[string]string
}

// news returns the contents of which it was not said yet.
func (l *losses) news(lost []digest.Digest) []digest.Digest {
	if l.sincePoll == nil {
		l.sincePoll = map[string]string{}
	}
	var news []digest.Digest
	for _, d := range lost {
		l.sincePoll[d.String()] = "lost"
		if l.said.Changed(d.String(), "lost") {
			news = append(news, d)
		}
	}
	return news
}

func (l *losses) poll() {
	l.said.Replace(l.sincePoll)
	l.sincePoll = nil
}

// watchOwn watches what the agent works by: its definitions and its Secrets.
func (a *Agent) watchOwn(ctx context.Context, client metadata.Interface, q queue) error {
	wake := func() { q.AddAfter(request, gather) }
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for _, kind := range []string{"kymas", "manifests", "moduletemplates", "modulereleasemetas"} {
		definition := manager.Watched{Resource: crds, Name: kind + "." + v1beta2.Group}
		err := manager.WatchChanges(ctx, client, definition, func(*metav1.PartialObjectMetadata, bool) {
			a.changes.noteDefinition()
			wake()
		})
		if err != nil {
			return err
		}
	}
	secrets := manager.Watched{Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Namespace: v1beta2.RuntimeNamespace}
	return manager.WatchChanges(ctx, client, secrets, func(secret *metav1.PartialObjectMetadata, deleted bool) {
		if a.changes.noteSecret(secret, deleted) {
			wake()
		}
	})
}

// restore puts back what the agent works by, and returns how soon to try again what could not be put back yet, 0 for
// nothing.
func (a *Agent) restore(ctx context.Context, log logr.Logger, polled bool) time.Duration {
	definitions, contents, secrets := a.changes.take()
	problems := map[string]string{}
	if polled {
		a.lost.poll()
	}
	b := a.Puller.Current()
	if !released(b) && (definitions || a.undefined || !a.Now().Before(a.nextDefinitions)) {
		a.nextDefinitions = a.Now().Add(definitionsInterval)
		if err := a.restoreDefinitions(ctx, log); err != nil {
			problems["definitions"] = err.Error()
		}
	}
	if err := a.restoreSecrets(ctx, log, secrets); err != nil {
		problems["secrets"] = err.Error()
	}
	postponed, err := a.recheck(ctx, log, contents)
	if err != nil {
		problems["contents"] = err.Error()
	}
	restored, err := a.restoreObjects(ctx, b)
	if len(restored) > 0 {
		log.Info("restored what somebody deleted", "objects", restored)
	}
	if err != nil {
		problems["objects"] = err.Error()
	}
	if ctx.Err() != nil {
		return 0 // the agent is ending, which is no news
	}
	told := maps.Clone(problems)
	if polled && a.undocumented != nil {
		a.undocumented = a.Puller.StageDocuments(ctx)
	}
	if a.undocumented != nil {
		told["documents"] = a.undocumented.Error() // the next poll tries again
	}
	for _, what := range a.notRestored.Replace(told) {
		log.Info("cannot restore what the agent needs yet, it is tried again", "what", what, "error", told[what])
	}
	if len(problems) == 0 && !a.undefined {
		a.restoreFailed = 0
		if postponed {
			return minRound
		}
		return 0
	}
	a.restoreFailed++
	return restoreInterval << min(a.restoreFailed-1, restoreMost)
}

// restoreObjects puts back the objects of the agent's kinds. What was given back is not the agent's any more.
func (a *Agent) restoreObjects(ctx context.Context, b *bundle.Bundle) ([]string, error) {
	if released(b) {
		return nil, nil
	}
	return a.Keeper.Restore(ctx, b)
}

// restoreDefinitions leaves in undefined whether one is not served yet.
func (a *Agent) restoreDefinitions(ctx context.Context, log logr.Logger) error {
	served, err := a.definitions.Restore(ctx, a.Uncached)
	switch undefined := err != nil || !served; {
	case ctx.Err() != nil:
	case undefined && !a.undefined:
		log.Info("definitions of the agent's kinds were deleted or changed, they are put back")
		a.undefined = true
	case !undefined && a.undefined:
		log.Info("all definitions of the agent's kinds are there again")
		a.undefined = false
	}
	return err
}

// defineUntilBegun puts back definitions that are deleted while the agent starts, until its first round: the
// controllers wait for their kinds to be served, and rounds for the controllers. One that was being deleted when the
// agent began was there until then.
func (a *Agent) defineUntilBegun(ctx context.Context) error {
	var definitions objects.Definitions
	for failed := 0; ; failed++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restoreInterval << min(failed, restoreMost)):
		}
		if a.begun.Load() {
			return nil
		}
		if served, err := definitions.Restore(ctx, a.Uncached); err == nil && served {
			failed = -1 // it may still be deleted
		}
	}
}

// restoreSecrets writes again what the agent remembers. Its keys it does not: deleting one is how an operator has it
// make another.
func (a *Agent) restoreSecrets(ctx context.Context, log logr.Logger, deleted map[string]bool) error {
	for name, save := range map[string]func(context.Context) error{pull.StateSecret: a.Puller.Save, objects.MemorySecret: a.Keeper.Save} {
		if !deleted[name] {
			continue
		}
		if err := save(ctx); err != nil {
			a.changes.noteSecret(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}, true)
			return fmt.Errorf("write Secret %s/%s again: %w", v1beta2.RuntimeNamespace, name, err)
		}
		log.Info("restored a Secret of the agent", "name", name)
	}
	return nil
}

// recheck looks whether contents that somebody touched are still what they should be. What is not is fetched again by
// stage, and documents of the bundle in force here: at once, and then with every poll. It reports whether it is to look
// again when all contents were looked for: until then it is not known which are kept. What was only written meanwhile
// is what the agent stored.
func (a *Agent) recheck(ctx context.Context, log logr.Logger, touched map[digest.Digest]bool) (postponed bool, err error) {
	var kept, later []digest.Digest
	for _, d := range slices.Sorted(maps.Keys(touched)) {
		switch deleted := touched[d]; {
		case a.lacks(d): // what a refused write left is dropped, which is no loss
		case a.kept[d]:
			kept = append(kept, d)
		case deleted && a.unpruned:
			later = append(later, d)
		}
	}
	a.changes.noteContents(later, true)
	postponed = len(later) > 0 && a.staging != nil
	lost, err := a.Puller.Recheck(ctx, kept)
	if err != nil {
		a.changes.noteContents(kept, true)
		return postponed, err
	}
	if news := a.lost.news(lost); len(news) > 0 {
		log.Info("stored content was deleted or damaged, it is fetched again", "contents", news)
	}
	if len(lost) > 0 {
		a.staged, a.undocumented = "", a.Puller.StageDocuments(ctx)
	}
	return postponed, nil
}

// suspect has contents looked at again that modules could not use, once for each time that a module says so, and lets
// those modules try again whose content was fetched in this round.
func (a *Agent) suspect(manifests []v1beta2.Manifest, fetched bool) {
	for i := range manifests {
		m := &manifests[i]
		c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionResources)
		if c == nil || c.Status == metav1.ConditionTrue || c.Reason != v1beta2.ReasonContentMissing && c.Reason != v1beta2.ReasonContentBroken {
			a.suspected.Changed(m.Name, "")
			continue
		}
		if a.suspected.Changed(m.Name, fmt.Sprint(c.ObservedGeneration, c.LastTransitionTime, c.Reason)) {
			a.changes.noteContents(contentOf(m), true)
		}
		if fetched && a.unstaged[m.Module()] == nil {
			select {
			case a.TryAgain <- event.GenericEvent{Object: m}:
			default: // it tries again by itself, later
			}
		}
	}
}
