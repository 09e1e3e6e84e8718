package scenario

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// An operator revokes the key that signed a bundle while an upgrade in the bundle waits for a maintenance window. The
// runtime receives the new root of trust, but no newer bundle. The upgrade must not start, even if the runtime's admin
// schedules it.
func TestOperatorRevokesKeyWhileUpgradeWaitsForWindow(t *testing.T) {
	ctx := t.Context()
	f := startFleetWithWindows(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	stolen := thumbprintOf(t, publisherKey(t, f))
	amend(t, f, r, func(k *v1beta2.Kyma) {
		k.Annotations = map[string]string{v1beta2.AnnotationEarlyUpgrades: v1beta2.True}
	})
	promote(t, f, "2.0.0")
	untilWaiting(t, r, "scaler", "1.7.0", v1beta2.AnnotationUpgradeAt)

	f.Publisher().Stop()
	changeKeys(t, f, "rotate", "publisher")
	roots := []trust.Root{rootOf(t, f)}
	changeKeys(t, f, "revoke", stolen)
	for _, root := range append(roots, rootOf(t, f)) {
		must(t, store.PushRoot(ctx, f.Place, root))
	}
	untilFrozen := func(what string) {
		t.Helper()
		until(t, time.Minute, what, func() (bool, string) {
			own, err := r.Kyma(ctx)
			if err != nil {
				return false, err.Error()
			}
			m := moduleOf(own, "scaler")
			return m.Maintenance && m.Version == "1.7.0" && strings.Contains(m.Message,
				"root of trust version 3 does not list key "+trust.ShortThumbprint(stolen)), m.Message
		})
	}
	untilFrozen("the runtime reports that the bundle's key was revoked")

	own, err := r.Kyma(ctx)
	must(t, err)
	before := own.DeepCopy()
	own.Annotations = map[string]string{v1beta2.AnnotationUpgradeAt: time.Now().UTC().Format(time.RFC3339)}
	must(t, r.API.Patch(ctx, own, client.MergeFrom(before)))
	must(t, r.CrashAgent()) // the agent reads the state and the Kyma again
	config, err := settings(ctx, r)
	must(t, err)
	must(t, r.API.Delete(ctx, config))
	until(t, fleet.LongTimeout, "the agent still corrects drift", func() (bool, string) {
		config, err := settings(ctx, r)
		return err == nil && config.Data["version"] == "1.7.0", config.Data["version"]
	})
	untilFrozen("the upgrade does not start at the chosen time")
	if version := installedVersion(t, r, "scaler"); version != "1.7.0" {
		t.Errorf("the module has version %s from a bundle with a revoked key", version)
	}

	must(t, f.StartPublisher())
	must(t, r.UntilState(ctx, "scaler", "2.0.0", v1beta2.StateReady))
	untilRoot(t, r, 3)
}
