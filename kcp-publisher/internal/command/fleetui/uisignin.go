package fleetui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/serve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/signin"
)

type signInFlags struct {
	external         string
	key              string
	lifetime         time.Duration
	proxies          int
	tokens           bool
	audience         string
	certificate, tls string
	oidc             signin.OIDCOptions
}

func (f *signInFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.external, "external-url", "",
		"URL of the UI for browsers, https://HOST; users must sign in, and see only objects that the API server "+
			"allows them to read")
	flags.StringVar(&f.key, "session-key", "",
		"file with the secret that encrypts sessions, such as the output of openssl rand -hex 32; during a rotation, "+
			"add the previous secret as a second line")
	flags.DurationVar(&f.lifetime, "session-lifetime", 8*time.Hour, "maximum duration of a session")
	flags.IntVar(&f.proxies, "trusted-proxies", 1,
		"number of proxies between browsers and the UI that append to X-Forwarded-For, such as a load balancer and an "+
			"ingress controller; the UI limits failed sign-ins for each client in front of these proxies")
	flags.BoolVar(&f.tokens, "sign-in-with-tokens", true, "allow sign-in with API server tokens")
	flags.StringVar(&f.audience, "token-audience", "",
		"required audience of tokens; the UI then cannot use the tokens for changes; default: the audience of the "+
			"API server")
	flags.StringVar(&f.certificate, "tls-certificate", "",
		"PEM file with the TLS certificate; default: plain HTTP, behind a proxy that terminates TLS")
	flags.StringVar(&f.tls, "tls-key", "", "PEM file with the TLS certificate's private key")
	flags.StringVar(&f.oidc.Issuer, "oidc-issuer-url", "",
		"https:// URL of the OIDC provider for sign-in; default: none")
	flags.StringVar(&f.oidc.ClientID, "oidc-client-id", "", "the UI's client ID at the OIDC provider")
	flags.StringVar(&f.oidc.ClientSecretFile, "oidc-client-secret", "",
		"file with the client secret; default: none, for a public client")
	flags.StringVar(&f.oidc.CAFile, "oidc-ca-file", "",
		"PEM file with the CAs of the OIDC provider's certificate; default: the system's CAs")
	flags.StringVar(&f.oidc.UsernameClaim, "oidc-username-claim", "sub",
		"claim with the user's name, as in kube-apiserver")
	flags.StringVar(&f.oidc.UsernamePrefix, "oidc-username-prefix", "",
		"prefix of user names, as in kube-apiserver; - disables it; default: ISSUER#, or none for the claim email")
	flags.StringVar(&f.oidc.GroupsClaim, "oidc-groups-claim", "",
		"claim with the user's groups, as in kube-apiserver; default: users have no groups")
	flags.StringVar(&f.oidc.GroupsPrefix, "oidc-groups-prefix", "", "prefix of group names, as in kube-apiserver")
	flags.StringArrayVar(&f.oidc.Scopes, "oidc-scope", nil,
		"scope to request in addition to openid, such as groups; can be repeated")
	flags.BoolVar(&f.oidc.APIToken, "oidc-token-for-api-server", false,
		"authenticate ID tokens at the API server, and use them for changes; the API server must trust the same "+
			"issuer and client")
}

func (f *signInFlags) check() error {
	switch {
	case (f.certificate == "") != (f.tls == ""):
		return errors.New("--tls-certificate and --tls-key: set both or neither")
	case f.external == "" && (f.key != "" || f.certificate != "" || f.oidc.Issuer != "" || f.audience != ""):
		return errors.New("--external-url is required if sign-in flags are set")
	case f.external != "" && f.key == "":
		return errors.New("--session-key is required with --external-url: a file with a secret that all replicas share")
	case f.oidc.Issuer == "" && (f.oidc.ClientID != "" || f.oidc.APIToken):
		return errors.New("--oidc-issuer-url is required if other OIDC flags are set")
	case f.oidc.APIToken && f.audience != "":
		return errors.New(
			"--oidc-token-for-api-server cannot be combined with --token-audience: the audience of an ID token is " +
				"the client ID")
	case f.proxies < 0 || f.proxies > maxProxies:
		return fmt.Errorf("--trusted-proxies %d: must be 0 to %d", f.proxies, maxProxies)
	case f.lifetime < time.Minute || f.lifetime > 7*24*time.Hour:
		return fmt.Errorf("--session-lifetime %s: must be one minute to seven days", f.lifetime)
	}
	return nil
}

const maxProxies = 8

func (f *signInFlags) enabled() bool { return f.external != "" }

// tokenValidity is the maximum age of a cached TokenReview, and the maximum duration of event streams.
const tokenValidity = time.Minute

// PageLimits keep the memory for unauthenticated requests below the memory limit in the chart.
var PageLimits = serve.Limits{
	Connections: 1000, HeaderBytes: 32 << 10, BodyBytes: 16 << 10, AllBodiesBytes: 4 << 20, Read: 10 * time.Second,
	Write: 2 * tokenValidity,
}

// newSignIn returns the sign-in and the access control for the UI. config contains the UI's own
// credentials for the API server, and options contains the scheme and the REST mapper.
func (f *signInFlags) newSignIn(
	config *rest.Config, options client.Options, namespace string, log logr.Logger,
) (*access.Gate, error) {
	external, err := url.Parse(f.external)
	if err != nil {
		return nil, cli.Usage(errors.New("--external-url: must be https://HOST"))
	}
	keys, err := signin.OpenKeyFile(f.key, time.Now)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--session-key: %w", err))
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // no limit, because a user waits for each request
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	in := signin.Options{
		External: external, Keys: keys,
		Tokens: signin.NewTokens(api.AuthenticationV1().TokenReviews(), f.audience, tokenValidity), TokenForm: f.tokens,
		Proxies: f.proxies, Lifetime: f.lifetime, Recheck: tokenValidity, Now: time.Now, Log: log,
	}
	if f.oidc.Issuer != "" {
		f.oidc.Redirect = external.JoinPath(signin.PathCallback).String()
		if in.OIDC, err = signin.NewOIDC(f.oidc); err != nil {
			return nil, cli.Usage(fmt.Errorf("OIDC flags: %w", err))
		}
	}
	service, err := signin.New(in)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--external-url %q: %w", f.external, err))
	}
	users, err := access.NewUsers(api.AuthorizationV1(), access.Validity)
	if err != nil {
		return nil, err
	}
	acting, err := access.NewActing(config, options)
	if err != nil {
		return nil, err
	}
	return &access.Gate{Namespace: namespace, SignIn: service, Users: users, Acting: acting, Log: log}, nil
}

func withProbes(ready func() bool, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "the objects of the control plane are still loading", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("/", next)
	return mux
}
