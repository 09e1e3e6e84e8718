package command

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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/plan"
)

// originFlags say where published bundles are, for whoever asks where a module comes from.
type originFlags struct {
	location, trust string
	registry        cli.Registry
}

func (f *originFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.location, "location", "", "registry prefix HOST/PATH that bundles are published to; asks for the modules' origins, needs --trust")
	flags.StringVar(&f.trust, "trust", "", "root of trust, as kcp-publisher keys init wrote it")
	f.registry.AddFlags(flags)
}

// origins returns where the modules of the bundle come from that the Kyma says was published, of one module if it is named; nothing when
// nobody asks. A bundle that this fleet's keys did not sign is a *bundle.Refusal.
func (f *originFlags) origins(ctx context.Context, kyma *v1beta2.Kyma, module string) ([]bundle.Origin, error) {
	if f.location == "" && f.trust == "" {
		return nil, nil
	}
	if f.location == "" || f.trust == "" {
		return nil, cli.Usage(errors.New("--location and --trust belong together"))
	}
	pinned, err := cli.ReadRoot(f.trust)
	if err != nil {
		return nil, err
	}
	place, _, err := f.registry.Open("--location", f.location, store.Access{})
	if err != nil {
		return nil, err
	}
	id := plan.RuntimeID(kyma)
	published, err := publishedTo(ctx, place, id, kyma.Status.Runtime, pinned)
	if err != nil {
		return nil, fmt.Errorf("bundle of runtime %s: %w", id, err)
	}
	return slices.DeleteFunc(published.Origins(), func(o bundle.Origin) bool { return module != "" && o.Module != module }), nil
}

// publishedTo reads the bundle that the Kyma's status names by digest, or before there is a status, the newest.
func publishedTo(ctx context.Context, place store.Store, id string, status *v1beta2.RuntimeStatus, pinned trust.Root) (bundle.Bundle, error) {
	newest, refusal, _, err := store.FollowRoot(ctx, place, pinned)
	if err != nil {
		return bundle.Bundle{}, err
	}
	if refusal != nil {
		return bundle.Bundle{}, fmt.Errorf("root of trust version %d: %w", newest.Version+1, refusal)
	}
	reference := bundle.TagDesired
	if status != nil && status.Published != nil {
		reference = cmp.Or(status.Published.Digest, reference)
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(id))
	if err != nil {
		return bundle.Bundle{}, err
	}
	fetched, err := store.Fetch(ctx, repository, reference)
	if err != nil {
		return bundle.Bundle{}, err
	}
	verified, err := bundle.Adopt(fetched, id, newest, pinned)
	if err != nil {
		return bundle.Bundle{}, err
	}
	return store.FetchBundle(ctx, repository, verified)
}

func drawOrigins(out io.Writer, origins []bundle.Origin) {
	for i, o := range origins {
		if i == 0 {
			b := o.Bundle
			fmt.Fprintf(out, "\nbundle %s\n  sequence   %d in epoch %d, issued %s\n  signed by  %s, under root of trust version %d\n",
				b.Digest, b.Sequence, b.Epoch, b.IssuedAt.Format(time.RFC3339), b.PublisherKey, b.RootVersion)
			if b.Source != nil {
				fmt.Fprintf(out, "  source     %s\n", b.Source)
			}
		}
		fmt.Fprintf(out, "module %s %s\n", o.Module, o.Version)
		if o.Component != "" {
			fmt.Fprintf(out, "  component  %s:%s\n", o.Component, o.Version)
		}
		for _, c := range o.Content {
			fmt.Fprintf(out, "  content    %s@%s\n", c.Repository, c.Digest)
		}
	}
}
