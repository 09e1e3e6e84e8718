package publish

import (
	"context"
	"encoding/json"
	"fmt"

	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// adopt reads what lies in the registry. What no publisher of this fleet signed counts as nothing: the next bundle replaces
// it. The error is only of the registry.
func (p *Publisher) adopt(ctx context.Context, repository oras.Target, fetched bundle.Fetched, runtime string) (*Published, error) {
	keys := p.keys.Load()
	verified, err := bundle.Adopt(fetched, runtime, keys.Root, keys.Former...)
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	complete, err := bundle.FetchBundle(ctx, repository, verified)
	if bundle.RefusalOf(err) != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Published{
		Predicate: verified.Statement.Predicate, Digest: verified.Digest, State: complete.State,
		StateDigest: verified.Config.Digest, CatalogDigest: verified.Catalog.Digest,
	}, nil
}

// requestKey tells equal requests. The last state counts only where it can matter: it is what unresolved modules keep.
func requestKey(request resolve.Request, last *Published, revision, contents string) string {
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
