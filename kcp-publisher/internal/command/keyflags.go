package command

import (
	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

func publisherKeyFlags(flags *pflag.FlagSet, into *keys.Folder) {
	keysFlag(flags, &into.Dir)
	flags.StringVar(&into.PublisherKey, "publisher-key", "",
		"key that signs bundles: a file, or a KMS reference SCHEME://... for a sigstore KMS plugin; default: "+
			"publisher.key in the --keys folder")
}

func keysFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "keys", "keys", "folder with the root of trust and the keys")
}
