package try

import (
	"time"

	"github.com/spf13/pflag"
)

// AddFlags adds the flags of `make try-module` that select the module.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Component, "component", "",
		"OCM component NAME, whose last part is the module's name; default: the sample module")
	flags.StringVar(&o.From, "from", "", "version to install first")
	flags.StringVar(&o.To, "to", "", "version to upgrade to")
	flags.StringSliceVar(&o.Components, "components", nil,
		"registry path, ctf:PATH, or folder of archives that has the component; may be repeated")
	flags.StringSliceVar(&o.Templates, "templates", nil, "file or folder with ModuleTemplates; may be repeated")
	flags.DurationVar(&o.ReadyWithin, "ready-within", 2*time.Minute,
		"how long one runtime may take to install or upgrade the module")
	flags.StringArrayVar(&o.RegistryFlags, "registry-flag", nil,
		"flag by which kcp-publisher reaches components, such as --registry-config=FILE; may be repeated")
}
