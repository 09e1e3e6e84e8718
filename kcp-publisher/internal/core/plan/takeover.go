package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// TakeoverPhase returns the phase of a Kyma's takeover from lifecycle-manager, empty for none. A deleted Kyma has none.
func TakeoverPhase(kyma *v1beta2.Kyma) (bundle.TakeoverPhase, error) {
	if kyma.Labels[v1beta2.LabelTakeover] != v1beta2.TakeoverActive || !kyma.DeletionTimestamp.IsZero() {
		return "", nil
	}
	switch phase := bundle.TakeoverPhase(cmp.Or(kyma.Annotations[v1beta2.AnnotationTakeoverPhase], string(bundle.TakeoverAdopt))); phase {
	case bundle.TakeoverAdopt, bundle.TakeoverClean, bundle.TakeoverRelease:
		return phase, nil
	default:
		return "", reason.Errorf(
			reason.AnnotationInvalid,
			"annotation %s: %q: want %s, %s or %s",
			v1beta2.AnnotationTakeoverPhase,
			bundle.Bounded(string(phase), bundle.MaxMessageBytes),
			bundle.TakeoverAdopt,
			bundle.TakeoverClean,
			bundle.TakeoverRelease,
		)
	}
}

// takeOver completes a request during a takeover. While the current request of the runtime's own Kyma is unknown, the
// runtime keeps its modules: the control plane's Kyma has the initial request, which can be years old, and a report
// from before an aborted takeover has an old request.
func takeOver(request *resolve.Request, kyma *v1beta2.Kyma) error {
	phase, err := TakeoverPhase(kyma)
	if phase == "" || err != nil {
		return err
	}
	request.Takeover = phase
	s := kyma.Status.Runtime
	if s == nil || s.Takeover == nil {
		return fmt.Errorf(
			"label %s: it is not known yet what lifecycle-manager installed: only `kcp-publisher run` takes over",
			v1beta2.LabelTakeover,
		)
	}
	if phase == bundle.TakeoverRelease {
		return nil
	}
	if (s.Requested == nil || !s.Takeover.Heard) && kyma.Labels[v1beta2.LabelSync] != v1beta2.False {
		request.Asked.Modules, request.Unheard = nil, true
		return nil
	}
	request.Inherited = inherited(s.Takeover)
	return nil
}

// inherited returns the modules that lifecycle-manager installed and that the runtime's agent has not reported as its
// own.
func inherited(status *v1beta2.TakeoverStatus) (all []resolve.Inherited) {
	for _, m := range status.Modules {
		if m.Adopted {
			continue
		}
		objects := make([]bundle.ObjectRef, 0, len(m.Objects))
		for _, o := range m.Objects {
			objects = append(
				objects,
				bundle.ObjectRef{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
			)
		}
		all = append(
			all,
			resolve.Inherited{
				Module:    m.Name,
				Channel:   m.Channel,
				Version:   m.Version,
				Unmanaged: m.Unmanaged,
				Objects:   bundle.SortObjects(objects),
			},
		)
	}
	slices.SortFunc(all, func(a, b resolve.Inherited) int { return strings.Compare(a.Module, b.Module) })
	return all
}
