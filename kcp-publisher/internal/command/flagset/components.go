// Package flagset contains groups of flags that several commands share, and the values that they select.
package flagset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/archive"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/cache"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/signature"
)

// ComponentFlags selects the sources, cache and signature policy of OCM components.
type ComponentFlags struct {
	sources          []string
	helmRepositories []string
	cacheDir         string
	cacheSize        string
	Policy           string
}

// Add adds the flags.
func (f *ComponentFlags) Add(flags, settings *pflag.FlagSet) {
	flags.StringArrayVar(&f.sources, "components", nil,
		"registry path, or common transport archive as a folder, tar or tgz, with OCM components; can be repeated")
	flags.StringArrayVar(&f.helmRepositories, "helm-repositories", nil,
		"URL prefix of Helm repositories that component charts can come from; can be repeated")
	flags.StringVar(&f.cacheDir, "component-cache", "", "folder that caches components across restarts")
	settings.StringVar(&f.cacheSize, "component-cache-size", "2Gi", "maximum size of the component cache")
	flags.StringVar(&f.Policy, "signature-policy", "",
		"file with the signature policy: components that must be signed, and their signers; default: no signatures "+
			"required")
	cli.RequireValues(flags, "signature-policy")
}

// OpenedComponents contains the reader and the verifier for the components in opened sources.
type OpenedComponents struct {
	Reader   *component.Reader
	Verifier *signature.Verifier
	archives []*archive.Archive
}

// SignatureFilter returns a function that reports whether a component must be signed, or nil without a signature
// policy.
func (c *OpenedComponents) SignatureFilter() func(string) bool {
	if c.Verifier == nil {
		return nil
	}
	return c.Verifier.RequiresSignature
}

// Close closes the archives.
func (c *OpenedComponents) Close() error {
	var problems []error
	for _, a := range c.archives {
		problems = append(problems, a.Close())
	}
	return errors.Join(problems...)
}

// Open opens the sources in --components and the additional archives. It adds the flags' values to the reader's
// options.
func (f *ComponentFlags) Open(options component.Options, archives []string) (*OpenedComponents, error) {
	opened := &OpenedComponents{}
	options.HelmRepositories = f.helmRepositories
	for _, name := range append(append([]string{}, f.sources...), archives...) {
		source, err := opened.source(name, options.Registries)
		if err != nil {
			return nil, errors.Join(err, opened.Close())
		}
		options.Sources = append(options.Sources, source)
	}
	if f.cacheDir != "" {
		size, err := resource.ParseQuantity(f.cacheSize)
		if err != nil || size.Value() <= 0 {
			return nil,
				errors.Join(cli.Usage(fmt.Errorf("component-cache-size %q: must be a size such as 2Gi", f.cacheSize)),
					opened.Close())
		}
		kept, err := cache.Open(f.cacheDir, size.Value())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--component-cache: %w", err), opened.Close())
		}
		options.Cached, options.Pins = kept.Wrap, kept
	}
	if f.Policy != "" {
		policy, err := signature.ReadPolicy(f.Policy)
		if err != nil {
			return nil, errors.Join(cli.Usage(fmt.Errorf("--signature-policy: %w", err)), opened.Close())
		}
		opened.Verifier = signature.NewVerifier(policy, time.Now)
		options.Check = opened.Verifier.Check
	}
	opened.Reader = component.NewReader(options)
	return opened, nil
}

// source opens one value of --components: an archive, with or without the prefix ctf:, or a registry path.
func (c *OpenedComponents) source(name string, registries *store.Registries) (component.Source, error) {
	path, isArchive := strings.CutPrefix(name, ArchiveScheme)
	_, err := os.Stat(path)
	switch {
	case err == nil:
		opened, err := archive.Open(path)
		if err != nil {
			return nil, err
		}
		c.archives = append(c.archives, opened)
		return opened, nil
	case isArchive:
		return nil, cli.Usage(fmt.Errorf("--components %s is not a folder or file", name))
	case store.LooksLikeFolder(name):
		return nil, cli.Usage(fmt.Errorf("--components %s is not a folder or file; a registry is HOST.DOMAIN/PATH or "+
			"HOST:PORT/PATH", name))
	}
	return component.Registry{Registries: registries, Prefix: filepath.ToSlash(name)}, nil
}

// ArchiveScheme is the prefix of a path to a common transport archive.
const ArchiveScheme = "ctf:"
