package command

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/serve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/access"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/ui"
)

// uiFlags are what `ui` takes.
type uiFlags struct {
	controlPlane
	address string
	signIn  signInFlags
}

func newUI(g *cli.Root) *cobra.Command {
	f := &uiFlags{}
	cmd := &cobra.Command{
		Use: "ui", Short: "serves the page of the fleet", Args: cli.Exactly(0, "no arguments"),
		Long: "ui serves the page of the fleet on this machine, with the rights of its kubeconfig. With --external-url it is for others, who sign in: see docs/guides/ui-in-cluster.md.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), g.Logger()) },
	}
	flags := cmd.Flags()
	f.add(flags, "the Kymas")
	flags.StringVar(&f.address, "bind-address", "127.0.0.1:8085", "address to listen on; without --external-url one of this machine")
	f.signIn.add(flags)
	return cmd
}

func (f *uiFlags) run(ctx context.Context, log logr.Logger) error {
	if err := f.signIn.check(); err != nil {
		return cli.Usage(err)
	}
	if !f.signIn.enabled() && !loopback(f.address) {
		return cli.Usage(fmt.Errorf("--bind-address %q: want an address of this machine, such as 127.0.0.1:8085, or --external-url: others would see the fleet with your rights", f.address))
	}
	crlog.SetLogger(log)
	config, err := f.config()
	if err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	objects, err := cache.New(config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{f.namespace: {}}})
	if err != nil {
		return err
	}
	own, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	source := ui.NewSource(objects, f.namespace, fleet.Look, time.Now)
	handler, err := f.handler(config, own, source, log)
	if err != nil {
		return err
	}
	listener, err := serve.Listen(ctx, f.address, nil, pageLimits)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	log.Info("listening", "address", listener.Addr().String())
	group, running := errgroup.WithContext(ctx)
	var ready atomic.Bool
	group.Go(func() error { return objects.Start(running) })
	group.Go(func() error {
		ready.Store(objects.WaitForCacheSync(running))
		return source.Run(running)
	})
	group.Go(func() error {
		return serveUntil(running, log, serve.New(probed(ready.Load, handler), pageLimits), listener, f.signIn.certificate, f.signIn.tls)
	})
	return group.Wait()
}

// handler returns the pages with what says who looks at them.
func (f *uiFlags) handler(config *rest.Config, own client.Client, source *ui.Source, log logr.Logger) (http.Handler, error) {
	options := ui.Options{Source: source, Log: log, Now: time.Now}
	if f.signIn.enabled() {
		gate, err := f.signIn.gate(config, client.Options{Scheme: own.Scheme(), Mapper: own.RESTMapper()}, f.namespace, log)
		if err != nil {
			return nil, err
		}
		options.Events = access.Events
		return gate.Handler(ui.Handler(options)), nil
	}
	return ui.NewLocal(ui.Handler(options), f.address, ui.OwnRights(own, ""))
}

// loopback reports whether nobody but this machine reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
