package flagset

import (
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// NewShare returns the share of the fleet that --watch-label-selector selects.
func NewShare(selector string) (shard.Share, error) {
	kymas, err := cli.ParseSelector("--watch-label-selector", selector)
	if err != nil {
		return shard.Share{}, err
	}
	return shard.Share{Selector: kymas}, nil
}
