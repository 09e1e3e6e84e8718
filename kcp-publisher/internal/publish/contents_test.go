package publish

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

func TestADescriptorDoesNotChooseTheRuleThatItIsCheckedBy(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	descriptor := ocm.Descriptor{Schema: ocm.SchemaV2, Name: "somebody.example/module", Version: "1.0.0", Resources: []ocm.Resource{{
		Element: ocm.Element{Name: "raw-manifest", Version: "1.0.0"}, Type: "yaml", Access: ocm.Access{Type: "none"},
	}}}
	const refusal = "only its own descriptor says which component it is"
	for name, c := range map[string]struct {
		requires    func(string) bool
		namesItself bool
		refused     bool
	}{
		"no policy":                            {nil, true, false},
		"unsigned, and named by nobody else":   {func(string) bool { return false }, true, true},
		"unsigned, and named by the catalog":   {func(string) bool { return false }, false, false},
		"to be signed, and named by none else": {func(string) bool { return true }, true, false},
	} {
		p.Requires = c.requires
		need := resolve.Need{Ref: resolve.Ref{Component: descriptor.Name, Version: descriptor.Version}, Descriptor: &descriptor, NamesItself: c.namesItself}
		_, err := p.content(t.Context(), need)
		if refused := err != nil && strings.Contains(err.Error(), refusal); refused != c.refused {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
