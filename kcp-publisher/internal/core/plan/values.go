package plan

import (
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/disclosure"
)

// parseValues parses the annotation of a Kyma that contains the runtime's named values.
func parseValues(kyma *v1beta2.Kyma) (bundle.Values, error) {
	found, err := bundle.ParseValues(kyma.Annotations[v1beta2.AnnotationValues])
	if err != nil {
		return nil, reason.Errorf(reason.AnnotationInvalid, "annotation %s: %w", v1beta2.AnnotationValues, err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if secret, is := disclosure.FindSecret(found[name], name, nil); is {
			return nil,
				reason.Errorf(reason.AnnotationInvalid,
					"annotation %s: %s looks like %s, but bundles are not encrypted: use a Secret",
					v1beta2.AnnotationValues, name, secret.Resembles)
		}
	}
	return found, nil
}

// withValues adds to c the modules for which runtime values differ between two bundles, and returns the result.
func (c *Changes) withValues(before, after PublishedBundle) *Changes {
	if c == nil || maps.Equal(before.Predicate.Values, after.Predicate.Values) {
		return c
	}
	modules := slices.Clone(c.Modules)
	for _, m := range after.State.Manifests {
		was, is := before.Predicate.Values.For(m).String(), after.Predicate.Values.For(m).String()
		if was != is {
			modules = append(modules, m.Module)
		}
	}
	slices.Sort(modules)
	return &Changes{Modules: slices.Compact(modules)}
}

// ChangesSince returns the modules that differ between an earlier bundle and p. These are the modules in states, which
// differ in the desired states of both bundles, and the modules whose runtime values differ.
func (p PublishedBundle) ChangesSince(before PublishedBundle, states *Changes) *Changes {
	return states.withValues(before, p)
}
