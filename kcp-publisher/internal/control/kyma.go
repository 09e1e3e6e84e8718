// Package control runs the control plane's side in a cluster: it watches Kymas, ModuleTemplates and ModuleReleaseMetas and
// keeps each runtime's bundle and each Kyma's status in line. Its controllers read, call the pure packages and write.
package control

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Kymas keeps every runtime's bundle and every Kyma's status in line.
type Kymas struct {
	Client    client.Client
	Events    events.EventRecorder
	Publisher *publish.Publisher
	Catalog   *Catalog
	Place     store.Store
	Keys      *Keys
	// PollInterval is how often a runtime's report is asked for, Silence how long it may be missing.
	PollInterval time.Duration
	Silence      time.Duration
	// Farewell is how long a deleted Kyma waits for its runtime to be empty.
	Farewell time.Duration
	Settings bundle.Settings
	// Maintenance says when runtimes may be upgraded where that means downtime.
	Maintenance Maintenance
	Signatures  SignatureKeys
	// Source gives the commit that the control plane has, nil for none; it is nil itself where no repository is followed.
	Source   func() *bundle.Source
	Watchers Watchers
	Rollouts Rollouts
	// ClusterUID is that of the control plane's own cluster, which may be a runtime as well.
	ClusterUID string
	// SecretsNamespace is where the Secrets are that are for runtimes; empty when none are to be read.
	SecretsNamespace string
	secrets          client.Reader // of that namespace, nil without
	Now              func() time.Time

	gate gate

	mu      sync.Mutex // guards reports
	reports map[types.NamespacedName]heard
}

// heard is the newest report of a runtime as it was judged.
type heard struct {
	// kyma is the object that it was judged for: one of the same name that is made anew has to hear for itself.
	kyma     types.UID
	asked    time.Time
	digest   digest.Digest
	accepted *bundle.AcceptedReport
	refused  *refusal.Error
	// unread is why a registry that answers did not give the report.
	unread error
}

const (
	// statusSettles is how long the status of a Kyma is put off after its bundle was pushed, at least: other runtimes' bundles
	// go first.
	statusSettles = 300 * time.Millisecond
	// routine is the priority of looks that no event asked for.
	routine = -1
)

// RuntimeID names the runtime of a Kyma: its label, else its own name.
func RuntimeID(kyma *v1beta2.Kyma) string {
	return cmp.Or(kyma.Labels[v1beta2.LabelRuntimeID], kyma.Name)
}

// Reconcile brings the registry in line with what one Kyma asks for, and the Kyma with what its runtime reports.
func (k *Kymas) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	kyma := &v1beta2.Kyma{}
	if err := k.Client.Get(ctx, req.NamespacedName, kyma); err != nil {
		if apierrors.IsNotFound(err) {
			runtimeStates.forget(req.String())
			k.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	view := k.Rollouts.View()
	_, known := k.Watchers.Snapshot()
	if view == nil || !known || k.Catalog.changing() || view.catalog != k.Catalog.Snapshot() {
		return ctrl.Result{RequeueAfter: catalogSettles}, nil
	}
	if kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True {
		return ctrl.Result{}, nil
	}
	if done, err := k.hold(ctx, kyma); done || err != nil {
		return ctrl.Result{}, err
	}
	before := kyma.DeepCopy()
	if wait := k.gate.wait(k.Now()); wait > 0 {
		return k.meanwhile(ctx, before, kyma, wait)
	}
	runtime := RuntimeID(kyma)
	silence, carried, err := k.allowed(kyma)
	if err == nil {
		err = k.unique(ctx, kyma, runtime)
	}
	if err != nil {
		kyma.Status = ingest.Status(kyma.Status, ingest.Facts{Generation: kyma.Generation, PublishError: err, Silence: silence, Carried: carried}, k.Now())
		return k.record(ctx, before, kyma, publish.Outcome{})
	}
	report, err := k.listen(ctx, kyma, runtime)
	if err != nil {
		return k.registryDown(ctx, before, kyma, err)
	}
	next := k.runtime(kyma, runtime, report)
	unsealed, err := k.giveSecrets(ctx, kyma, &next, report)
	if err == nil {
		err = k.rememberFirst(ctx, before, kyma)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	var outcome publish.Outcome
	request, err := k.request(kyma, report.accepted)
	if err == nil {
		request.Gates = view.decisions(runtime, request, kyma.Status.Runtime)
		outcome, err = k.Publisher.Publish(ctx, next, request, view.catalog)
	}
	facts := ingest.Facts{
		Generation: kyma.Generation, Problems: slices.Concat(outcome.Problems, outcome.Held), Report: report.accepted, ReportRefused: report.refused, ReportUnread: report.unread,
		Silence: silence, Carried: carried, Deleting: next.Deleting, SecretsError: errors.Join(unsealed, outcome.SecretsError),
	}
	if err != nil {
		if unreachable(err) {
			return k.registryDown(ctx, before, kyma, err)
		}
		publishFailures.Inc()
		facts.PublishError = err
	} else {
		k.gate.open(ctx)
		facts.Published, facts.Given = &outcome.Published, view.given(runtime, outcome.Published, before.Status.Runtime)
		if done, err := k.letGo(ctx, kyma, &outcome.Published, report.accepted); done || err != nil {
			return ctrl.Result{}, err
		}
	}
	if next.Secrets != nil {
		kyma.Status.Runtime.Secrets = ingest.KnownSecrets(kyma.Status.Runtime.Secrets, next.Secrets.All, facts)
	}
	kyma.Status = ingest.Status(kyma.Status, facts, k.Now())
	return k.record(ctx, before, kyma, outcome)
}

// allowed is how long the runtime may be silent, and whether its reports are carried by hand.
func (k *Kymas) allowed(kyma *v1beta2.Kyma) (time.Duration, bool, error) {
	return ingest.Allowed(kyma.Annotations[v1beta2.AnnotationCarried], k.Silence)
}

// unique refuses a Kyma that names the runtime of an older one: they would overwrite each other's bundle for ever.
func (k *Kymas) unique(ctx context.Context, kyma *v1beta2.Kyma, runtime string) error {
	var same v1beta2.KymaList
	if err := k.Client.List(ctx, &same, client.InNamespace(kyma.Namespace), client.MatchingFields{indexRuntime: runtime}); err != nil {
		return fmt.Errorf("list Kymas of runtime %s: %w", runtime, err)
	}
	for _, other := range same.Items {
		older := other.CreationTimestamp.Before(&kyma.CreationTimestamp) || other.CreationTimestamp.Equal(&kyma.CreationTimestamp) && other.Name < kyma.Name
		if other.Name != kyma.Name && older {
			return fmt.Errorf("runtime id %s is that of Kyma %s/%s already: change the label %s", runtime, other.Namespace, other.Name, v1beta2.LabelRuntimeID)
		}
	}
	return nil
}

// listen reads the runtime's newest report if it is new. The error says that the registry is away; a report that is refused or
// that the registry does not give is this runtime's trouble alone and no error.
func (k *Kymas) listen(ctx context.Context, kyma *v1beta2.Kyma, runtime string) (heard, error) {
	if err := trust.CheckRuntimeID(runtime); err != nil {
		return heard{}, nil // Publish says so, too, where it becomes visible
	}
	known := k.known(kyma)
	if known.asked.Add(k.PollInterval / 2).After(k.Now()) {
		return k.again(kyma, known), nil
	}
	known.asked, known.unread = k.Now(), nil
	newest, fetched, err := k.newest(ctx, runtime, known.digest)
	switch {
	case err != nil && unreachable(err):
		return known, err
	case err != nil && !errors.Is(err, store.ErrNotFound):
		known.unread = plainly(err)
		fallthrough
	case err != nil || newest == known.digest:
		k.keep(kyma, known)
		return k.again(kyma, known), nil
	}
	next := heard{kyma: kyma.UID, asked: known.asked, digest: newest, accepted: known.accepted}
	accepted, err := bundle.VerifyReport(fetched, k.reporter(kyma, runtime))
	if next.refused = refusal.Of(err); next.refused != nil {
		reportsRefused.WithLabelValues(string(next.refused.Reason)).Inc()
		k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, "ReportRefused", "Ingest", "%s", noted(fmt.Sprintf("report of runtime %s: %s", runtime, next.refused)))
	} else {
		next.accepted = &accepted
		k.tell(kyma, runtime, known.accepted, accepted)
		k.tellWatched(kyma, runtime, known.accepted, accepted)
		k.remember(kyma, accepted)
	}
	k.keep(kyma, next)
	return next, nil
}

// newest asks for the digest of the newest report, and for the report if it is not the known one.
func (k *Kymas) newest(ctx context.Context, runtime string, known digest.Digest) (digest.Digest, bundle.Fetched, error) {
	repository, err := k.Place.Reading(ctx, bundle.ReportRepository(runtime))
	if err != nil {
		return "", bundle.Fetched{}, err
	}
	newest, err := store.Head(ctx, repository, bundle.TagLatest)
	if err != nil || newest == known {
		return newest, bundle.Fetched{}, err
	}
	fetched, err := store.Fetch(ctx, repository, newest.String())
	return newest, fetched, err
}

func (k *Kymas) known(kyma *v1beta2.Kyma) heard {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.reports[client.ObjectKeyFromObject(kyma)]; known.kyma == kyma.UID {
		return known
	}
	return heard{kyma: kyma.UID}
}

func (k *Kymas) keep(kyma *v1beta2.Kyma, report heard) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reports[client.ObjectKeyFromObject(kyma)] = report
}

func (k *Kymas) forget(kyma types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.reports, kyma)
}

// again takes up a report that was heard before: writing what it says may have been put off or have failed.
func (k *Kymas) again(kyma *v1beta2.Kyma, known heard) heard {
	if known.accepted != nil && known.refused == nil {
		k.remember(kyma, *known.accepted)
	}
	return known
}

// tell makes an Event of every bundle that the runtime refused and had not told before.
func (k *Kymas) tell(kyma *v1beta2.Kyma, runtime string, before *bundle.AcceptedReport, after bundle.AcceptedReport) {
	told := map[string]bool{}
	if before != nil {
		for _, r := range before.Refused {
			told[r.Digest.String()+string(r.Reason)] = true
		}
	}
	for _, r := range after.Refused {
		if !told[r.Digest.String()+string(r.Reason)] {
			// What lies in the registry is not what was put there: look at it again, and replace it.
			k.Publisher.Forget(runtime)
			k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, "BundleRefused", "Ingest", "%s", noted(fmt.Sprintf("runtime %s refused bundle %s (%s): %s", runtime, r.Digest, r.Reason, r.Detail)))
		}
	}
}

// noted bounds what others wrote to what the API takes as the note of an Event.
func noted(text string) string {
	const maxNoteBytes = 1024
	return bundle.Bounded(text, maxNoteBytes)
}

func (k *Kymas) remember(kyma *v1beta2.Kyma, report bundle.AcceptedReport) {
	key, errKey := trust.EncodePublicKey(report.Key)
	thumbprint, errThumb := trust.Thumbprint(report.Key)
	if errKey == nil && errThumb == nil {
		ingest.Remember(&kyma.Status, report, key, thumbprint)
	}
}

func (k *Kymas) reporter(kyma *v1beta2.Kyma, runtime string) bundle.Reporter {
	r := bundle.Reporter{Runtime: runtime}
	var known *v1beta2.RuntimeKey
	if status := kyma.Status.Runtime; status != nil {
		r.LastSequence = status.ReportSequence
		if known = status.Key; known != nil {
			if key, err := trust.DecodePublicKey(known.PublicKey); err == nil {
				r.Key = key
			}
		}
	}
	r.Enrol = func(e trust.Enrolment) error {
		if known != nil && e.TokenExpires <= known.TokenExpires.Unix() {
			return errors.New("the token was used before: run `kcp-publisher enrol` again")
		}
		return k.Keys.tokens().Check(runtime, e, k.Now())
	}
	root := k.Publisher.Root()
	r.Fleet = root.Fleet
	r.Certified = func(text string) (crypto.PublicKey, error) {
		certificate, err := root.CheckCertificate(text, runtime, k.Now())
		return certificate.Key, err
	}
	revoked := revokedKeys(kyma)
	r.Revoked = func(thumbprint string) bool {
		return root.IsRevoked(thumbprint) || slices.Contains(revoked, thumbprint)
	}
	return r
}

// registryDown closes the gate for all runtimes at once, so that one outage is one backoff and one line of log.
func (k *Kymas) registryDown(ctx context.Context, before, kyma *v1beta2.Kyma, err error) (ctrl.Result, error) {
	return k.meanwhile(ctx, before, kyma, k.gate.shut(ctx, k.Now(), err))
}

// meanwhile says what is known of a runtime that cannot be heard because the registry is away: that is silence, too, and
// silence is never health. Nothing is written before the allowed silence is over.
func (k *Kymas) meanwhile(ctx context.Context, before, kyma *v1beta2.Kyma, wait time.Duration) (ctrl.Result, error) {
	result := ctrl.Result{RequeueAfter: wait}
	silence, _, _ := k.allowed(kyma) // what is wrong with it is said when the registry is back
	after, silent := ingest.Unheard(kyma.Status, kyma.Generation, silence, k.Now())
	if !silent {
		return result, nil
	}
	kyma.Status = after
	return k.written(ctx, before, kyma, result)
}
