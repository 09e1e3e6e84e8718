// Package fleetui implements the command that serves the fleet UI.
package fleetui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/serve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/published"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/reports"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/webserver"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/ui"
)

const pollInterval = 10 * time.Second

type uiFlags struct {
	controlplane.Flags
	address string
	open    bool
	origins published.Flags
	// rendering selects the program that finds the images of rendered modules.
	rendering flagset.RenderingFlags
	signIn    signInFlags
}

// New returns the command ui.
func New(g *cli.Root) *cobra.Command {
	f := &uiFlags{}
	cmd := &cobra.Command{
		Use: "ui", Short: "serve the fleet's web UI", Args: cli.Exactly(0, "no arguments"),
		Long: "ui serves the fleet's web UI on this machine, with the permissions of the kubeconfig. With --external-url, " +
			"it serves other users,\n" +
			"who must sign in: see docs/guides/ui-in-cluster.md.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout(), g.Logger()) },
	}
	flags := cmd.Flags()
	f.Add(flags, "the Kymas")
	flags.StringVar(&f.address, "bind-address", "127.0.0.1:8085",
		"address to listen on; must be a loopback address unless --external-url is set")
	flags.BoolVar(&f.open, "open", false, "open the UI in a browser; only without --external-url")
	f.origins.Add(flags)
	f.rendering.Add(flags, "on page Images: ")
	f.signIn.add(flags)
	return cmd
}

func (f *uiFlags) run(ctx context.Context, out io.Writer, log logr.Logger) error {
	if err := f.signIn.check(); err != nil {
		return cli.Usage(err)
	}
	if (f.origins.Location == "") != (f.origins.Trust == "") {
		return cli.Usage(errors.New("--location and --trust: set both or neither"))
	}
	if !f.signIn.enabled() && !isLoopback(f.address) {
		return cli.Usage(
			fmt.Errorf(
				"--bind-address %q must be a loopback address such as 127.0.0.1:8085, unless --external-url is set: "+
					"without sign-in, every client that can reach the address would see the fleet with your permissions",
				f.address,
			),
		)
	}
	crlog.SetLogger(log)
	config, err := f.Cluster.Config()
	if err != nil {
		return err
	}
	scheme, err := controlplane.NewScheme()
	if err != nil {
		return err
	}
	var read atomic.Int64
	slimmer := controller.NewSlimmer()
	objects, err := cache.New(
		config,
		cache.Options{
			Scheme:            scheme,
			DefaultNamespaces: map[string]cache.Config{f.Namespace: {}},
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{&v1beta2.Kyma{}: {Transform: func(object any) (any, error) {
				read.Add(1)
				return slimmer.Transform(object)
			}}},
		},
	)
	if err != nil {
		return err
	}
	own, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := f.mayRead(ctx, own); err != nil {
		return err
	}
	assess, err := f.assess(ctx, own)
	if err != nil {
		return err
	}
	table, err := controlplane.NewTableClient(config)
	if err != nil {
		return err
	}
	source := ui.NewSource(objects, f.Namespace, assess, time.Now)
	listener, err := serve.Listen(ctx, f.address, nil, PageLimits)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	handler, err := f.handler(out, listener.Addr().String(), config, own, source, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if f.signIn.enabled() { // without sign-in, handler has printed the address
		log.Info("listening", "address", listener.Addr().String())
	}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return objects.Start(running) })
	group.Go(func() error { return source.Run(running) })
	group.Go(func() error {
		if err := f.readFirst(running, table, own,
			func(first fleet.Fleet) { source.First(first, read.Load) }); err != nil {
			log.V(1).Info("the UI is empty until all Kymas are read", "reason", err.Error())
		}
		return nil
	})
	group.Go(func() error {
		return webserver.Serve(running, log, serve.New(withProbes(source.Ready, handler), PageLimits), listener,
			f.signIn.certificate, f.signIn.tls)
	})
	return group.Wait()
}

// handler returns the UI's HTTP handler. The handler requires users to sign in if --external-url is set. Otherwise, it
// accepts only the local user.
func (f *uiFlags) handler(
	out io.Writer, address string, config *rest.Config, own client.Client, source *ui.Source, log logr.Logger,
) (http.Handler, error) {
	options := ui.Options{Source: source, Log: log, Now: time.Now}
	if f.origins.Location != "" || f.origins.Trust != "" {
		options.Origins = func(ctx context.Context, kyma *v1beta2.Kyma) ([]bundle.Origin, error) {
			return f.origins.ReadOrigins(ctx, kyma, "")
		}
		options.Chain = f.origins.ReadChain
		options.Report = f.report
		if err := f.addContents(&options, log); err != nil {
			return nil, err
		}
	}
	if f.signIn.enabled() {
		gate, err := f.signIn.newSignIn(config, client.Options{Scheme: own.Scheme(), Mapper: own.RESTMapper()}, f.Namespace,
			log)
		if err != nil {
			return nil, err
		}
		options.Events, options.Trains = access.Events, access.Trains
		return gate.Handler(ui.Handler(options)), nil
	}
	options.Events = func(ctx context.Context, kyma *v1beta2.Kyma) ([]corev1.Event, error) {
		return access.EventsBy(ctx, own, kyma)
	}
	options.Trains = func(ctx context.Context, namespace string) ([]v1alpha1.PromotionPolicy, error) {
		return access.TrainsBy(ctx, own, namespace)
	}
	local, err := ui.NewLocal(ui.Handler(options), address, ui.OwnRights(own, ""))
	if err != nil {
		return nil, err
	}
	cli.Printf(out, "fleet UI for namespace %s, with your permissions: %s\n", f.Namespace, local.Address())
	if f.open {
		openBrowser(local.AddressOnce(), log)
	}
	return local, nil
}

// report returns the runtime's latest verified report.
func (f *uiFlags) report(ctx context.Context, kyma *v1beta2.Kyma) (bundle.Report, error) {
	from := reports.ReportFlags{Location: f.origins.Location, Registry: f.origins.Registry}
	report, err := reports.Verify(kyma,
		func() (bundle.Fetched, error) { return from.Fetch(ctx, plan.RuntimeID(kyma)) })
	return report.Report, err
}

// addContents sets the function that finds the images of module versions. With --renderer none, it finds only images
// that modules list.
func (f *uiFlags) addContents(options *ui.Options, log logr.Logger) error {
	program, err := f.rendering.Program()
	if err != nil {
		return cli.Usage(fmt.Errorf("--renderer: %w", err))
	}
	if note := flagset.UnconfinedWarning(runtime.GOOS); program != "" && note != "" {
		log.Info(note)
	}
	rendered := flagset.UsedCache(program, flagset.CacheDir(flagset.UserCache))
	rendered.Prune(time.Now())
	options.RendersContents = program != ""
	options.Contents = func(
		ctx context.Context, runtimes []inventory.Runtime,
	) (map[inventory.Module]inventory.Content, error) {
		source, err := published.BundleSource(ctx, &f.origins.Registry, "--location", f.origins.Location,
			f.origins.Trust)
		if err != nil {
			return nil, err
		}
		source.Rendering, source.KubernetesVersion = flagset.NewRendering(program), f.rendering.Kubernetes
		source.UsedCache = rendered
		if f.signIn.enabled() {
			source.MaxRenderings = 1 // the chart's memory limit leaves room for one rendering
		}
		return export.Contents(ctx, source, runtimes)
	}
	return nil
}

// readFirst reads the fleet for the first page, before the cache is complete. For healthy runtimes, it reads only table
// rows.
func (f *uiFlags) readFirst(
	ctx context.Context, table rest.Interface, own client.Reader, show func(fleet.Fleet),
) error {
	all := controlplane.KymaSelector{Namespace: f.Namespace, Selector: labels.Everything()}
	rows, err := controlplane.ListRows(ctx, table, all)
	if err != nil {
		return err
	}
	if len(rows) <= controlplane.SmallFleet {
		return nil // the cache reads all Kymas
	}
	now := time.Now()
	unread := controlplane.DivideRows(rows, func(row fleet.Row) (fleet.Runtime, bool) { return row.Healthy(now) })
	if len(unread.Healthy) == 0 {
		return nil
	}
	in, err := controlplane.ReadInput(ctx, own, all, unread)
	if err != nil {
		return err
	}
	in.Now = time.Now()
	show(fleet.Assess(in))
	return nil
}

// assess returns a function that evaluates the fleet. The function adds state that the cache does not watch, such as
// the expiry of the root of trust. The function is not safe for concurrent use.
func (f *uiFlags) assess(ctx context.Context, own client.Reader) (func(fleet.Input) fleet.Fleet, error) {
	var root trust.Root
	readRoot := func() error {
		if f.origins.Trust == "" {
			return nil
		}
		current, err := cli.ReadRoot(f.origins.Trust)
		if err == nil {
			root = current
		}
		return err
	}
	if err := readRoot(); err != nil {
		return nil, err
	}
	var known fleet.Input
	var asked time.Time
	return func(in fleet.Input) fleet.Fleet {
		if in.Now.Sub(asked) >= pollInterval {
			asked = in.Now
			var now fleet.Input
			if err := controlplane.ReadCircumstances(ctx, own, f.Namespace, &now); err == nil {
				known = now // if the read fails, keep the previous state
			}
			if err := readRoot(); err != nil { // the mounted file changes when keys are rotated
				crlog.FromContext(ctx).V(1).Info("failed to reload the root of trust, continuing with the previous one",
					"reason", err.Error())
			}
		}
		in.Held, in.RootExpires = known.Held, known.RootExpires
		in.Trains, in.InvalidPolicies = known.Trains, known.InvalidPolicies
		in.UnmatchedPolicies = known.UnmatchedPolicies
		if !root.Expires.IsZero() {
			in.RootExpires = root.Expires
		}
		return fleet.Assess(in)
	}, nil
}

// mayRead returns an error if the fleet cannot be read, for example because of a missing permission. Without this
// check, the cache would retry forever.
func (f *uiFlags) mayRead(ctx context.Context, own client.Client) error {
	for _, list := range []client.ObjectList{&v1beta2.KymaList{}, &v1beta2.ModuleReleaseMetaList{},
		&v1alpha1.RolloutList{}} {
		if err := own.List(ctx, list, client.InNamespace(f.Namespace), client.Limit(1)); err != nil &&
			!meta.IsNoMatchError(err) {
			return fmt.Errorf("read the fleet in namespace %s: %w", f.Namespace, err)
		}
	}
	return nil
}

// openBrowser starts a browser and does not wait for it. If this fails, the user can open the printed address.
func openBrowser(address string, log logr.Logger) {
	program := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	command := exec.Command(cmp.Or(program, "xdg-open"), address)
	if err := command.Start(); err != nil {
		log.Info("could not open a browser, use the printed address", "reason", err.Error())
		return
	}
	go func() { _ = command.Wait() }()
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
