package cli

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// TransferTimeout bounds one request with its body where images are transferred: the largest layer over a slow line.
const TransferTimeout = 2 * time.Hour

// Registry holds the flags for access to registries.
type Registry struct {
	Config, CA string
	PlainHTTP  bool
	// BlobHosts are where registries may redirect to.
	BlobHosts []string
}

// AddFlags adds all of them.
func (r *Registry) AddFlags(flags *pflag.FlagSet) {
	r.AddConfigFlag(flags, "docker config.json with the credentials for registries")
	r.AddTLSFlags(flags)
}

// AddConfigFlag adds --registry-config alone, for commands where the credentials are somebody else's.
func (r *Registry) AddConfigFlag(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&r.Config, "registry-config", "", usage)
}

// AddTLSFlags adds the flags that say how registries are connected to.
func (r *Registry) AddTLSFlags(flags *pflag.FlagSet) {
	r.AddCAFlag(flags)
	flags.BoolVar(&r.PlainHTTP, "plain-http", false, "use plain HTTP for all registries (loopback always does)")
	flags.StringArrayVar(&r.BlobHosts, "blob-host", nil, "HOST or HOST:PORT of a storage that registries may redirect to, beside their own host; may be repeated")
}

// AddCAFlag adds --registry-ca alone.
func (r *Registry) AddCAFlag(flags *pflag.FlagSet) {
	flags.StringVar(&r.CA, "registry-ca", "", "additional CA certificates (PEM file) for registries")
}

// Access reads the files that the flags name; base has what no flag says.
func (r *Registry) Access(base store.Access) (store.Access, error) {
	access := base
	access.PlainHTTP = base.PlainHTTP || r.PlainHTTP
	access.BlobHosts = append(slices.Clone(base.BlobHosts), r.BlobHosts...)
	for _, host := range r.BlobHosts {
		if err := store.CheckBlobHost(host); err != nil {
			return access, Usage(fmt.Errorf("--blob-host %q: %w", host, err))
		}
	}
	for _, file := range []struct {
		flag, path string
		into       *[]byte
	}{{"registry-config", r.Config, &access.DockerConfig}, {"registry-ca", r.CA, &access.CA}} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return access, Usage(fmt.Errorf("--%s: %w", file.flag, err))
		}
		*file.into = data
	}
	return access, nil
}

// Registries prepares access to registries; base has what no flag says.
func (r *Registry) Registries(base store.Access) (*store.Registries, error) {
	access, err := r.Access(base)
	if err != nil {
		return nil, err
	}
	return store.NewRegistries(access)
}

// Open opens the store of a location, which flag named, and the registries beside it; base has what no flag says. It does no I/O but
// reading the flags' files.
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

// ReadRoot reads the pinned root of trust that --trust names.
func ReadRoot(path string) (trust.Root, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return trust.Root{}, Usage(fmt.Errorf("--trust: %w", err))
	}
	root, err := trust.ParseRoot(data)
	if trust.LacksSignatures(err) {
		return trust.Root{}, fmt.Errorf("--trust %s: too few root keys signed it: name the root.json that is in force, or complete a draft with `kcp-publisher keys sign`: %w", path, err)
	}
	if err != nil {
		return trust.Root{}, fmt.Errorf("--trust %s: %w", path, err)
	}
	return root, nil
}
