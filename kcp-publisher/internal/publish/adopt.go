package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// Read returns the bundle that lies in the registry for a runtime, by the newest root of trust and earlier versions of it. What no publisher of this fleet signed counts as nothing, nil:
// the next bundle replaces it. The error is only of the registry.
func Read(ctx context.Context, place store.Store, runtime string, root trust.Root, former ...trust.Root) (*plan.Published, error) {
	repository, err := place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return nil, err
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	verified, err := bundle.Adopt(fetched, runtime, root, former...)
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	complete, err := store.FetchBundle(ctx, repository, verified)
	if refusal.Of(err) != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &plan.Published{
		Predicate: verified.Statement.Predicate, Digest: verified.Digest, State: complete.State,
		StateDigest: verified.Config.Digest, CatalogDigest: verified.Catalog.Digest,
	}, nil
}

// requestKey tells equal requests. The last state counts only where it can matter: it is what unresolved modules keep.
func requestKey(request resolve.Request, last *plan.Published, revision, contents string) string {
	lastState := ""
	if last != nil {
		lastState = last.StateDigest.String()
	}
	request.Last = nil
	data, err := json.Marshal(request)
	if err != nil {
		panic(fmt.Sprintf("a request always encodes: %v", err)) // plain data, without channels, functions or cycles
	}
	return fmt.Sprintf("%s\n%s\n%s\n%s", data, lastState, revision, contents)
}
