// Package agent reconciles the runtime with its bundle. Each reconciliation, called a round, pulls a bundle, fetches
// its content, applies it and sends a report. Rounds never run concurrently. Events and timers start the next round.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/logonce"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/autonomy"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/round"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/importer"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/prove"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/watch"
)

// Options configure an Agent.
type Options struct {
	Runtime string
	// Instance is a random ID of this process. If empty, the agent does not detect a second agent with the same key.
	Instance string
	Version  string
	// KubernetesVersion is the version of the runtime's API server. ClusterUID is the UID of the kube-system namespace.
	KubernetesVersion string
	ClusterUID        string
	// Notifications connects to the publisher's notification server. It is nil if no server is configured.
	Notifications func(context.Context) (io.ReadCloser, error)
	// Folder is the folder with exported files that the agent imports. It is nil if no folder is configured.
	Folder  *importer.Folder
	Store   *contentstore.Store
	Puller  *pull.Puller
	Syncer  *objects.Syncer
	Secrets *secrets.Reconciler
	// Restorer restores a deleted Kyma and deleted Manifests.
	Restorer *objects.Restorer
	// Requeue is the channel for Manifests that the installer must reconcile again, because missing content is now
	// available.
	Requeue chan<- event.GenericEvent
	// Client reads the Kyma, the Manifests and the catalog from a cache. Uncached reads from the API server.
	Client, Uncached client.Client
	Events           events.EventRecorder
	// Signer is the agent's own key, which signs the reports. Token is the enrollment token that proves this key to the
	// control plane. Token is nil if the bootstrap Secret does not contain one.
	Signer trust.Signer
	Token  *trust.Token
	// PollInterval and ReportInterval apply if the bundle's settings do not set these intervals.
	PollInterval   time.Duration
	ReportInterval time.Duration
	Now            func() time.Time
	// Trigger starts immediate reconciliations. If nil, no reconciliation starts immediately.
	Trigger Trigger
	// Checks runs module checks. Accounts selects the ServiceAccount that installs a module.
	Checks   *prove.Runner
	Accounts guard.Accounts
	// Inspect reads a module's details for the report, such as failing objects. If nil, reports contain no details.
	Inspect func(context.Context, *v1beta2.Manifest, []bundle.Detail) *bundle.ModuleDetails
	// Deployment is the agent's own Deployment. It is nil if bundles must not change its image.
	Deployment *upgrade.Deployment
	// UpgradeDeadline is the time limit for a new agent image to run for one minute without a failure. After the
	// deadline, the agent rolls the image back.
	UpgradeDeadline time.Duration
	// EnrollmentChanged reports whether the bootstrap Secret changed since the agent started. Restart restarts the
	// agent with the new Secret. If EnrollmentChanged is nil, the agent does not check the Secret.
	EnrollmentChanged func(context.Context) (bool, error)
	Restart           func()
}

// Agent reconciles one runtime. The controller has a single worker, and only this worker accesses the fields, unless a
// field's comment states otherwise.
type Agent struct {
	Options
	watches *watch.Watches
	// memory contains the facts that one round passes to the next.
	memory round.Memory
	// notified is true if the next reconciliation must poll the registry without waiting for memory.NextPoll. The
	// Trigger starts that reconciliation.
	notified atomic.Bool
	// logged contains the last log line about each subject, such as a registry outage. The agent logs a line only if it
	// differs from the last line about the subject. waiting contains the reason for each upgrade that waits for a
	// maintenance window. notImported contains the error for each file that the agent could not import.
	logged, waiting, notImported logonce.Memo
	// imports runs the imports from the import folder in the background.
	imports      background[[]importer.FileResult]
	delivery     delivery
	twinDetector twinDetector
	// sequence is the sequence number of the last report that this process or the agent's previous process sent.
	// hasResumed is true after this process has read the previous process's number.
	sequence   int64
	hasResumed bool
	// certificateRequest is the pending certificate request. It is empty if none is pending.
	certificateRequest string
	// pollFailed is true if the last registry poll failed. storeErr is the error from the last attempt to store a new
	// bundle in a Secret, or nil.
	pollFailed bool
	storeErr   error
	outage     outage
	// healthySince is the start of the current series of successful reconciliations. agentProblem is the reason why the
	// agent does not run the image that the bundle requests.
	healthySince time.Time
	trial        trialFailures
	agentProblem string
	// unmanaged contains the unmanaged modules' installed versions. The key is the module's name.
	unmanaged map[string]string
	// secrets is the result of writing the Secrets in the last accepted bundle.
	secrets *bundle.ReportedSecrets
	// pinsError is the error from parsing the annotation on the runtime's Kyma that pins module versions, or nil.
	pinsError error
	// details contains the module details that the report includes on request. The key is the name of the module's
	// Manifest.
	details map[string]inspectedDetails
	// loggedLeftovers is the number of lifecycle-manager objects that the last log line reported as removed.
	loggedLeftovers int
	enrolled        atomic.Bool
	contentState
	restoration
	proving
}

// Keys of Agent.logged. Each key is a subject of log lines.
const (
	loggedOutage       = "registry"
	loggedRound        = "round"
	loggedTrouble      = "trouble"
	loggedDecided      = "decided"
	loggedCertificate  = "certificate"
	loggedUnenrolled   = "enrolled"
	loggedNotSaved     = "saved"
	loggedUnreadReport = "unread-report"
	loggedBootstrap    = "bootstrap"
)

func newAgent(options Options) *Agent {
	return &Agent{
		Options: options,
		proving: proving{
			runner: options.Checks, restorer: options.Restorer, store: options.Store, accounts: options.Accounts,
		},
	}
}

// pullBundle reads a newer bundle from the registry.
func (a *Agent) pullBundle(ctx context.Context, log logr.Logger) {
	before, root, location := slices.Clone(a.Puller.RefusedBundles()), a.Puller.Root().Version,
		a.Puller.Location().String()
	changed, err := a.Puller.Pull(ctx)
	if ctx.Err() != nil {
		return // the process is shutting down, so the registry did not cause the error
	}
	a.pollFailed, a.storeErr = err != nil, nil
	if errors.Is(err, pull.ErrNotStored) {
		a.storeErr = err
	}
	for _, refused := range a.Puller.RefusedBundles() {
		if !slices.Contains(before, refused) {
			a.recordRefused(ctx, log, refused)
		}
	}
	if now := a.Puller.Root(); now.Version != root {
		log.Info("accepted a newer root of trust", "version", now.Version, "epoch", now.Epoch, "expires", now.Expires)
	}
	if now := a.Puller.Location().String(); now != location {
		log.Info("switched to the registry's new location", "from", location, "to", now)
		a.delivery.content = "" // send a report, because the control plane now reads the new location
	}
	outage := err != nil && refusal.Of(err) == nil
	a.measurePoll(outage || a.storeErr != nil, changed, a.Now())
	a.logOutage(log, outage, err)
	if outage && a.storeErr == nil {
		a.emitRegistryEvent(err)
	} else {
		a.emitRegistryEvent(nil)
	}
	if changed {
		b := a.Puller.Current()
		log.Info("accepted bundle", "sequence", b.Statement.Predicate.Sequence, "digest", b.Digest, "modules",
			len(b.State.Manifests), "removals", b.Statement.Predicate.Removals)
	}
	a.refetchMissing()
}

func (a *Agent) recordRefused(ctx context.Context, log logr.Logger, refused bundle.RefusedBundle) {
	bundlesRefused.WithLabelValues(string(refused.Reason)).Inc()
	what, stays := "a bundle", "the previous bundle stays in use"
	if refused.Reason.AboutRoot() {
		what, stays = "a root of trust", "the previous root of trust stays in use"
	}
	log.Error(errors.New(refused.Detail), "refused "+what+", "+stays, "digest", refused.Digest, "reason",
		refused.Reason)
	a.emitEvent(ctx, v1beta2.ReasonBundleRefused,
		fmt.Sprintf("refused %s %s (%s): %s", what, refused.Digest, refused.Reason, refused.Detail))
}

// getKyma returns the runtime's Kyma, or nil if it does not exist. The module versions in its spec come from the
// annotation with pinned versions.
func (a *Agent) getKyma(ctx context.Context) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName}, kyma)
	a.pinsError = nil
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the runtime's Kyma: %w", err)
	}
	kyma.Spec, a.pinsError = kyma.RequestedSpec()
	return kyma, nil
}

func (a *Agent) collectFacts(
	ctx context.Context, gate maintenance.Gate, followed autonomy.Result,
) (report.Facts, error) {
	facts := report.Facts{
		Bundle: followed.Bundle, SelectedModules: followed.SelectedModules, Expired: a.Puller.IsExpired(),
		LostBundle:     a.Puller.LostMessage(),
		RefusedBundles: a.Puller.RefusedBundles(),
		ContentErrors:  a.contentErrors, Unmanaged: a.unmanaged, Secrets: a.secrets, AgentProblem: a.agentProblem,
		UnremovedModules: a.Restorer.UnremovedModules(followed.Bundle), ReadRecord: a.Syncer.Records.Read,
	}
	var err error
	if facts.Kyma, err = a.getKyma(ctx); err != nil {
		return facts, err
	}
	facts.PinsError = a.pinsError
	if facts.Manifests, err = listManifests(ctx, a.Client); err != nil {
		return facts, err
	}
	if facts.Templates, err = templateGenerations(ctx, a.Client); err != nil {
		return facts, err
	}
	facts.WaitingUpgrades, facts.WaitReason = gate.WaitingUpgrades(facts.Bundle, facts.Manifests), gate.Reason()
	facts.ClusterScoped = clusterScoped(a.Client, facts.Manifests)
	return facts, nil
}

// patchStatus patches the runtime Kyma's status if it changed.
func (a *Agent) patchStatus(ctx context.Context, facts *report.Facts) error {
	if facts.Kyma == nil {
		return nil
	}
	before := facts.Kyma.DeepCopy()
	facts.Kyma.Status = report.KymaStatus(facts.Kyma.Status, *facts, a.Now())
	if equality.Semantic.DeepEqual(before.Status, facts.Kyma.Status) {
		return nil
	}
	// Patch overwrites its argument with the API server's response. The response lacks the module versions that getKyma
	// added from an annotation, so pass a copy.
	if err := a.Client.Status().
		Patch(ctx, facts.Kyma.DeepCopy(), client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch the status of the runtime's Kyma: %w", err)
	}
	return nil
}
