package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/pkg/runtime/probes"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/admission"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/control"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// runFlags are what `run` takes.
type runFlags struct {
	kubeconfig, namespace, location string
	secretsNamespace                string
	keys                            keys.Folder
	metricsAddress, probeAddress    string
	leaderElect                     bool
	concurrency                     int
	validity, reportPoll            time.Duration
	silence, farewell               time.Duration
	componentsPoll, keysPoll        time.Duration
	certificates                    time.Duration
	components                      componentFlags
	settings                        settingsFlags
	maintenance                     maintenanceFlags
	registry                        cli.Registry
	webhooks                        admission.Options
	attachCosign                    bool
	follow                          followFlags
}

func newRun(g *cli.Root) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "run", Short: "runs the controllers", Args: cli.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error { return f.run(g) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the control plane; in a cluster its own is used")
	flags.StringVar(&f.namespace, "namespace", "kcp-system", "namespace of Kymas, ModuleTemplates and ModuleReleaseMetas")
	flags.StringVar(&f.secretsNamespace, "secrets-namespace", "", "namespace of the Secrets that are for runtimes; without it none are read")
	flags.StringVar(&f.location, "location", "", "registry prefix HOST/PATH that bundles are published to")
	f.components.add(flags)
	f.settings.add(flags)
	f.maintenance.add(flags)
	flags.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics, 0 for none")
	flags.StringVar(&f.probeAddress, "health-probe-bind-address", ":8081", "address of the probes, 0 for none")
	flags.BoolVar(&f.leaderElect, "leader-elect", true, "work only while holding the lease")
	flags.IntVar(&f.concurrency, "concurrency", 16, "runtimes to work on at once")
	flags.DurationVar(&f.validity, "validity", defaultValidity, "life of a bundle; it is renewed after a third")
	flags.DurationVar(&f.reportPoll, "report-poll-interval", 30*time.Second, "how often a runtime's report is asked for")
	flags.DurationVar(&f.componentsPoll, "component-poll-interval", 10*time.Minute, "how often a component version is checked for having been changed")
	flags.DurationVar(&f.silence, "allowed-silence", 30*time.Minute, "how long a runtime may be silent and still count as ready")
	flags.DurationVar(&f.farewell, "deletion-timeout", 24*time.Hour, "how long a deleted Kyma waits for its runtime to be empty")
	flags.DurationVar(&f.certificates, "certificate-validity", 90*24*time.Hour, "life of an agent's certificate; it is renewed after a third")
	flags.DurationVar(&f.keysPoll, "keys-poll-interval", 10*time.Second, "how often the keys are looked at for having been changed")
	flags.StringVar(&f.webhooks.Service, "webhook-service", "", "NAMESPACE/NAME[:PORT] of the Service before the publisher; switches v1beta1 and the checks of ModuleTemplates on")
	flags.StringVar(&f.webhooks.URL, "webhook-url", "", "https://HOST:PORT that the API server finds the publisher at, instead of a Service")
	flags.StringVar(&f.webhooks.BindAddress, "webhook-bind-address", ":9443", "address of the webhooks")
	f.follow.add(flags)
	publisherKeyFlags(flags, &f.keys)
	f.registry.AddFlags(flags)
	attachFlag(flags, &f.attachCosign)
	return cmd
}

func (f *runFlags) run(g *cli.Root) error {
	if f.location == "" {
		return cli.Usage(errors.New("--location is required"))
	}
	ctrl.SetLogger(g.Logger())
	follower, err := f.follow.follower(f.namespace)
	if err != nil {
		return err
	}
	kymas, err := f.kymas()
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	// The API server decides what is too much, not a second queue in the client.
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme), v1beta2.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: ctrl.Log,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{f.namespace: {}},
			// Of Secrets only those with public keys are of interest, and only with a policy that asks for them.
			ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: control.SignatureSecrets()}},
		},
		Metrics:                metricsserver.Options{BindAddress: f.metricsAddress},
		HealthProbeBindAddress: f.probeAddress,
		LeaderElection:         f.leaderElect, LeaderElectionID: "kcp-publisher.kyma-pull.dev", LeaderElectionNamespace: f.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	probes.SetupChecks(mgr, ctrl.Log)
	if err := control.Setup(mgr, kymas, f.concurrency); err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	if follower != nil {
		if err := followWith(mgr, follower, kymas); err != nil {
			return err
		}
	}
	if f.webhooks.Service != "" || f.webhooks.URL != "" {
		f.webhooks.Namespace, f.webhooks.Now = f.namespace, time.Now
		if err := admission.Setup(mgr, f.webhooks); err != nil {
			return cli.Usage(err)
		}
	}
	ctrl.Log.Info("starting", "version", g.Version, "location", f.location, "pid", os.Getpid())
	return mgr.Start(ctrl.SetupSignalHandler())
}

func (f *runFlags) kymas() (*control.Kymas, error) {
	// The controllers have one backoff for all.
	place, registries, err := f.registry.Open("--location", f.location, store.Access{NoRetry: true})
	if err != nil {
		return nil, err
	}
	if store.IsLayout(place) {
		return nil, cli.Usage(errors.New("--location: `run` needs a registry; `publish` writes an OCI layout"))
	}
	loaded, err := f.keys.Load(context.Background())
	if err != nil {
		return nil, err
	}
	tokens, err := f.keys.TokenSecret()
	if err != nil {
		return nil, err
	}
	settings, err := f.settings.settings()
	if err != nil {
		return nil, err
	}
	maintenance, err := f.maintenance.maintenance(func(remark string) {
		ctrl.Log.Info("the maintenance policy says what it cannot mean", "remark", remark)
	})
	if err != nil {
		return nil, err
	}
	components, err := f.components.open(registries, nil, f.componentsPoll, 5*time.Second)
	if err != nil {
		return nil, err
	}
	publisher, err := publish.New(publish.Options{
		Place: place, Keys: loaded, Validity: f.validity, CertificateValidity: f.certificates, Now: time.Now,
		Components: components.reader, Requires: components.requires(), AttachCosign: f.attachCosign,
	})
	if err != nil {
		return nil, err
	}
	return &control.Kymas{
		Publisher: publisher, Catalog: &control.Catalog{Namespace: f.namespace}, Place: place,
		Keys:             &control.Keys{Folder: f.keys, Tokens: tokens, Publisher: publisher, Interval: f.keysPoll},
		SecretsNamespace: f.secretsNamespace, PollInterval: f.reportPoll, DeletionTimeout: f.farewell, Now: time.Now,
		Rules: plan.Rules{Settings: settings, Maintenance: maintenance, Silence: f.silence}, Signatures: control.SignatureKeys{Verifier: components.verifier, Components: components.reader, Namespace: f.namespace},
	}, nil
}
