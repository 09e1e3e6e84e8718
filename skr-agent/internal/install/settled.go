package install

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
)

// settled describes an object that matched the module's content when the agent last applied it. content is the hash of
// the applied content, and own identifies the agent's fields after the apply. If a watch shows other fields, the object
// does not match anymore.
type settled struct {
	content [sha256.Size]byte
	own     drift.Fields
}

func contentOf(o *unstructured.Unstructured) [sha256.Size]byte {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return [sha256.Size]byte{} // cannot happen for objects that were decoded from JSON
	}
	return sha256.Sum256(text)
}

// isSettled reports whether the agent can skip applying an object. This process must have applied the same content
// before, and the agent's fields must be unchanged since then.
func (i *Installer) isSettled(known *memo, o *unstructured.Unstructured) bool {
	was, ok := known.settled[guard.KeyOf(o)]
	if !ok || was.content != contentOf(o) {
		return false
	}
	shown, sure := i.watches.AppliedFields(object.ResourceOf(o))
	return sure && shown == was.own
}

// settle records the API server's response to an apply. It returns the agent's fields in the applied object.
func (i *Installer) settle(known *memo, o, live *unstructured.Unstructured) drift.Fields {
	k := guard.KeyOf(o)
	own := i.watches.RecordApply(k, live)
	known.settleAs(o, own)
	if known.ready[k] != live.GetResourceVersion() {
		delete(known.ready, k)
	}
	delete(known.objects, k)
	if readiness.HasStatus(object.ResourceOf(o)) {
		known.keepFresh(k, live)
	}
	return own
}

func (k *memo) settleAs(o *unstructured.Unstructured, own drift.Fields) {
	if k.settled == nil {
		k.settled = map[guard.Key]settled{}
	}
	k.settled[guard.KeyOf(o)] = settled{contentOf(o), own}
}

// keepFresh stores an object from a response of the API server. The current reconciliation then need not read it again.
func (k *memo) keepFresh(of guard.Key, live *unstructured.Unstructured) {
	if k.fresh == nil {
		k.fresh = map[guard.Key]*unstructured.Unstructured{}
	}
	k.fresh[of] = live
}

// settleUnchanged marks an object as matching the content if a dry run did not change it. It ignores objects that were
// applied in the last five seconds, because times in managedFields have a resolution of one second.
func (i *Installer) settleUnchanged(known *memo, o, tried *unstructured.Unstructured) {
	own := drift.FieldsOf(tried.GetManagedFields(), i.FieldManager)
	at, err := time.Parse(time.RFC3339, own.At)
	shown, sure := i.watches.AppliedFields(object.ResourceOf(o))
	if err == nil && sure && shown == own && i.now().Sub(at).Abs() > 5*time.Second {
		known.settleAs(o, own)
	}
}

// before returns the agent's fields in the live object before an apply. It reads the object from the API server only if
// the watch of its kind may be outdated.
func (i *Installer) before(ctx context.Context, a *account.Account, o *unstructured.Unstructured, p planning.Plan) (drift.Fields, error) {
	if p.Absent.Has(guard.KeyOf(o)) {
		return drift.Fields{}, nil
	}
	if shown, sure := i.watches.AppliedFields(object.ResourceOf(o)); sure {
		return shown, nil
	}
	live, err := a.Metadata(ctx, object.ResourceOf(o))
	if live == nil || err != nil {
		if account.IsUnconverted(err) {
			err = nil // ignore it, because applying the object returns it too
		}
		return drift.Fields{}, err
	}
	return drift.FieldsOf(live.ManagedFields, i.FieldManager), nil
}
