package bundle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// RequestDigest returns the digest of the modules and channel that a Kyma's spec requests. Specs that differ only in
// the order of modules or in explicit default values have the same digest.
func RequestDigest(spec v1beta2.KymaSpec) digest.Digest {
	spec.Modules = slices.Clone(spec.Modules)
	for i := range spec.Modules {
		spec.Modules[i].CustomResourcePolicy = cmp.Or(spec.Modules[i].CustomResourcePolicy,
			v1beta2.PolicyCreateAndDelete)
	}
	slices.SortStableFunc(spec.Modules, func(a, b v1beta2.Module) int { return strings.Compare(a.Name, b.Name) })
	if len(spec.Modules) == 0 {
		spec.Modules = nil
	}
	data, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("the spec of a Kyma always encodes: %v", err)) // all fields always encode
	}
	return digest.FromBytes(data)
}

// IsBuiltFor reports whether the bundle was built for the current spec of the runtime's Kyma. It compares the spec with
// KymaSpec if the statement contains KymaSpec. Otherwise, it compares the generation with KymaGeneration.
func (p Predicate) IsBuiltFor(spec v1beta2.KymaSpec, generation int64) bool {
	if p.KymaSpec != "" {
		return p.KymaSpec == RequestDigest(spec)
	}
	return p.KymaGeneration == generation
}

// AllowsRollback reports whether the statement allows the agent to replace the installed version of a module with an
// older version.
func (p Predicate) AllowsRollback(module, installed, target string) bool {
	return slices.ContainsFunc(p.Rollback, func(r Rollback) bool {
		return r.Module == module && r.To == target && !IsOlder(r.From, installed)
	})
}
