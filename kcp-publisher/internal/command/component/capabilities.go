package component

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/internal/render"
)

// capabilityFlags describes the runtimes for charts that use .Capabilities.
type capabilityFlags struct {
	apiVersions []string
	kubeVersion string
}

func (f *capabilityFlags) addCapabilities(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.apiVersions, "api-versions", nil,
		"further API versions and kinds of the runtimes for .Capabilities of a chart, as in helm template, such as "+
			"monitoring.coreos.com/v1; can be repeated")
	flags.StringVar(&f.kubeVersion, "kube-version", "",
		"Kubernetes version of the runtimes for .Capabilities of a chart, as in helm template; default: the version of "+
			"this program's libraries")
}

// capabilities returns the cluster capabilities for rendering: the usual ones, changed by --kube-version and extended
// by --api-versions.
func (f *capabilityFlags) capabilities() render.Capabilities {
	usual := render.UsualCapabilities(f.kubeVersion)
	usual.APIVersions = slices.Concat(usual.APIVersions, f.apiVersions)
	return usual
}
