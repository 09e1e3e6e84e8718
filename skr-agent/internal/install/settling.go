package install

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
)

// isSettled reports whether the agent can skip applying an object. This process must have applied the same content
// before, and the agent's fields must be unchanged since then.
func (ap *applier) isSettled(known *memo, o *unstructured.Unstructured) bool {
	was, ok := known.settledObjects[guard.KeyOf(o)]
	if !ok || was.content != contentOf(o) {
		return false
	}
	shown, sure := ap.watches.AppliedFields(object.ResourceOf(o))
	return sure && shown == was.own
}

// recordResponse records the API server's response to an apply. It returns the agent's fields in the applied object.
func (ap *applier) recordResponse(known *memo, o, live *unstructured.Unstructured) drift.Fields {
	k := guard.KeyOf(o)
	own := ap.watches.RecordApply(k, live)
	known.setSettled(o, own)
	if known.readyVersions[k] != live.GetResourceVersion() {
		delete(known.readyVersions, k)
	}
	delete(known.cachedObjects, k)
	if readiness.HasStatus(object.ResourceOf(o)) {
		known.cacheFresh(k, live)
	}
	return own
}

// settleUnchanged marks an object as matching the content if a dry run did not change it. It ignores objects that were
// applied in the last five seconds, because times in managedFields have a resolution of one second.
func (ap *applier) settleUnchanged(known *memo, o, tried *unstructured.Unstructured) {
	own := drift.FieldsOf(tried.GetManagedFields(), ap.fieldManager)
	at, err := time.Parse(time.RFC3339, own.At)
	shown, sure := ap.watches.AppliedFields(object.ResourceOf(o))
	if err == nil && sure && shown == own && ap.now().Sub(at).Abs() > 5*time.Second {
		known.setSettled(o, own)
	}
}

// fieldsBeforeApply returns the agent's fields in the live object before an apply. It reads the object from the API
// server only if the watch for its kind may be outdated.
func (ap *applier) fieldsBeforeApply(
	ctx context.Context, a *account.Account, o *unstructured.Unstructured, p planning.Plan,
) (drift.Fields, error) {
	if p.Absent.Has(guard.KeyOf(o)) {
		return drift.Fields{}, nil
	}
	if shown, sure := ap.watches.AppliedFields(object.ResourceOf(o)); sure {
		return shown, nil
	}
	live, err := a.Metadata(ctx, object.ResourceOf(o))
	if live == nil || err != nil {
		if account.IsUnconverted(err) {
			err = nil // ignore it, because applying the object returns it too
		}
		return drift.Fields{}, err
	}
	return drift.FieldsOf(live.ManagedFields, ap.fieldManager), nil
}
