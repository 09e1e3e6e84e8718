// Package published reads published bundles from the registry and verifies them.
package published

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Flags selects the registry and the root of trust for reading bundles.
type Flags struct {
	Location, Trust string
	Registry        cli.Registry
}

// Add adds the flags.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Location, "location", "",
		"registry prefix HOST/PATH of the bundles, to show the origins of modules; requires --trust")
	flags.StringVar(&f.Trust, "trust", "", "root of trust file from kcp-publisher keys init")
	f.Registry.AddFlags(flags)
}

// IsSet reports whether --location and --trust are set.
func (f *Flags) IsSet() (bool, error) {
	if (f.Location == "") != (f.Trust == "") {
		return false, cli.Usage(errors.New("--location and --trust: set both or neither"))
	}
	return f.Location != "", nil
}

// ReadOrigins returns the origins of one module or of all modules in the published bundle. It returns nil if --location
// is not set. The error is a *refusal.Error if the bundle's signature is invalid.
func (f *Flags) ReadOrigins(ctx context.Context, kyma *v1beta2.Kyma, module string) ([]bundle.Origin, error) {
	if asked, err := f.IsSet(); !asked {
		return nil, err
	}
	id := plan.RuntimeID(kyma)
	desired, err := f.openDesired(ctx, id)
	if err != nil {
		return nil, err
	}
	verified, err := desired.verify(ctx, publishedReference(kyma))
	if err != nil {
		return nil, fmt.Errorf("bundle of runtime %s: %w", id, desired.explainMissing(err))
	}
	published, err := store.FetchBundle(ctx, desired.repository, verified)
	if err != nil {
		return nil, fmt.Errorf("bundle of runtime %s: %w", id, err)
	}
	return slices.DeleteFunc(published.Origins(),
		func(o bundle.Origin) bool { return module != "" && o.Module != module }), nil
}

// ReadChain returns the runtime's last bundles with the results of their verification.
func (f *Flags) ReadChain(ctx context.Context, kyma *v1beta2.Kyma) (fleet.Chain, error) {
	if asked, err := f.IsSet(); !asked {
		return fleet.Chain{}, err
	}
	desired, err := f.openDesired(ctx, plan.RuntimeID(kyma))
	if err != nil {
		return fleet.Chain{}, err
	}
	newest := publishedReference(kyma)
	return fleet.ReadChain(kyma, func(digest string) (bundle.BundleIdentity, error) {
		verified, err := desired.verify(ctx, digest)
		if digest == newest {
			err = desired.explainMissing(err)
		}
		if err != nil {
			return bundle.BundleIdentity{}, fmt.Errorf("bundle %s: %w", digest, err)
		}
		return verified.Identity(), nil
	}), nil
}

type desiredBundle struct {
	repository     store.Reader
	name           string // the location and the name of the repository
	runtime        string
	newest, pinned trust.Root
}

func (f *Flags) openDesired(ctx context.Context, id string) (desiredBundle, error) {
	pinned, err := cli.ReadRoot(f.Trust)
	if err != nil {
		return desiredBundle{}, err
	}
	place, _, err := f.Registry.Open("--location", f.Location, store.Access{})
	if err != nil {
		return desiredBundle{}, err
	}
	newest, refusal, _, err := store.FollowRoot(ctx, place, pinned)
	if err != nil {
		return desiredBundle{}, fmt.Errorf("bundle of runtime %s: %w", id, err)
	}
	if refusal != nil {
		return desiredBundle{},
			fmt.Errorf("bundle of runtime %s: root of trust version %d: %w", id, newest.Version+1, refusal)
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(id))
	if err != nil {
		return desiredBundle{}, fmt.Errorf("bundle of runtime %s: %w", id, err)
	}
	return desiredBundle{repository, f.Location + "/" + bundle.DesiredRepository(id), id, newest, pinned}, nil
}

// publishedReference returns the digest of the runtime's published bundle in the Kyma's status. If the status does not
// contain a digest, it returns the tag of the latest bundle.
func publishedReference(kyma *v1beta2.Kyma) string {
	if status := kyma.Status.Runtime; status != nil && status.Published != nil {
		return cmp.Or(status.Published.Digest, bundle.TagDesired)
	}
	return bundle.TagDesired
}

func (d desiredBundle) verify(ctx context.Context, reference string) (bundle.Verified, error) {
	fetched, err := store.Fetch(ctx, d.repository, reference)
	if err != nil {
		return bundle.Verified{}, err
	}
	verified, err := bundle.Adopt(fetched, d.runtime, d.newest, d.pinned)
	if err == nil && reference != bundle.TagDesired && verified.Digest.String() != reference {
		err = fmt.Errorf("the registry returned bundle %s instead", verified.Digest)
	}
	return verified, err
}

// explainMissing returns an error with the most likely cause if the registry does not contain the published bundle. It
// returns other errors unchanged.
func (d desiredBundle) explainMissing(err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w in %s: check that --location is the location of the runtime's publisher", store.ErrNotFound,
		d.name)
}

// DrawOrigins prints the origins of modules as text.
func DrawOrigins(out io.Writer, origins []bundle.Origin) {
	for i, o := range origins {
		if i == 0 {
			b := o.Bundle
			cli.Printf(out,
				"\nbundle %s\n  sequence   %d in epoch %d, issued %s\n  signed by  %s, under root of trust version %d\n",
				b.Digest, b.Sequence, b.Epoch, b.IssuedAt.Format(time.RFC3339), b.PublisherKey, b.RootVersion)
			if b.Source != nil {
				cli.Printf(out, "  source     %s\n", b.Source)
			}
		}
		cli.Printf(out, "module %s %s\n", o.Module, o.Version)
		if o.Component != "" {
			cli.Printf(out, "  component  %s:%s\n", o.Component, o.Version)
		}
		for _, c := range o.Content {
			cli.Printf(out, "  content    %s@%s\n", c.Repository, c.Digest)
		}
	}
}
