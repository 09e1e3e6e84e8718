package command

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"filippo.io/age"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/importer"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
)

// prepared contains the state that the agent reads from the runtime before it creates its controllers.
type prepared struct {
	// deployment is nil if --deployment is not set.
	deployment *upgrade.Deployment
	known      bootstrap
	registries *store.Registries
	signer     trust.Signer
	identity   *age.X25519Identity
	// clusterUID is the UID of the kube-system namespace. kubernetesVersion is the API server's version.
	clusterUID, kubernetesVersion string
	contents                      *contentstore.Store
	puller                        *pull.Puller
	revisions                     *record.Revisions
	inventories                   *record.Inventories
}

// prepare waits until the API server responds, and reads the state of the runtime. It also creates the agent's
// namespace, its CRDs and its keys if they are missing.
func (f *runFlags) prepare(
	ctx context.Context, config *rest.Config, uncached client.Client, flags parsedFlags,
) (prepared, error) {
	var deployment *upgrade.Deployment
	if err := f.manager.Prepare(ctx, f.startTimeout(), func(ctx context.Context) (err error) {
		deployment, err = f.countStart(ctx, uncached)
		return err
	}); err != nil {
		return prepared{}, err
	}
	var p prepared
	hasFoundation := false
	err := f.manager.Prepare(ctx, f.startTimeout(), func(ctx context.Context) (err error) {
		if !hasFoundation {
			if err := objects.EnsureFoundation(ctx, uncached); err != nil {
				return fmt.Errorf("prepare the runtime: %w", err)
			}
			hasFoundation = true
		}
		p, err = f.readRuntime(ctx, config, uncached, flags)
		return err
	})
	p.deployment = deployment
	return p, err
}

// startTimeout returns the maximum time to wait for the API server at startup, or 0 for no limit. If bundles can
// upgrade the agent, the time is limited: a broken image must exit, because repeated starts trigger the rollback.
func (f *runFlags) startTimeout() time.Duration {
	if f.deployment == "" {
		return 0
	}
	return f.upgradeDeadline
}

// countStart counts the start of the agent's image, before any step that can fail. It returns nil if --deployment is
// not set.
func (f *runFlags) countStart(ctx context.Context, uncached client.Client) (*upgrade.Deployment, error) {
	if f.deployment == "" {
		return nil, nil
	}
	deployment, err := upgrade.Find(ctx, uncached, v1beta2.RuntimeNamespace, f.deployment, f.pod)
	if err != nil {
		return nil, err
	}
	outcome, err := deployment.RecordStart(ctx)
	if err != nil {
		return nil, err
	}
	if outcome.Message != "" {
		ctrl.Log.Info(outcome.Message)
	}
	return deployment, nil
}

// readRuntime reads the agent's identity, its last bundle and its records from the runtime.
func (f *runFlags) readRuntime(
	ctx context.Context, config *rest.Config, uncached client.Client, flags parsedFlags,
) (prepared, error) {
	known, err := readBootstrap(ctx, uncached, f)
	if err != nil {
		return prepared{}, err
	}
	place, registries, err := f.registry.Open("--location", known.location, known.access)
	if err != nil {
		return prepared{}, err
	}
	signer, err := ensureOwnKey(ctx, uncached)
	if err != nil {
		return prepared{}, err
	}
	identity, err := ensureOwnIdentity(ctx, uncached)
	if err != nil {
		return prepared{}, err
	}
	public, err := signer.PublicKey()
	if err != nil {
		return prepared{}, err
	}
	thumbprint, err := trust.Thumbprint(public)
	if err != nil {
		return prepared{}, err
	}
	if err := writePublicIdentity(ctx, uncached, known.runtime, signer); err != nil {
		ctrl.Log.Error(err, "failed to store the agent's public key, which `skr-agent provenance` needs")
	}
	uid, err := clusterUID(ctx, uncached)
	if err != nil {
		return prepared{}, err
	}
	version, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerVersion()
	if err != nil {
		return prepared{}, fmt.Errorf("read the runtime's Kubernetes version: %w", err)
	}
	contents := contentstore.New(uncached, uncached, v1beta2.RuntimeNamespace)
	puller := pull.New(pull.Options{
		Mirrors: flags.mirrors, ConfiguredLocation: place, Registries: registries, Client: uncached,
		Namespace: v1beta2.RuntimeNamespace, Store: contents, Now: time.Now, Key: signer,
		Trust: bundle.Trust{
			Root:          known.root,
			Runtime:       known.runtime,
			ClusterUID:    uid,
			KeyThumbprint: thumbprint,
			ClockSkew:     f.skew,
			Assigned:      known.assigned,
		},
		AllowsMove: known.allowsMove,
	})
	if err := puller.Restore(ctx); manager.IsTemporary(err) {
		return prepared{}, err
	} else if err != nil {
		// Continue without a bundle. Installed modules stay unchanged until the agent accepts a newer bundle.
		ctrl.Log.Error(err, "failed to restore the last accepted bundle")
	}
	revisions, inventories, err := objects.ReadSavedRecords(ctx, uncached, signer)
	if manager.IsTemporary(err) {
		return prepared{}, err // without the memory, the installer would accept earlier records and inventories
	} else if err != nil {
		ctrl.Log.Error(err, "failed to read the saved records of Manifests, accepting earlier records and inventories")
	}
	return prepared{
		known: known, registries: registries, signer: signer, identity: identity,
		clusterUID: uid, kubernetesVersion: version.GitVersion,
		contents: contents, puller: puller, revisions: revisions, inventories: inventories,
	}, nil
}

// notifications returns a function that connects to the publisher's notification server, or nil if none is configured.
func (p prepared) notifications() func(context.Context) (io.ReadCloser, error) {
	if p.known.notifications == "" {
		return nil
	}
	return func(ctx context.Context) (io.ReadCloser, error) {
		return p.registries.Stream(ctx, p.known.notifications)
	}
}

// addControllers adds the installer and the agent to mgr. self is the path to the agent's executable, which renders
// charts in separate processes.
func (f *runFlags) addControllers(
	mgr ctrl.Manager, p prepared, flags parsedFlags, uncached client.Client, version, self string,
) error {
	restorer := &objects.Restorer{
		Client: mgr.GetClient(), Uncached: uncached, Signer: p.signer, Revisions: p.revisions, Inventories: p.inventories,
	}
	keeper := &secrets.Reconciler{Client: uncached, Runtime: p.known.runtime, Identity: p.identity}
	syncer := &objects.Syncer{
		Client: mgr.GetClient(), Uncached: uncached, Secrets: keeper, Restorer: restorer,
		Label: func(ctx context.Context, want map[string]string) error {
			return install.LabelNamespace(ctx, uncached, v1beta2.RuntimeNamespace, want)
		},
		Records: record.Store{Signer: p.signer, Revisions: p.revisions},
	}
	requeue, trigger := make(chan event.GenericEvent, 100), agent.NewTrigger()
	installer, err := install.Setup(mgr, install.Options{
		Content: p.contents, Render: render.Confined{Command: []string{self, "render"}}.Render,
		Namespace: v1beta2.RuntimeNamespace, Concurrency: f.concurrency,
		Revisions: p.revisions, Inventories: p.inventories,
		Accounts: flags.accounts, Signer: p.signer, Requeue: requeue,
		IsIncomplete: syncer.IsIncomplete, Unwritten: syncer.Unwritten,
	})
	if err != nil {
		return fmt.Errorf("set up the installer: %w", err)
	}
	checks, err := newChecks(mgr, flags.accounts, trigger.Request)
	if err != nil {
		return fmt.Errorf("set up checks of modules: %w", err)
	}
	restart, err := stopOnRequest(mgr)
	if err != nil {
		return err
	}
	var folder *importer.Folder
	if f.importFolder != "" {
		folder = &importer.Folder{Dir: f.importFolder}
	}
	if err := agent.Add(mgr, agent.Options{
		Runtime: p.known.runtime, Instance: rand.Text(), Version: version,
		KubernetesVersion: p.kubernetesVersion, ClusterUID: p.clusterUID,
		Notifications: p.notifications(), Folder: folder, Store: p.contents, Puller: p.puller,
		Syncer: syncer, Secrets: keeper, Restorer: restorer, Requeue: requeue,
		Client: mgr.GetClient(), Uncached: uncached, Events: mgr.GetEventRecorder("skr-agent"),
		Signer: p.signer, Token: p.known.token,
		PollInterval: f.poll, ReportInterval: f.report, Now: time.Now, Trigger: trigger,
		Checks: checks, Accounts: flags.accounts, Inspect: installer.Inspect,
		Deployment: p.deployment, UpgradeDeadline: f.upgradeDeadline,
		EnrollmentChanged: func(ctx context.Context) (bool, error) { return p.known.hasChanged(ctx, uncached, f) },
		Restart:           restart,
	}); err != nil {
		return fmt.Errorf("set up the agent: %w", err)
	}
	return nil
}
