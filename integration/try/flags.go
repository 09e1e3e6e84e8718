package try

import (
	"time"

	"github.com/spf13/pflag"
)

// AddFlags adds the flags of `make try-module` that select the module.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Component, "component", "",
		"name of the OCM component, whose last part is the module's name; empty for the sample module")
	flags.StringVar(&o.From, "from", "", "version to install first")
	flags.StringVar(&o.To, "to", "", "version to upgrade to")
	flags.StringSliceVar(&o.Components, "components", nil,
		"source of the component: registry path, ctf:PATH, or folder of archives; can be repeated")
	flags.StringSliceVar(&o.Templates, "templates", nil, "file or folder with ModuleTemplates; can be repeated")
	flags.DurationVar(&o.ReadyWithin, "ready-within", 2*time.Minute,
		"maximum time to install or upgrade the module in one runtime")
	flags.StringArrayVar(&o.RegistryFlags, "registry-flag", nil,
		"kcp-publisher flag for access to the component registry, such as --registry-config=FILE; can be repeated")
}
