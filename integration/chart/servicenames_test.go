package chart

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestLongReleaseNamesGiveValidServiceNames(t *testing.T) {
	for name, r := range cases(t) {
		if r.Name != "kcp-publisher" {
			continue
		}
		for _, full := range []string{"", strings.Repeat("b", 63), strings.Repeat("b", 48) + strings.Repeat("-b", 7)} {
			r.Name, r.Values["fullnameOverride"] = strings.Repeat("a", 53), full // the longest name that Helm accepts
			services := map[string]bool{}
			objects := objectsOf(t, r)
			for _, o := range objects {
				if o.GetKind() == "Service" {
					require.Empty(t, validation.IsDNS1035Label(o.GetName()), "%s: Service %s", name, o.GetName())
					services[o.GetName()] = true
				}
			}
			for _, d := range deployments(t, objects) {
				for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
					if service, ok := strings.CutPrefix(arg, "--webhook-service="+r.Namespace+"/"); ok {
						require.Contains(t, services, strings.TrimSuffix(service, ":443"), name)
					}
				}
			}
		}
	}
}

func TestInvalidServiceNamesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, full string }{{"kcp-publisher", "a.b"}, {"kcp-publisher", "1a"}, {"a.b", ""}} {
		r := release(t, "kcp-publisher", map[string]any{"location": "registry.example/fleet",
			"keys": map[string]any{"secretName": "keys"}, "fullnameOverride": c.full})
		r.Name = c.name
		_, err := r.Render()
		require.ErrorContains(t, err, "is not valid for Services", "%+v", c)
	}
}
