package published

import (
	"context"
	"errors"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// BundleSource returns a source that reads bundles from the registry at location and verifies them with a root of
// trust. flag is the name of the flag that contains the location, for error messages.
func BundleSource(
	ctx context.Context, registry *cli.Registry, flag, location, root string,
) (options export.Options, err error) {
	options.Place, options.Registries, err = registry.Open(flag, location,
		store.Access{RequestTimeout: cli.TransferTimeout})
	if err != nil {
		return options, err
	}
	pinned, err := cli.ReadRoot(root)
	if err != nil {
		return options, err
	}
	newest, refusal, _, err := store.FollowRoot(ctx, options.Place, pinned)
	if refusal != nil {
		err = errors.Join(err, fmt.Errorf("root of trust version %d: %w", newest.Version+1, refusal))
	}
	options.Keys = publish.Keys{Root: newest, FormerRoots: []trust.Root{pinned}}
	return options, err
}
