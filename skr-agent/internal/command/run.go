package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
)

// Help texts of flags that several commands have.
const (
	trustUsage    = "file with the root of trust; default: root.json in the bootstrap Secret"
	runtimeUsage  = "runtime ID; default: runtime in the bootstrap Secret"
	locationUsage = "registry prefix HOST/PATH, or oci-layout:DIR; default: location in the bootstrap Secret"

	clockSkewUsage = "tolerance for bundles whose time of issue is ahead of the local clock; raise it if clocks are " +
		"not synchronized"
)

type runFlags struct {
	manager                             manager.Flags
	trust, runtime, location            string
	deployment, pod                     string
	poll, report, skew, upgradeDeadline time.Duration
	concurrency                         int
	accounts                            []string
	mirrors                             []string
	importFolder                        string
	notifications                       string
	registry                            cli.Registry
}

func newRun(g *cli.Root) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "run", Short: "run the agent, which reconciles the runtime with its bundle",
		Long: "run reads its trust settings from Secret kyma-system/" + bootstrapSecret +
			", which `kcp-publisher enroll` prints. Flags take precedence over the Secret.",
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), g) },
	}
	flags := cmd.Flags()
	f.manager.AddFlags(flags, cli.Settings(flags), "the runtime", manager.Single, nil)
	flags.StringVar(&f.trust, "trust", "", trustUsage)
	flags.StringVar(&f.runtime, "runtime", "", runtimeUsage)
	flags.StringVar(&f.location, "location", "", locationUsage)
	flags.StringVar(&f.deployment, "deployment", "",
		"name of the agent's own Deployment in kyma-system, which lets bundles upgrade the agent's image; default: no "+
			"upgrades by bundles")
	flags.StringVar(&f.pod, "pod", "", "the agent's own Pod, required with --deployment")
	flags.DurationVar(
		&f.upgradeDeadline,
		"upgrade-deadline",
		15*time.Minute,
		"time in which a new image of the agent must work for one minute without interruption; otherwise it is rolled "+
			"back",
	)
	flags.DurationVar(&f.poll, "poll-interval", time.Minute,
		"interval between two checks for a newer bundle; a setting in the bundle takes precedence")
	flags.DurationVar(&f.report, "report-interval", 5*time.Minute,
		"interval between reports while nothing changes; a setting in the bundle takes precedence")
	flags.DurationVar(&f.skew, "clock-skew", trust.MaxClockSkew, clockSkewUsage)
	flags.IntVar(&f.concurrency, "concurrency", 4, "maximum number of modules to reconcile at once")
	flags.StringArrayVar(
		&f.accounts,
		"module-service-account",
		nil,
		"ServiceAccount that the agent impersonates to install modules: [NAMESPACE/]NAME for all modules, "+
			"MODULE=[NAMESPACE/]NAME for one module, MODULE= for one module with the agent's own permissions; default: the "+
			"agent's own permissions for all modules; can be repeated",
	)
	flags.StringArrayVar(
		&f.mirrors,
		"mirror",
		nil,
		"FROM=TO: registry FROM (HOST, or HOST/PATH) whose images and content are read from TO instead; takes "+
			"precedence over mirrors in the bundle; can be repeated",
	)
	flags.StringVar(&f.importFolder, "import-folder", "",
		"folder with files from kcp-publisher export, which the agent imports into the location")
	flags.StringVar(
		&f.notifications,
		"notifications-url",
		"",
		"URL of the publisher's notifications about new bundles, https://HOST"+bundle.NotificationsPath+
			"; uses the registry credentials for HOST; default: notifications in the bootstrap Secret, otherwise "+
			"polling only",
	)
	f.registry.AddFlags(flags)
	return cmd
}

// cacheSyncTimeout limits how long a controller waits until its caches are filled.
const cacheSyncTimeout = 24 * time.Hour

// gcPercent is the value of GOGC. It is half of Go's default, to reduce memory usage on the customer's node.
const gcPercent = 50

func (f *runFlags) run(ctx context.Context, g *cli.Root) error {
	ctrl.SetLogger(g.Logger())
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	checked, err := f.parseFlags()
	if err != nil {
		return err
	}
	config, err := f.manager.Config()
	if err != nil {
		return err
	}
	config = longWatches(config)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		return err
	}
	uncached, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to the runtime: %w", err)
	}
	before, err := f.prepare(ctx, config, uncached, checked)
	if err != nil {
		return ignoreAfterShutdown(ctx, err)
	}
	mgr, err := f.manager.New(config, ctrl.Options{
		Scheme: scheme,
		// Cache only objects in the namespace kyma-system, so that the agent's memory does not grow with the cluster.
		Cache:            cache.Options{DefaultNamespaces: map[string]cache.Config{v1beta2.RuntimeNamespace: {}}},
		LeaderElectionID: "skr-agent.kyma-pull.dev", LeaderElectionNamespace: v1beta2.RuntimeNamespace,
		// A controller waits this long for its caches, because the API server may not allow the agent's watches yet.
		Controller: ctrlconfig.Controller{CacheSyncTimeout: cacheSyncTimeout},
	})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the agent's executable: %w", err)
	}
	if err := f.addControllers(mgr, before, checked, uncached, g.Version, self); err != nil {
		return err
	}
	began := time.Now()
	ctrl.Log.Info("starting", "version", g.Version, "runtime", before.known.runtime, "location",
		before.puller.Location().String())
	if err := mgr.Start(ctx); !errors.Is(err, errBootstrapChanged) {
		return err
	}
	if before.deployment != nil {
		if err := before.deployment.RecordRestart(ctx, time.Since(began)); err != nil {
			ctrl.Log.Error(err, "failed to record that this restart is intended, so it counts as a start of the agent's image")
		}
	}
	return restart(self)
}

// ignoreAfterShutdown returns err, or nil during shutdown.
func ignoreAfterShutdown(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// parsedFlags contains the parsed values of flags.
type parsedFlags struct {
	accounts guard.Accounts
	mirrors  map[string]string
}

// parseFlags validates the flags before the program waits for the API server.
func (f *runFlags) parseFlags() (parsedFlags, error) {
	accounts, err := guard.ParseAccounts(f.accounts, v1beta2.RuntimeNamespace)
	if err != nil {
		return parsedFlags{}, cli.Usage(fmt.Errorf("--module-service-account: %w", err))
	}
	mirrors, err := bundle.ParseMirrors(f.mirrors)
	if err != nil {
		return parsedFlags{}, cli.Usage(err)
	}
	switch {
	case (f.deployment == "") != (f.pod == ""):
		err = errors.New("--deployment and --pod must be set together")
	case f.upgradeDeadline <= upgrade.Trial:
		err = fmt.Errorf("--upgrade-deadline %s: must be more than %s, the minimum trial time of an image",
			f.upgradeDeadline, upgrade.Trial)
	case f.poll <= 0:
		err = fmt.Errorf("--poll-interval %s: must be more than 0", f.poll)
	case f.report <= 0:
		err = fmt.Errorf("--report-interval %s: must be more than 0", f.report)
	case f.skew <= 0:
		err = fmt.Errorf("--clock-skew %s: must be more than 0", f.skew)
	case f.notifications != "" && store.CheckStreamURL(f.notifications) != nil:
		// The error omits the URL, which can contain credentials.
		err = fmt.Errorf("--notifications-url: %w", store.CheckStreamURL(f.notifications))
	default:
		return parsedFlags{accounts, mirrors}, nil
	}
	return parsedFlags{}, cli.Usage(err)
}
