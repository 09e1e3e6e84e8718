package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// limitedFleet is a fleet with two runtimes. The publisher allows module removals in one runtime at a time.
type limitedFleet struct {
	t    *testing.T
	f    *fleet.Fleet
	both []*fleet.Runtime
	uids []types.UID
}

// untilHeld waits until a module's removal waits for approval, for the given reason. It returns the removal's ID.
func (g *limitedFleet) untilHeld(cause, removes, reason string) (id string) {
	g.t.Helper()
	until(g.t, 30*time.Second, "the removals wait for approval: "+cause, func() (bool, string) {
		output, err := g.f.Ask(g.t.Context(), "removals", "-o", "json")
		var found struct {
			Waiting []struct {
				ID, Module, Reason string
				Runtimes           []string
			}
		}
		if err != nil || json.Unmarshal([]byte(output), &found) != nil {
			return false, fmt.Sprint(output, err)
		}
		for _, w := range found.Waiting {
			if w.Module == removes && w.Reason == reason && len(w.Runtimes) == len(g.both) {
				id = w.ID
			}
		}
		return id != "", output
	})
	for _, r := range g.both {
		until(g.t, 30*time.Second, r.ID+" reports the waiting removal: "+cause, func() (bool, string) {
			kyma, err := r.Record(g.t.Context())
			if err != nil {
				return false, err.Error()
			}
			c := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionRemovals)
			why, _ := g.f.Why(g.t.Context(), r.ID)
			return c != nil && c.Reason == v1beta2.ReasonRemovalsHeld &&
				strings.Contains(why, "removals approve"), fmt.Sprint(kyma.Status, why)
		})
	}
	g.checkUnchanged(cause)
	return id
}

// checkUnchanged checks that the module's objects were not removed or recreated.
func (g *limitedFleet) checkUnchanged(cause string) {
	g.t.Helper()
	for i, r := range g.both {
		var installed appsv1.Deployment
		must(g.t, r.API.Get(g.t.Context(), inKyma("mailer"), &installed))
		if installed.UID != g.uids[i] || !installed.DeletionTimestamp.IsZero() {
			g.t.Errorf("%s: mailer of %s was removed", cause, r.ID)
		}
	}
}

// untilNoneHeld waits until no removal is held. The caller must have undone the cause first.
func (g *limitedFleet) untilNoneHeld(cause string) {
	g.t.Helper()
	for _, r := range g.both {
		until(g.t, 30*time.Second, "no removal of "+r.ID+" waits: "+cause, func() (bool, string) {
			kyma, err := r.Record(g.t.Context())
			return err == nil && meta.IsStatusConditionTrue(kyma.Status.Conditions, v1beta2.ConditionRemovals) &&
				kyma.Status.State == v1beta2.StateReady, fmt.Sprint(err, kyma.Status)
		})
	}
	g.checkUnchanged(cause)
}

func (g *limitedFleet) edit(object client.Object, change func()) {
	g.t.Helper()
	must(g.t, g.f.Control.Get(g.t.Context(), client.ObjectKeyFromObject(object), object))
	before := object.DeepCopyObject().(client.Object)
	change()
	must(g.t, g.f.Control.Patch(g.t.Context(), object, client.MergeFrom(before)))
}

func (g *limitedFleet) labelBoth(label, value string) {
	g.t.Helper()
	for _, r := range g.both {
		kyma, err := r.Record(g.t.Context())
		must(g.t, err)
		g.edit(kyma, func() {
			if value == "" {
				delete(kyma.Labels, label)
				return
			}
			kyma.Labels[label] = value
		})
	}
}

// One after the other, several causes would remove a module from all runtimes. The publisher holds each removal until
// the cause is undone or an operator approves it.
func TestLargeRemovalsWaitForApproval(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	watch := sample.Version{
		Module:   "watchdog",
		Version:  "1.0.0",
		Manifest: strings.ReplaceAll(sample.Mailer("1.0.0").Manifest, "mailer", "watchdog"),
		Manager:  "watchdog",
	}
	must(t, f.Offer(ctx, watch))
	mandatory := sample.Release("watchdog", watch.Component())
	mandatory.Spec.Mandatory = &v1beta2.Mandatory{Version: "1.0.0"}
	must(t, f.Control.Create(ctx, mandatory))
	g := &limitedFleet{t: t, f: f}
	for _, id := range []string{"one", "two"} {
		r := runtimeWith(t, f, id, map[string]string{"mailer": "1.0.0"})
		var installed appsv1.Deployment
		must(t, r.API.Get(ctx, inKyma("mailer"), &installed))
		must(t, r.API.Get(ctx, inKyma("watchdog"), &appsv1.Deployment{}))
		g.both, g.uids = append(g.both, r), append(g.uids, installed.UID)
	}

	t.Run("hidden module is kept", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestKymasWithoutRuntimesDoNotAllowRemovals
		t.Log("One edit hides the module from all runtimes. Kymas without a runtime do not count.")
		for i := range 18 {
			must(t, f.CreateKyma(ctx, fleet.NewKyma(fmt.Sprintf("planned-%d", i), "regular")))
		}
		released := &v1beta2.ModuleReleaseMeta{}
		released.Namespace, released.Name = sample.Namespace, "mailer"
		g.edit(released, func() { released.Spec.Beta = true })
		g.untilHeld("beta", "mailer", "FleetShare")
		g.edit(released, func() { released.Spec.Beta = false })
		g.untilNoneHeld("beta")
	})

	t.Run("modules of a Kyma without requests are kept", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestRemovalsAboveLimitsWait
		t.Log("A label makes the control plane's Kyma authoritative.")
		for _, r := range g.both {
			kyma, err := r.Record(ctx)
			must(t, err)
			g.edit(kyma, func() { kyma.Spec.Modules = nil })
		}
		g.labelBoth(v1beta2.LabelSync, v1beta2.False)
		g.untilHeld("sync=false", "mailer", "FleetShare")
		g.labelBoth(v1beta2.LabelSync, "")
		g.untilNoneHeld("sync=false")
	})

	t.Log("A mandatory module is withdrawn. An operator approves only this removal.")
	must(t, f.Control.Delete(ctx, mandatory))
	id := g.untilHeld("mandatory", "watchdog", "FleetShare")
	page := blocksOf(t, "docs/guides/removals.md", 2)
	if output, err := f.Ask(ctx, "removals", "approve", "0000000000"); err == nil {
		t.Errorf("an unknown ID was approved: %s", output)
	}
	for _, block := range page {
		_, err := f.Ask(
			ctx,
			strings.Fields(strings.ReplaceAll(strings.TrimPrefix(block, "kcp-publisher "), "3f0c9a12bd", id))...)
		must(t, err)
	}
	for _, r := range g.both {
		must(t, r.UntilGone(ctx, "watchdog"))
	}
	g.untilNoneHeld("mandatory")

	t.Log("All Kymas are deleted.")
	for _, r := range g.both {
		deleteKyma(t, f, r)
	}
	id = g.untilHeld("deleted Kymas", "", "FleetShare")

	t.Log("The modules keep their version, because no rollout counts these runtimes.")
	before := map[string]int64{}
	for _, r := range g.both {
		kyma, err := r.Record(ctx)
		must(t, err)
		before[r.ID] = kyma.Status.Runtime.Published.Sequence
	}
	must(t, f.Offer(ctx, sample.Mailer("1.1.0")))
	must(t, f.Release(ctx, "mailer", sample.Mailer("1.1.0").Component(),
		v1beta2.ChannelVersion{Channel: "regular", Version: "1.1.0"}))
	for _, r := range g.both {
		until(t, 30*time.Second, r.ID+" gets a bundle with the new catalog", func() (bool, string) {
			kyma, err := r.Record(ctx)
			if err != nil || kyma.Status.Runtime.Published.Sequence == before[r.ID] {
				return false, fmt.Sprint(err, kyma)
			}
			if version := kyma.Status.Runtime.Published.Versions["mailer"]; version != "1.0.0" {
				t.Errorf("%s got mailer %s", r.ID, version)
			}
			return true, ""
		})
	}
	_, err := f.Ask(ctx, "removals", "approve", id)
	must(t, err)
	for _, r := range g.both {
		untilForgotten(t, r, time.Minute)
		untilEmpty(t, r)
	}
	untilEvent(t, f, "kcp-publisher.kyma-pull.dev", v1beta2.ReasonRemovalsHeld, "removals wait")
}
