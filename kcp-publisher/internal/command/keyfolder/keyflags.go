// Package keyfolder contains the flags for the key folder. It also prints the key files that commands write, and
// derives registry credentials from the keys.
package keyfolder

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// AddPublisherFlags adds the flags for the key folder and the publisher key.
func AddPublisherFlags(flags *pflag.FlagSet, into *keys.Folder) {
	AddFlag(flags, &into.Dir)
	flags.StringVar(&into.PublisherKey, "publisher-key", "",
		"key that signs bundles: a file, or a KMS reference SCHEME://... for a sigstore KMS plugin; default: "+
			"publisher.key in the --keys folder")
}

// AddFlag adds the flag --keys.
func AddFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "keys", "keys", "folder with the root of trust and the keys")
}

// CheckKeys checks that agents would accept bundles that are signed with these keys.
func CheckKeys(ctx context.Context, loaded publish.Keys, place store.Store) error {
	if err := loaded.CheckFit(time.Now()); err != nil {
		return err
	}
	return loaded.CheckNewest(ctx, place)
}
