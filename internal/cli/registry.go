package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cloudauth"
)

// TransferTimeout is the timeout for a request that transfers one image layer, even over a slow connection.
const TransferTimeout = 2 * time.Hour

// Registry contains the flags for access to registries.
type Registry struct {
	Config, CA string
	PlainHTTP  bool
	// Provider logs in to the registries of a cloud provider.
	Provider Provider
	// BlobHosts are the hosts that registries can redirect requests to.
	BlobHosts []string
}

// AddFlags adds all flags for access to registries.
func (r *Registry) AddFlags(flags *pflag.FlagSet) {
	r.AddConfigFlag(flags, "docker config.json with the credentials for registries")
	r.AddTLSFlags(flags)
	r.Provider.name, r.Provider.newLogin = cloudauth.Generic, cloudauth.NewLogin
	flags.Var(&r.Provider, providerFlag,
		"log in to registries of a cloud provider with the workload's identity: generic (no login), aws, gcp or azure; "+
			"--registry-config takes precedence for the hosts that it contains")
}

// AddConfigFlag adds only --registry-config, with the command's own usage text.
func (r *Registry) AddConfigFlag(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&r.Config, "registry-config", "", usage)
}

// AddTLSFlags adds the flags for connections to registries.
func (r *Registry) AddTLSFlags(flags *pflag.FlagSet) {
	r.AddCAFlag(flags)
	flags.BoolVar(&r.PlainHTTP, "plain-http", false,
		"use plain HTTP for all registries; always used for loopback addresses")
	flags.StringArrayVar(&r.BlobHosts, "blob-host", nil,
		"HOST or HOST:PORT of a blob store that registries can redirect to, in addition to their own host; can be "+
			"repeated")
}

// AddCAFlag adds only --registry-ca.
func (r *Registry) AddCAFlag(flags *pflag.FlagSet) {
	flags.StringVar(&r.CA, "registry-ca", "", "additional CA certificates (PEM file) for registries")
}

// Access returns the settings from the flags and the content of the files that they name. Settings without a flag, and
// the values for flags that are not set, come from base.
func (r *Registry) Access(base store.Access) (store.Access, error) {
	access := base
	access.PlainHTTP = base.PlainHTTP || r.PlainHTTP
	access.BlobHosts = append(slices.Clone(base.BlobHosts), r.BlobHosts...)
	for _, host := range r.BlobHosts {
		if err := store.CheckBlobHost(host); err != nil {
			return access, Usage(fmt.Errorf("--blob-host %q: %w", host, err))
		}
	}
	access, err := r.read(access)
	if err != nil {
		return access, Usage(err)
	}
	if access.Login = r.Provider.login(); access.Login != nil && access.PlainHTTP {
		return access, Usage(errors.New("--registry-provider sends passwords over HTTPS only: remove --plain-http"))
	}
	if r.Config != "" || r.CA != "" {
		// The files can come from Secrets and ConfigMaps that change while the program is running.
		access.Renew = func() (store.Access, error) { return r.read(base) }
	}
	return access, nil
}

func (r *Registry) read(access store.Access) (store.Access, error) {
	for _, file := range []struct {
		flag, path string
		into       *[]byte
		check      func([]byte) error
	}{
		{"registry-config", r.Config, &access.DockerConfig, store.CheckDockerConfig},
		{"registry-ca", r.CA, &access.CA, store.CheckCA},
	} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return access, fmt.Errorf("--%s: %w", file.flag, err)
		}
		if err := file.check(data); err != nil {
			return access, fmt.Errorf("--%s %s: %w", file.flag, file.path, err)
		}
		*file.into = data
	}
	return access, nil
}

// Registries returns registry clients with the settings from the flags and from base, as Access does.
func (r *Registry) Registries(base store.Access) (*store.Registries, error) {
	access, err := r.Access(base)
	if err != nil {
		return nil, err
	}
	return store.NewRegistries(access)
}

// Open returns the store at the location, and clients for other registries. It does not send requests. Errors name the
// flag that contains the location. The clients use the settings from the flags and from base, as Access does.
func (r *Registry) Open(flag, location string, base store.Access) (store.Store, *store.Registries, error) {
	registries, err := r.Registries(base)
	if err != nil {
		return nil, nil, err
	}
	opened, err := store.Open(location, registries)
	if err != nil {
		return nil, nil, Usage(fmt.Errorf("%s: %w", flag, err))
	}
	return opened, registries, nil
}

// ReadRoot reads the root of trust from the --trust file.
func ReadRoot(path string) (trust.Root, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return trust.Root{}, Usage(fmt.Errorf("--trust: %w", err))
	}
	if bytes.HasPrefix(data, []byte("-----BEGIN ")) {
		return trust.Root{}, Usage(fmt.Errorf(
			"--trust %s: expected the root of trust, got a PEM file: use root.json from kcp-publisher keys init", path))
	}
	root, err := trust.ParseRoot(data)
	if trust.IsUnderSigned(err) {
		return trust.Root{},
			fmt.Errorf(
				"--trust %s: the root has too few signatures: use the current root.json, or complete a draft "+
					"with `kcp-publisher keys sign`: %w", path, err)
	}
	if err != nil {
		return trust.Root{}, fmt.Errorf("--trust %s: the file is not a valid root of trust, such as root.json from "+
			"kcp-publisher keys init: %w", path, err)
	}
	return root, nil
}
