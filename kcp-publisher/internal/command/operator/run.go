// Package operator implements the command that runs the controllers, with or without shards.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/admission"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

type runFlags struct {
	manager                  manager.Flags
	namespace, location      string
	selector                 string
	shards                   int
	slimmer                  *controller.Slimmer
	metrics                  *controller.FleetMetrics
	secretsNamespace         string
	signaturesNamespace      string
	keys                     keys.Folder
	concurrency              int
	validity, reportPoll     time.Duration
	registryCheck            time.Duration
	silence, deletionTimeout time.Duration
	componentsPoll, keysPoll time.Duration
	certificates             time.Duration
	components               flagset.ComponentFlags
	settings                 flagset.SettingsFlags
	maintenance              flagset.MaintenanceFlags
	registry                 cli.Registry
	webhooks                 admission.Options
	restricted               []string
	follow                   followFlags
	removals                 flagset.RemovalFlags
	notifications            notificationFlags
	events                   string
	trustAuthors             bool
}

// New returns the command run.
func New(g *cli.Root) *cobra.Command {
	f := &runFlags{slimmer: controller.NewSlimmer(), metrics: controller.NewFleetMetrics()}
	cmd := &cobra.Command{
		Use: "run", Short: "run the controllers", Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), g) },
	}
	flags := cmd.Flags()
	settings := cli.Settings(flags)
	f.manager.AddFlags(flags, settings, "the control plane", manager.Replicas, filters.WithAuthenticationAndAuthorization)
	flags.StringVar(&f.selector, "watch-label-selector", "",
		"only reconcile Kymas with matching labels, such as sharding.fluxcd.io/shard=one; publishers with different "+
			"selectors use different leases")
	flags.IntVar(&f.shards, "shards", 1,
		"number of shards of the fleet, which Leases assign to the replicas; with 1, one replica is active "+
			"and the others are on standby")
	controlplane.AddNamespaceFlag(flags, &f.namespace, "Kymas, ModuleTemplates and ModuleReleaseMetas")
	flags.StringVar(&f.secretsNamespace, "secrets-namespace", "",
		"namespace of the Secrets for runtimes; default: none, the publisher reads no Secrets")
	flags.StringVar(&f.signaturesNamespace, "signature-keys-namespace", "",
		"namespace of the Secrets with public keys for --signature-policy; default: the namespace of the Kymas")
	flags.StringVar(&f.location, "location", "", "registry prefix HOST/PATH that bundles are published to")
	f.components.Add(flags, settings)
	f.settings.Add(flags, settings)
	flagset.AddRestrictedFlag(flags, &f.restricted)
	f.maintenance.Add(flags, settings)
	flags.IntVar(&f.concurrency, "concurrency", 16, "number of runtimes to reconcile at once")
	flags.DurationVar(&f.validity, "validity", flagset.DefaultValidity,
		"validity period of a bundle; a bundle is renewed after a third of its validity period")
	settings.DurationVar(&f.reportPoll, "report-poll-interval", 30*time.Second,
		"report polling interval; doubled, up to 1m, for idle runtimes")
	settings.DurationVar(&f.registryCheck, "registry-check-interval", 5*time.Minute,
		"interval between checks that the registry still has a runtime's bundle")
	settings.DurationVar(&f.componentsPoll, "component-poll-interval", 10*time.Minute,
		"interval between checks of component versions for changes")
	flags.DurationVar(&f.silence, "allowed-silence", 30*time.Minute,
		"time without a report after which a runtime counts as silent")
	settings.DurationVar(&f.deletionTimeout, "deletion-timeout", 24*time.Hour,
		"maximum time that the deletion of a Kyma waits for its runtime to remove the modules")
	settings.DurationVar(&f.certificates, "certificate-validity", 90*24*time.Hour,
		"validity period of an agent's certificate; a certificate is renewed after a third of its validity period")
	settings.DurationVar(&f.keysPoll, "keys-poll-interval", 10*time.Second,
		"interval for checking if the keys or the signature policy changed")
	flags.StringVar(&f.webhooks.Service, "webhook-service", "",
		"publisher's Service, as NAMESPACE/NAME[:PORT]; enables API version v1beta1 and the validation of "+
			"ModuleTemplates")
	flags.StringVar(&f.webhooks.URL, "webhook-url", "",
		"URL https://HOST:PORT at which the API server reaches the publisher, instead of --webhook-service")
	settings.StringVar(&f.webhooks.BindAddress, "webhook-bind-address", ":9443",
		"address that the webhook server listens on")
	settings.StringVar(&f.events, "events", string(controller.AllEvents),
		"Kubernetes Events to emit for runtimes: all or failures; each Event is a write to the API server")
	flags.BoolVar(&f.trustAuthors, "trust-kyma-authors", false,
		"honor agent images, pins, windows and other restricted settings of Kymas without the chart's admission "+
			"policy, "+
			"which restricts who can set them")
	f.follow.add(flags, settings)
	f.removals.Add(settings)
	f.notifications.add(flags, settings)
	keyfolder.AddPublisherFlags(flags, &f.keys)
	f.registry.AddFlags(flags)
	return cmd
}

func (f *runFlags) run(ctx context.Context, g *cli.Root) error {
	if f.location == "" {
		return cli.Usage(errors.New("--location is required"))
	}
	if f.validity == 0 {
		return cli.Usage(flagset.ErrZeroValidity)
	}
	if f.certificates == 0 {
		return cli.Usage(errors.New("certificate-validity 0s: must be more than 0"))
	}
	if err := f.notifications.check(); err != nil {
		return err
	}
	if err := f.checkShards(); err != nil {
		return err
	}
	ctrl.SetLogger(g.Logger())
	git, err := f.follow.options(f.namespace, f.selector)
	if err != nil {
		return err
	}
	share, err := flagset.NewShare(f.selector)
	if err != nil {
		return err
	}
	options, err := f.options(share)
	if err != nil {
		return err
	}
	config, err := f.manager.Config()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme), v1beta2.AddToScheme(scheme),
		v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if f.shards > 1 {
		return f.runShards(ctx, g, config, scheme, share)
	}
	mgr, err := f.manager.New(config, ctrl.Options{
		Scheme: scheme, Cache: f.cacheOptions(share),
		LeaderElectionID: f.lease(), LeaderElectionNamespace: f.namespace,
	})
	if err != nil {
		return err
	}
	options.Publish.MayPush = f.manager.Lease().CheckHeld
	if git != nil {
		git.Hold, git.MayWrite = options.Changes.Hold, options.Publish.MayPush
		follower, err := addFollower(mgr, *git)
		if err != nil {
			return err
		}
		options.Git = follower
	}
	if err := f.addControllers(mgr, options); err != nil {
		return err
	}
	return f.start(ctx, g, mgr)
}

// addControllers adds the controllers and the endpoints of a publisher without shards.
func (f *runFlags) addControllers(mgr ctrl.Manager, options controller.Options) error {
	secure, err := f.notifications.secure(mgr)
	if err != nil {
		return err
	}
	owns := func(string) bool { return isElected(mgr) }
	subscribers, err := f.notifications.setUpSubscribers(mgr, owns, f.keys, secure)
	if err != nil {
		return err
	}
	if subscribers != nil {
		options.Notify = subscribers.Notify
	}
	kymas, err := controller.New(mgr, options)
	if err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	reads, err := f.notifications.setUpReads(mgr, kymas.ReadReport)
	if err != nil {
		return err
	}
	return f.notifications.setUpReceiver(mgr, unsharded{mgr, kymas}, reads, nil, f.location, secure)
}

func (f *runFlags) start(ctx context.Context, g *cli.Root, mgr ctrl.Manager) error {
	if f.webhooks.Service != "" || f.webhooks.URL != "" {
		f.webhooks.Namespace, f.webhooks.Now = f.namespace, time.Now
		if err := admission.Setup(mgr, f.webhooks); err != nil {
			return cli.Usage(err)
		}
	}
	stop, err := measure.Export(f.metrics)
	if err != nil {
		return err
	}
	defer stop()
	ctrl.Log.Info("starting", "version", g.Version, "location", f.location, "pid", os.Getpid())
	return mgr.Start(ctx)
}

// lease returns the name of the publisher's Lease. With shards, the planner holds this Lease.
func (f *runFlags) lease() string { return manager.Identity(controller.LeaseName, f.selector) }

func (f *runFlags) cacheOptions(share shard.Share) cache.Options {
	return cache.Options{
		DefaultNamespaces: map[string]cache.Config{f.namespace: {}},
		ByObject: map[client.Object]cache.ByObject{
			// The publisher caches only Secrets with public keys for the signature policy.
			&corev1.Secret{}: {
				Label:      controller.SignatureSecrets(),
				Namespaces: map[string]cache.Config{cmp.Or(f.signaturesNamespace, f.namespace): {}},
			},
			&v1beta2.Kyma{}: {Label: share.CacheSelector(), Transform: f.slimmer.Transform},
		},
	}
}

func (f *runFlags) options(share shard.Share) (options controller.Options, err error) {
	// The controllers retry requests with a shared backoff.
	place, registries, err := f.registry.Open("--location", f.location, store.Access{
		NoRetry: true, Observe: controller.ObserveRegistry,
	})
	if err != nil {
		return options, err
	}
	if store.IsLayout(place) {
		return options, cli.Usage(errors.New("--location must be a registry; use `publish` to write an OCI layout"))
	}
	loaded, err := f.keys.Load(context.Background())
	if err != nil {
		return options, err
	}
	tokens, err := f.keys.TokenSecrets()
	if err != nil {
		return options, err
	}
	settings, err := f.settings.Settings()
	if err != nil {
		return options, err
	}
	pullSecret, err := f.settings.PullSecretIn(f.secretsNamespace)
	if err != nil {
		return options, err
	}
	rollbacks, err := f.settings.Rollbacks()
	if err != nil {
		return options, err
	}
	carried, err := f.settings.CopiedLabels()
	if err != nil {
		return options, err
	}
	maintenance, err := f.maintenance.Maintenance(func(remark string) {
		ctrl.Log.Info("maintenance policy has an ineffective rule", "remark", remark)
	})
	if err != nil {
		return options, err
	}
	kymaEvents, err := controller.ParseKymaEvents(f.events)
	if err != nil {
		return options, cli.Usage(fmt.Errorf("events: %w", err))
	}
	components, err := f.components.Open(component.Options{
		Registries: registries, Revalidate: f.componentsPoll, RetryAfter: 5 * time.Second,
		Restored: controller.AnnounceRestored,
	}, nil)
	if err != nil {
		return options, err
	}
	limits, err := f.removals.Limits()
	if err != nil {
		return options, err
	}
	return controller.Options{
		Namespace: f.namespace, Restricted: f.restricted, Changes: controller.NewChanges(), Share: share,
		Limits: limits.ForShard(share.Number, share.Count), KymaEvents: kymaEvents, Slimmer: f.slimmer, Metrics: f.metrics,
		TrustAuthors: f.trustAuthors,
		Publish: publish.Options{
			Place: place, Keys: loaded, Validity: f.validity, CertificateValidity: f.certificates, Now: time.Now,
			RecheckInterval: f.registryCheck,
			Components:      components.Reader, RequiresSignature: components.SignatureFilter(),
		},
		KeyFolder:        controller.KeyOptions{Folder: f.keys, Tokens: tokens, Interval: f.keysPoll, Lease: f.lease()},
		SecretsNamespace: f.secretsNamespace, ImagePullSecret: pullSecret, PollInterval: f.reportPoll,
		DeletionTimeout: f.deletionTimeout, Concurrency: f.concurrency,
		Rules: plan.Rules{Settings: settings, AgentRollbackFrom: rollbacks, KymaLabels: carried,
			Maintenance: maintenance, SilenceTimeout: f.silence},
		Signatures: controller.SignatureOptions{Verifier: components.Verifier,
			Namespace:  cmp.Or(f.signaturesNamespace, f.namespace),
			PolicyFile: f.components.Policy, Interval: f.keysPoll},
	}, nil
}
