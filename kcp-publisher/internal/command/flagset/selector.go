package flagset

import (
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// NewShare returns a share with the Kymas that match the value of --watch-label-selector.
func NewShare(selector string) (shard.Share, error) {
	kymas, err := cli.ParseSelector("--watch-label-selector", selector)
	if err != nil {
		return shard.Share{}, err
	}
	return shard.Share{Selector: kymas}, nil
}
