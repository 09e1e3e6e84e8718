package maintenance

import (
	"cmp"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// UnmanagedVersions returns the installed version of each unmanaged module, by module name. known is the previous
// call's result.
//
// An unmanaged module has no Manifest. Its version comes from known, or else from the runtime Kyma's status, or else
// from the bundle. A module that becomes managed stays in the result until it has a Manifest.
func UnmanagedVersions(
	b *bundle.Bundle, known map[string]string, kyma *v1beta2.Kyma, installed []v1beta2.Manifest,
) map[string]string {
	versions := map[string]string{}
	if b == nil {
		return versions
	}
	manifests := map[string]*v1beta2.Manifest{}
	for i := range installed {
		manifests[installed[i].Module()] = &installed[i]
	}
	for _, want := range b.State.Manifests {
		m := manifests[want.Module]
		switch {
		case m != nil && (want.Unmanaged || m.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True):
			versions[want.Module] = record.RunningVersion(m)
		case m != nil:
		case known[want.Module] != "" || statusVersion(kyma, want.Module) != "":
			versions[want.Module] = cmp.Or(known[want.Module], statusVersion(kyma, want.Module))
		case want.Unmanaged:
			versions[want.Module] = want.Version
		}
	}
	return versions
}

// statusVersion returns the version of an unmanaged module in the Kyma's status, or "" if it is unknown.
func statusVersion(kyma *v1beta2.Kyma, module string) string {
	if kyma == nil {
		return ""
	}
	for _, m := range kyma.Status.Modules {
		if m.Name == module && m.State == v1beta2.StateUnmanaged {
			return m.Version
		}
	}
	return ""
}
