package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/serve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/webserver"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

type tokenServiceFlags struct {
	location, keys, service, issuer string
	bindAddress, certificate, key   string
	generations                     string
	modules                         []string
}

// tokenPath is the path that the registry distribution redirects clients to if auth.token.autoredirect is set.
const tokenPath = "/auth/token"

// NewTokenService returns the command token-service.
func NewTokenService(g *cli.Root) *cobra.Command {
	f := &tokenServiceFlags{}
	cmd := &cobra.Command{
		Use: "token-service", Short: "issue short-lived registry tokens, limited to each user's permissions",
		Args: cli.Exactly(0, "no arguments"),
		Long: "token-service serves GET " + tokenPath +
			". Route this path of the registry's hostname to the service: see docs/guides/registry.md.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), g.Logger()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.location, "location", "", "registry prefix HOST/PATH that bundles are published to")
	flags.StringArrayVar(&f.modules, "module-repository", nil,
		"repository that every runtime can read, without the host; NAME/** matches all repositories below NAME; "+
			"can be repeated")
	flags.StringVar(&f.service, "service", "",
		"name of the registry, as in its setting auth.token.service; default: the host of --location")
	flags.StringVar(&f.issuer, "issuer", "kyma-pull",
		"name of the issuer, as in the registry's setting auth.token.issuer")
	flags.StringVar(&f.generations, "generations", "",
		"YAML file with the lowest accepted password generation of users, as USER: GENERATION; the service reloads "+
			"it after a change")
	flags.StringVar(&f.bindAddress, "bind-address", ":8082", "address to listen on")
	flags.StringVar(&f.certificate, "tls-certificate", "",
		"PEM file with the TLS certificate; default: plain HTTP, behind a proxy that terminates TLS")
	flags.StringVar(&f.key, "tls-key", "", "PEM file with the TLS certificate's private key")
	keyfolder.AddFlag(flags, &f.keys)
	return cmd
}

func (f *tokenServiceFlags) run(ctx context.Context, log logr.Logger) error {
	if (f.certificate == "") != (f.key == "") {
		return cli.Usage(errors.New("--tls-certificate and --tls-key: set both or neither"))
	}
	service, err := f.open(log)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(tokenPath, service)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	server := serve.New(mux, TokenLimits)
	listener, err := serve.Listen(ctx, f.bindAddress, nil, TokenLimits)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	log.Info("listening", "address", listener.Addr().String(), "location", f.location)
	return webserver.Serve(ctx, log, server, listener, f.certificate, f.key)
}

// TokenLimits keep the memory for unauthenticated requests below half of the memory limit in the chart, also with TLS.
var TokenLimits = serve.Limits{
	Connections: 400, HeaderBytes: 4 << 10, BodyBytes: 1 << 10, AllBodiesBytes: 1 << 20, Read: 5 * time.Second,
	Write: 10 * time.Second, OneRequest: true,
}

func (f *tokenServiceFlags) open(log logr.Logger) (*token.Service, error) {
	if f.location == "" {
		return nil, cli.Usage(errors.New("--location is required: the fleet's registry prefix HOST/PATH"))
	}
	host, prefix, err := token.SplitLocation(f.location)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--location %q: %w", f.location, err))
	}
	if f.service == "" {
		f.service = host
	}
	policy, err := token.NewPolicy(prefix, f.modules)
	if err != nil {
		return nil, cli.Usage(err)
	}
	folder := keys.Folder{Dir: f.keys}
	tokens, err := keys.OpenTokenFile(folder)
	if err != nil {
		return nil, err
	}
	issuer, err := loadIssuer(folder, f.issuer, f.service)
	if err != nil {
		return nil, err
	}
	generations, err := token.OpenGenerations(f.generations)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--generations: %w", err))
	}
	return token.NewService(token.Options{
		Secrets: tokens.Secrets, Policy: policy, Issuer: issuer, InForce: generations.InForce, Now: time.Now,
		FreshID: rand.Text, Log: log,
	})
}

func loadIssuer(folder keys.Folder, name, service string) (*token.Issuer, error) {
	path := filepath.Join(folder.Dir, fileRegistryKey)
	data, err := folder.ReadFile(fileRegistryKey)
	if err != nil {
		return nil, fmt.Errorf("%w: create one with `kcp-publisher registry init --keys %s`", err, folder.Dir)
	}
	signer, err := trust.LoadSigner(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return token.NewIssuer(name, service, signer)
}
