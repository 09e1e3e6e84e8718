package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// untilWatchdogs waits until exactly these runtimes have the mandatory module.
func untilWatchdogs(t *testing.T, all []*fleet.Runtime, wanted ...bool) {
	t.Helper()
	for i, r := range all {
		until(t, time.Minute, fmt.Sprintf("%s has the mandatory module: %t", r.ID, wanted[i]), func() (bool, string) {
			var installed appsv1.Deployment
			err := r.API.Get(t.Context(), inKyma("watchdog"), &installed)
			if !apierrors.IsNotFound(err) {
				must(t, err)
			}
			return (err == nil && installed.DeletionTimestamp.IsZero()) == wanted[i], ""
		})
	}
}

// An operator makes a mandatory module optional. The canary loses the module first. During the soak time, the operator
// makes the module mandatory again, and then optional a second time. The rollout of the second removal is aborted and
// then undone.
func TestMandatoryModuleIsRemovedInWaves(t *testing.T) {
	suite.Long(t) // the short suite runs TestModuleIsRemovedFromAChannelInWaves
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	watch := sample.Version{
		Module: "watchdog", Version: "1.0.0", Manager: "watchdog",
		Manifest: strings.ReplaceAll(sample.Mailer("1.0.0").Manifest, "mailer", "watchdog"),
	}
	must(t, f.Offer(ctx, watch))
	released, mandatory := sample.Release("watchdog", watch.Component()), &v1beta2.Mandatory{Version: "1.0.0"}
	released.Spec.Mandatory = mandatory
	must(t, f.Control.Create(ctx, released))
	mark := func(mandatory *v1beta2.Mandatory) {
		t.Helper()
		before := released.DeepCopy()
		released.Spec.Mandatory, released.Spec.Channels = mandatory, nil
		if mandatory == nil {
			released.Spec.Channels = []v1beta2.ChannelVersion{{Channel: "regular", Version: "1.0.0"}}
		}
		must(t, f.Control.Patch(ctx, released, client.MergeFrom(before)))
	}
	var all []*fleet.Runtime
	for _, id := range []string{"canary", "other"} {
		r, err := f.AddRuntime(ctx, id, "regular")
		must(t, err)
		all = append(all, r)
	}
	kyma, err := all[0].Record(ctx)
	must(t, err)
	before := kyma.DeepCopy()
	metav1.SetMetaDataLabel(&kyma.ObjectMeta, "stage", "canary")
	must(t, f.Control.Patch(ctx, kyma, client.MergeFrom(before)))
	untilWatchdogs(t, all, true, true)
	must(t, f.CreatePolicy(ctx, "watchdog", stages(func(canaries, _ *v1alpha1.Wave) {
		canaries.Soak = metav1.Duration{Duration: time.Hour}
	})))
	withdraw := func(rollout string) {
		t.Helper()
		mark(nil)
		ask(t, f, "removals", "approve", untilRemovalHeld(t, f, "watchdog", len(all)))
		must(t, f.UntilRollout(ctx, rollout, "the canary soaks", func(s v1alpha1.RolloutStatus) bool {
			return len(s.Waves) == 2 && s.Waves[0].State == v1alpha1.WaveSoaking && s.Waves[0].Updated == 1
		}))
		untilWatchdogs(t, all, false, true)
	}

	withdraw("watchdog-removed-1")
	t.Log("The module is offered again during the removal.")
	mark(mandatory)
	untilWatchdogs(t, all, true, true)
	must(t, f.UntilRollout(ctx, "watchdog-removed-1", "the removal ends", func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutRolledBack || s.State == v1alpha1.RolloutSuperseded
	}))

	withdraw("watchdog-removed-2")
	t.Log("The second removal is aborted, so that both runtimes stay as they are, and then undone.")
	ask(t, f, "rollout", "abort", "watchdog-removed-2")
	must(t, f.UntilRollout(ctx, "watchdog-removed-2", "the removal stops", rolledOut(v1alpha1.RolloutStopped)))
	untilWatchdogs(t, all, false, true)
	ask(t, f, "rollout", "undo", "watchdog-removed-2")
	must(t, f.UntilRollout(ctx, "watchdog-removed-2", "the removal is undone", rolledOut(v1alpha1.RolloutRolledBack)))
	untilWatchdogs(t, all, true, true)
}
