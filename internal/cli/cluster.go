package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// Cluster contains the connection flags for an API server, as in kubectl. The kubeconfig comes from --kubeconfig,
// $KUBECONFIG or ~/.kube/config. In a Pod without a kubeconfig, the ServiceAccount is used.
type Cluster struct {
	name       string
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// connectionFlag is the annotation of flags that select an API server. The help lists them in a separate section.
const connectionFlag = "kyma-pull.dev/connection"

// Client-side rate limits for interactive commands, as in kubectl.
const (
	queriesPerSecond = 50
	queriesAtOnce    = 300
)

// AddFlags adds the connection flags, except --namespace. name is the cluster's name in the help, such as
// "the runtime".
func (c *Cluster) AddFlags(flags *pflag.FlagSet, name string) {
	c.name = name
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&c.kubeconfig, "kubeconfig", "",
		"kubeconfig of "+name+"; default: $KUBECONFIG, then ~/.kube/config, then a Pod's own ServiceAccount")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.CurrentContext.Description = "context of the kubeconfig"
	names.ContextOverrideFlags = clientcmd.ContextOverrideFlags{
		ClusterName:  clientcmd.FlagInfo{LongName: clientcmd.FlagClusterName, Description: "cluster of the kubeconfig"},
		AuthInfoName: clientcmd.FlagInfo{LongName: clientcmd.FlagAuthInfoName, Description: "user of the kubeconfig"},
	}
	names.Timeout = clientcmd.FlagInfo{} // --request-timeout would also end watches; see AddTimeoutFlag
	auth, server := &names.AuthOverrideFlags, &names.ClusterOverrideFlags
	auth.Username, auth.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{} // API servers dropped basic auth
	auth.ClientCertificate.Description = "file with a client certificate for the API server"
	auth.ClientKey.Description = "file with the key of the client certificate"
	auth.Token.Description = "bearer token for the API server"
	auth.Impersonate.Description = "user to impersonate"
	auth.ImpersonateUID.Description = "UID to impersonate"
	auth.ImpersonateGroups.Description = "group to impersonate; can be repeated"
	server.APIServer.Description = "URL of the API server"
	server.CertificateAuthority.Description = "file with the CA certificates of the API server"
	server.InsecureSkipTLSVerify.Description = "accept any certificate of the API server, which makes the connection " +
		"insecure"
	server.TLSServerName.Description = "server name to verify in the API server's certificate; default: host of the URL"
	server.ProxyURL.Description = "proxy to the API server"
	server.DisableCompression = clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&c.overrides, own, names)
	c.add(flags, own)
}

// AddTimeoutFlag adds --request-timeout, for commands that do not watch objects.
func (c *Cluster) AddTimeoutFlag(flags *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&c.overrides.Timeout, clientcmd.FlagTimeout, "0",
		"timeout of a request to the API server, such as 30s; 0: no timeout")
	c.add(flags, own)
}

func (c *Cluster) add(flags, own *pflag.FlagSet) {
	own.VisitAll(func(flag *pflag.Flag) {
		flag.Annotations = map[string][]string{connectionFlag: nil}
		flags.AddFlag(flag)
	})
}

// Config returns the configuration from the flags and the kubeconfig.
func (c *Cluster) Config() (*rest.Config, error) {
	if err := c.checkFlags(); err != nil {
		return nil, Usage(err)
	}
	config, err := c.loader().ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, c.emptyConfigError()
	case err != nil:
		return nil, fmt.Errorf("kubeconfig: %w%s", err, c.otherContexts())
	}
	config.QPS, config.Burst = queriesPerSecond, queriesAtOnce
	return config, nil
}

// checkFlags returns an error for a flag whose value the Kubernetes library refuses without naming the flag.
func (c *Cluster) checkFlags() error {
	if timeout := c.overrides.Timeout; timeout != "" {
		if _, err := clientcmd.ParseTimeout(timeout); err != nil {
			return fmt.Errorf("--%s %q: must be a duration such as 30s, or 0 for no timeout", clientcmd.FlagTimeout,
				timeout)
		}
	}
	if file := c.overrides.ClusterInfo.CertificateAuthority; file != "" {
		if _, err := cert.CertsFromFile(file); err != nil {
			return fmt.Errorf("--%s %s: must be a PEM file with the CA certificates of the API server: %w",
				clientcmd.FlagCAFile, file, err)
		}
	}
	return nil
}

// emptyConfigError returns the error for a kubeconfig that selects no cluster.
func (c *Cluster) emptyConfigError() error {
	if raw, err := c.loader().RawConfig(); err == nil && len(raw.Contexts) > 0 {
		return fmt.Errorf("the kubeconfig has no current context: set --context to one of its contexts: %s",
			strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	}
	if c.kubeconfig != "" {
		return fmt.Errorf("--kubeconfig %s: the file does not contain contexts: use a kubeconfig for %s", c.kubeconfig,
			c.name)
	}
	if files := os.Getenv("KUBECONFIG"); files != "" {
		return fmt.Errorf("no kubeconfig for %s in $KUBECONFIG: %s does not exist or contains no contexts", c.name, files)
	}
	return fmt.Errorf("no kubeconfig for %s: set --kubeconfig or $KUBECONFIG", c.name)
}

// otherContexts returns a list of the contexts in the kubeconfig if the requested context does not exist.
func (c *Cluster) otherContexts() string {
	raw, err := c.loader().RawConfig()
	if _, exists := raw.Contexts[c.overrides.CurrentContext]; err != nil || c.overrides.CurrentContext == "" || exists ||
		len(raw.Contexts) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(raw.Contexts))
	if similar := ClosestNames(c.overrides.CurrentContext, names); similar != "" {
		return similar
	}
	return ": the contexts are " + strings.Join(names, ", ")
}

// loader returns a loader for the kubeconfig. Connection flags override its values.
func (c *Cluster) loader() clientcmd.ClientConfig {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, &c.overrides)
}
