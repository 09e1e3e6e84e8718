package scenario

import (
	"encoding/json"
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

// untilRemovalHeld waits until a module's removal from a number of runtimes waits for approval. It returns the
// removal's ID.
func untilRemovalHeld(t *testing.T, f *fleet.Fleet, module string, runtimes int) (id string) {
	t.Helper()
	until(t, time.Minute, "the removal waits for approval", func() (bool, string) {
		output, err := f.Ask(t.Context(), "removals", "-o", "json")
		var found struct {
			Waiting []struct {
				ID, Module string
				Runtimes   []string
			}
		}
		if err != nil || json.Unmarshal([]byte(output), &found) != nil {
			return false, fmt.Sprint(output, err)
		}
		for _, w := range found.Waiting {
			if w.Module == module && len(w.Runtimes) == runtimes {
				id = w.ID
			}
		}
		return id != "", output
	})
	return id
}

func hasMailer(t *testing.T, r *fleet.Runtime) bool {
	t.Helper()
	var installed appsv1.Deployment
	err := r.API.Get(t.Context(), inKyma("mailer"), &installed)
	if !apierrors.IsNotFound(err) {
		must(t, err)
	}
	return err == nil && installed.DeletionTimestamp.IsZero()
}

// removeMailerFromChannel removes module mailer from the "regular" channel, so that all runtimes lose it. It returns
// the changed ModuleReleaseMeta.
func removeMailerFromChannel(t *testing.T, f *fleet.Fleet) *v1beta2.ModuleReleaseMeta {
	t.Helper()
	released := &v1beta2.ModuleReleaseMeta{}
	must(t, f.Control.Get(t.Context(), client.ObjectKey{Namespace: sample.Namespace, Name: "mailer"}, released))
	offering := released.DeepCopy()
	metav1.SetMetaDataAnnotation(&released.ObjectMeta, v1beta2.AnnotationMissingChannel, v1beta2.MissingChannelRemove)
	released.Spec.Channels = []v1beta2.ChannelVersion{{Channel: "fast", Version: "1.0.0"}}
	must(t, f.Control.Patch(t.Context(), released, client.MergeFrom(offering)))
	return released
}

// An operator removes a module from all runtimes' channel. One approval covers the removal's whole rollout. The canary
// loses the module first, the other runtimes after the soak time, and undo restores the module in all of them.
func TestModuleIsRemovedFromAChannelInWaves(t *testing.T) {
	ctx, rollout := t.Context(), "mailer-regular-removed-1"
	const soak = 15 * time.Second
	f := newFleet(t, fleet.Options{})
	var all []*fleet.Runtime
	for _, id := range []string{"canary", "one", "two"} {
		all = append(all, runtimeWith(t, f, id, map[string]string{"mailer": "1.0.0"}))
	}
	kyma, err := all[0].Record(ctx)
	must(t, err)
	before := kyma.DeepCopy()
	kyma.Labels["stage"] = "canary"
	must(t, f.Control.Patch(ctx, kyma, client.MergeFrom(before)))
	must(t, f.CreatePolicy(ctx, "mailer", stages(func(canaries, _ *v1alpha1.Wave) {
		canaries.Soak = metav1.Duration{Duration: soak}
	})))

	t.Log("The rollout waits for one approval, and no runtime loses the module.")
	removeMailerFromChannel(t, f)
	id := untilRemovalHeld(t, f, "mailer", len(all))
	must(t, f.UntilRollout(ctx, rollout, "the rollout waits for the approval", func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutWaiting && strings.Contains(s.Message, "approval of the removal from 3 runtimes")
	}))
	for _, r := range all {
		if !hasMailer(t, r) {
			t.Errorf("%s lost the module before the approval", r.ID)
		}
	}

	t.Log("The canary loses the module, and the others keep it during the soak time.")
	ask(t, f, "removals", "approve", id)
	must(t, f.UntilRollout(ctx, rollout, "the canary soaks", func(s v1alpha1.RolloutStatus) bool {
		return len(s.Waves) == 2 && s.Waves[0].State == v1alpha1.WaveSoaking && s.Waves[0].Updated == 1
	}))
	if hasMailer(t, all[0]) {
		t.Errorf("%s has the module although it reported the removal", all[0].ID)
	}
	for _, r := range all[1:] {
		if !hasMailer(t, r) {
			t.Errorf("%s lost the module before its wave", r.ID)
		}
	}
	const held = "rollout mailer-regular-removed-1 holds the removal: wave others"
	if why, err := f.Why(ctx, "one", "mailer"); err != nil || !strings.Contains(why, held) {
		t.Errorf("why does not contain the rollout: %v\n%s", err, why)
	}
	must(t, f.UntilRollout(ctx, rollout, "the removal succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	for _, r := range all {
		if hasMailer(t, r) {
			t.Errorf("%s still has the module", r.ID)
		}
	}
	ended, err := f.Rollout(ctx, rollout)
	must(t, err)
	w := ended.Status.Waves
	if ended.Status.Updated != 3 || w[1].StartedAt.Sub(w[0].ReadyAt.Time) < soak {
		t.Errorf("got waves %+v, want the second one after the soak time of %s", w, soak)
	}

	t.Log("Undo restores the module although the channel does not contain it.")
	ask(t, f, "rollout", "undo", rollout)
	must(t, f.UntilRollout(ctx, rollout, "the removal is undone", rolledOut(v1alpha1.RolloutRolledBack)))
	for _, r := range all {
		until(t, time.Minute, r.ID+" has the module again", func() (bool, string) { return hasMailer(t, r), "" })
	}
	restored, err := f.Rollout(ctx, rollout)
	must(t, err)
	if restored.Status.Reverted != 3 {
		t.Errorf("%d runtimes were restored, want 3", restored.Status.Reverted)
	}
}

// An operator deletes the ModuleReleaseMeta of a removed module, and then undoes the removal. The rollout names the
// runtime without the module until the operator creates the ModuleReleaseMeta again.
func TestUndoneRemovalWaitsForADeletedReleaseMeta(t *testing.T) {
	suite.Long(t) // the tests of package rollout cover the decision
	ctx, rollout := t.Context(), "mailer-regular-removed-1"
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"mailer": "1.0.0"})
	must(t, f.CreatePolicy(ctx, "mailer", stages(func(canaries, _ *v1alpha1.Wave) { canaries.AllowEmpty = true })))
	released := removeMailerFromChannel(t, f)
	must(t, f.UntilRollout(ctx, rollout, "the removal succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	if hasMailer(t, r) {
		t.Fatal("the runtime still has the module")
	}

	must(t, f.Control.Delete(ctx, released))
	ask(t, f, "rollout", "undo", rollout)
	must(t, f.UntilRollout(ctx, rollout, "the rollout names the runtime and the fix", func(s v1alpha1.RolloutStatus) bool {
		return s.State != v1alpha1.RolloutRolledBack && strings.Contains(s.Message, "cannot be installed in one (") &&
			strings.Contains(s.Message, "create or correct the module's ModuleReleaseMeta")
	}))

	released.ObjectMeta = metav1.ObjectMeta{
		Namespace: released.Namespace, Name: released.Name, Annotations: released.Annotations,
	}
	must(t, f.Control.Create(ctx, released))
	must(t, f.UntilRollout(ctx, rollout, "the removal is undone", rolledOut(v1alpha1.RolloutRolledBack)))
	until(t, time.Minute, "the runtime has the module again", func() (bool, string) { return hasMailer(t, r), "" })
}
