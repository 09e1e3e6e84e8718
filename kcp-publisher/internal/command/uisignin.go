package command

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

// signInFlags are those of a page that others than its starter look at: who may, and how they sign in.
type signInFlags struct {
	external         string
	key              string
	lifetime         time.Duration
	tokens           bool
	audience         string
	certificate, tls string
	oidc             signin.OIDCOptions
}

func (f *signInFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.external, "external-url", "", "https://HOST at which browsers find the page; with it people sign in, and each sees what the API server lets them")
	flags.StringVar(&f.key, "session-key", "", "file with the secret that sessions are encrypted with, such as openssl rand -hex 32 prints; behind a rotation the one before in a second line")
	flags.DurationVar(&f.lifetime, "session-lifetime", 8*time.Hour, "how long a session lasts at most")
	flags.BoolVar(&f.tokens, "sign-in-with-tokens", true, "let people sign in with tokens of the API server")
	flags.StringVar(&f.audience, "token-audience", "", "audience that tokens have to be made for; the page then changes nothing with them; default: that of the API server")
	flags.StringVar(&f.certificate, "tls-certificate", "", "PEM file with a certificate; default: plain HTTP, behind a proxy that terminates TLS")
	flags.StringVar(&f.tls, "tls-key", "", "PEM file with the certificate's key")
	flags.StringVar(&f.oidc.Issuer, "oidc-issuer-url", "", "https:// URL of the OIDC provider that people sign in with; default: none")
	flags.StringVar(&f.oidc.ClientID, "oidc-client-id", "", "name that the OIDC provider knows the page by")
	flags.StringVar(&f.oidc.ClientSecretFile, "oidc-client-secret", "", "file with the client's secret; default: a public client")
	flags.StringVar(&f.oidc.CAFile, "oidc-ca-file", "", "PEM file with the authorities of the OIDC provider's certificate; default: those of the machine")
	flags.StringVar(&f.oidc.UsernameClaim, "oidc-username-claim", "sub", "claim with the user's name, as kube-apiserver has it")
	flags.StringVar(&f.oidc.UsernamePrefix, "oidc-username-prefix", "", "prefix of users' names, as kube-apiserver has it; default: the issuer and #, but for the claim email; - for none")
	flags.StringVar(&f.oidc.GroupsClaim, "oidc-groups-claim", "", "claim with the user's groups, as kube-apiserver has it; default: users have no groups")
	flags.StringVar(&f.oidc.GroupsPrefix, "oidc-groups-prefix", "", "prefix of groups' names, as kube-apiserver has it")
	flags.StringArrayVar(&f.oidc.Scopes, "oidc-scope", nil, "scope to ask for beside openid, such as groups; may be repeated")
	flags.BoolVar(&f.oidc.APIToken, "oidc-token-for-api-server", false, "the API server trusts the same issuer and client: ask it whose ID tokens are, and change rollouts with them")
}

// check finds what is wrong with the flags.
func (f *signInFlags) check() error {
	switch {
	case (f.certificate == "") != (f.tls == ""):
		return errors.New("--tls-certificate and --tls-key: want both or none")
	case f.external == "" && (f.key != "" || f.certificate != "" || f.oidc.Issuer != "" || f.audience != ""):
		return errors.New("--external-url: name the address of the page, or leave out what concerns signing in")
	case f.external != "" && f.key == "":
		return errors.New("--session-key: name a file with a secret; all replicas have the same")
	case f.oidc.Issuer == "" && (f.oidc.ClientID != "" || f.oidc.APIToken):
		return errors.New("--oidc-issuer-url: name the OIDC provider, or leave out what concerns it")
	case f.oidc.APIToken && f.audience != "":
		return errors.New("--oidc-token-for-api-server and --token-audience: want one of them; an ID token is for its client")
	case f.lifetime < time.Minute || f.lifetime > 7*24*time.Hour:
		return fmt.Errorf("--session-lifetime %s: want one minute to seven days", f.lifetime)
	}
	return nil
}

// enabled reports whether people sign in; else the page is its starter's alone.
func (f *signInFlags) enabled() bool { return f.external != "" }

// tokenValidity is how long the API server's word on a token counts, and after which streams of events begin anew.
const tokenValidity = time.Minute

// pageLimits keep what strangers can take of memory below what the chart allows. A stream of events ends before an
// answer has to.
var pageLimits = serve.Limits{
	Connections: 2000, HeaderBytes: 32 << 10, BodyBytes: 16 << 10, AllBodiesBytes: 4 << 20, Read: 10 * time.Second, Write: 2 * tokenValidity,
}

// gate returns what lets people in to the pages of a namespace. config is the page's own access to the API server;
// options name scheme and mapper.
func (f *signInFlags) gate(config *rest.Config, options client.Options, namespace string, log logr.Logger) (*access.Gate, error) {
	external, err := url.Parse(f.external)
	if err != nil {
		return nil, cli.Usage(errors.New("--external-url: want https://HOST"))
	}
	keys, err := signin.OpenKeyFile(f.key, time.Now)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--session-key: %w", err))
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // answers are remembered; what is asked beyond that, somebody waits for
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	in := signin.Options{
		External: external, Keys: keys, Tokens: signin.NewTokens(api.AuthenticationV1().TokenReviews(), f.audience, tokenValidity), TokenForm: f.tokens,
		Lifetime: f.lifetime, Recheck: tokenValidity, Now: time.Now, Log: log,
	}
	if f.oidc.Issuer != "" {
		f.oidc.Redirect = external.JoinPath(signin.PathCallback).String()
		if in.OIDC, err = signin.NewOIDC(f.oidc); err != nil {
			return nil, cli.Usage(fmt.Errorf("--oidc-...: %w", err))
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

// probed answers kubelet, who has no name for the page and no session; everything else goes on.
func probed(ready func() bool, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "the control plane is still being read", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("/", next)
	return mux
}
