package fleetstate

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func kymaOf(name, uid, runtime string) *v1beta2.Kyma {
	return &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kcp-system", Name: name, UID: types.UID(uid),
		Labels: map[string]string{v1beta2.LabelRuntimeID: runtime},
	}}
}

func TestReconcileIsSkippedOnlyForUnchangedInput(t *testing.T) {
	basis := ReconcileInput{Version: "1", View: &plan.View{}, AllChanges: 1, Report: "sha256:a"}
	settled := SettledReconcile{basis, noon.Add(time.Minute)}
	for name, c := range map[string]struct {
		change func(*ReconcileInput)
		at     time.Time
		want   bool
	}{
		"unchanged input": {func(*ReconcileInput) {}, noon, true},
		"time until the next required reconcile has passed": {func(*ReconcileInput) {}, noon.Add(time.Minute), false},
		"changed Kyma":             {func(b *ReconcileInput) { b.Version = "2" }, noon, false},
		"changed catalog or gates": {func(b *ReconcileInput) { b.View = &plan.View{} }, noon, false},
		"new commit":               {func(b *ReconcileInput) { b.Source = &bundle.Source{} }, noon, false},
		"change for all Kymas":     {func(b *ReconcileInput) { b.AllChanges++ }, noon, false},
		"change for this Kyma":     {func(b *ReconcileInput) { b.OwnChanges++ }, noon, false},
		"changed report":           {func(b *ReconcileInput) { b.Report = "sha256:b" }, noon, false},
	} {
		next := basis
		if c.change(&next); settled.IsValid(next, c.at) != c.want {
			t.Errorf("%s: the pass is settled: %t, want %t", name, !c.want, c.want)
		}
	}
	if (SettledReconcile{}).IsValid(ReconcileInput{}, noon) {
		t.Error("an empty basis is settled before the first pass")
	}
}

func TestWorkIsPendingUntilABundleIsPublished(t *testing.T) {
	var p PendingWork
	p.Add(noon)
	p.take()
	p.Add(noon.Add(time.Minute)) // the reconcile failed
	if !p.IsNext || !p.Since.Equal(noon) {
		t.Errorf("after a failed pass: got %+v, want pending since the first change", p)
	}
	p.take()
	p.Add(noon.Add(time.Minute)) // requested again during the reconcile
	p.finish(noon.Add(2 * time.Minute))
	if !p.IsNext || !p.Since.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("after a request during the pass: got %+v, want pending since the end of the pass", p)
	}
	p.take()
	p.finish(noon.Add(3 * time.Minute))
	if p != (PendingWork{}) {
		t.Errorf("after a pass without new requests: got %+v, want no pending work", p)
	}
}

// The test runs random histories. A record must always belong to one Kyma object and one runtime, and each dropped
// publish record must be released exactly once.
func TestPublishRecordIsResetWhenKymaOrRuntimeChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t, 1), 1))
	for range 200 {
		released := map[*publish.Record]int{}
		fleet := New()
		fleet.dropRecord = func(r *publish.Record) { released[r]++ }
		held := map[Key]*publish.Record{}
		identity := map[Key][2]string{}
		failing := map[Key]bool{}
		for range 100 {
			name := string(rune('a' + random.IntN(3)))
			kyma := kymaOf(name, string(rune('0'+random.IntN(2))), string(rune('r'+random.IntN(2))))
			key := Key{Namespace: kyma.Namespace, Name: kyma.Name}
			switch random.IntN(5) {
			case 0:
				fleet.Delete(key)
				if r := held[key]; r != nil && released[r] != 1 {
					t.Fatalf("a dropped record was released %d times, want 1", released[r])
				}
				delete(held, key)
				delete(identity, key)
				delete(failing, key)
			case 1:
				fleet.Edit(key, func(r *Runtime) { r.Backoff = NewBackoff(noon) })
				failing[key] = true
			case 2:
				fleet.Edit(key, func(r *Runtime) { r.Backoff = nil })
				delete(failing, key)
			default:
				now := [2]string{string(kyma.UID), plan.RuntimeID(kyma)}
				before := held[key]
				after := fleet.EditCurrent(kyma, func(r *Runtime) {
					if r.Published == nil {
						r.Published = &publish.Record{}
						r.Report.Digest = "sha256:a"
					}
				})
				if before != nil && (after.Published == before) != (identity[key] == now) {
					t.Fatalf("identity %v after %v: got the same publish record %t", now, identity[key],
						after.Published == before)
				}
				if before != nil && identity[key] != now && released[before] != 1 {
					t.Fatal("the record of another runtime was not released")
				}
				held[key], identity[key] = after.Published, now
			}
			if fleet.CountFailing() != len(failing) {
				t.Fatalf("got %d failing runtimes, want %d", fleet.CountFailing(), len(failing))
			}
		}
		for _, r := range held {
			if released[r] != 0 {
				t.Fatal("a record in use was released")
			}
		}
	}
}
