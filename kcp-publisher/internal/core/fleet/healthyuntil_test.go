package fleet

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// rowOf returns a Kyma's row in the API server's table.
func rowOf(kyma *v1beta2.Kyma) Row {
	row := Row{
		Namespace: kyma.Namespace, Name: kyma.Name, State: string(kyma.Status.State),
		Skip: kyma.Labels[v1beta2.LabelSkipReconciliation], Channel: kyma.Status.ActiveChannel,
	}
	if r := kyma.Status.Runtime; r != nil {
		row.Runtime, row.Running = r.ID, r.Running
		if r.Published != nil {
			row.Published = strconv.FormatInt(r.Published.Sequence, 10)
		}
		if r.Observed != nil {
			row.InForce, row.Agent, row.Kubernetes = strconv.FormatInt(r.Observed.Sequence, 10),
				r.Observed.AgentVersion, r.Observed.KubernetesVersion
		}
		if r.HealthyUntil != nil {
			row.HealthyUntil = r.HealthyUntil.UTC().Format(time.RFC3339)
		}
	}
	if !kyma.DeletionTimestamp.IsZero() {
		row.Deleted = "1m"
	}
	return row
}

func setHealthyUntil(kyma *v1beta2.Kyma, now time.Time) {
	if until := HealthyUntil(kyma, now); kyma.Status.Runtime != nil && !until.IsZero() {
		kyma.Status.Runtime.HealthyUntil, kyma.Status.Runtime.Running = &metav1.Time{Time: until}, RunningModules(kyma)
	}
}

func TestTableRowMatchesKymaOfHealthyRuntime(t *testing.T) {
	w := newWorld(t).certified(24*time.Hour, 6*24*time.Hour)
	kyma := w.status()
	kyma.Status.Runtime.ID = plan.RuntimeID(kyma)
	setHealthyUntil(kyma, noon)
	got, healthy := rowOf(kyma).Healthy(noon)
	want := Judge(kyma, Rollouts{}, noon)
	if !healthy || got.ID != want.ID || got.Kyma != want.Kyma || got.Namespace != want.Namespace ||
		got.Health != want.Health || got.State != want.State || got.Reporting != want.Reporting {
		t.Errorf("got %+v, %t, want %+v", got, healthy, want)
	}
	until := kyma.Status.Runtime.HealthyUntil.Time
	if _, healthy := rowOf(kyma).Healthy(until); healthy {
		t.Error("the row is still healthy at HealthyUntil")
	}
	if r := Judge(kyma, Rollouts{}, until.Add(time.Second)); r.Health == Healthy && r.Cause == nil {
		t.Errorf("the runtime is still healthy after HealthyUntil %s", until)
	}
}

func TestIncompleteOrChangedTableRowIsNotHealthy(t *testing.T) {
	kyma := newWorld(t).status()
	kyma.Status.Runtime.ID = plan.RuntimeID(kyma)
	setHealthyUntil(kyma, noon)
	whole := rowOf(kyma)
	if _, healthy := whole.Healthy(noon); !healthy {
		t.Fatalf("the complete row is not healthy: %+v", whole)
	}
	for name, change := range map[string]func(*Row){
		"row without HealthyUntil":                        func(r *Row) { r.HealthyUntil = "" },
		"row with an invalid HealthyUntil":                func(r *Row) { r.HealthyUntil = "tomorrow" },
		"Kyma suspended after the publisher's last write": func(r *Row) { r.Skip = "true" },
		"Kyma deleted after the publisher's last write":   func(r *Row) { r.Deleted = "3s" },
		"Kyma in state Error":                             func(r *Row) { r.State = "Error" },
		"row without a runtime ID":                        func(r *Row) { r.Runtime = "" },
	} {
		row := whole
		change(&row)
		if _, healthy := row.Healthy(noon); healthy {
			t.Errorf("%s: the row is healthy", name)
		}
	}
}

// wantListed compares a runtime from a table row with the same runtime from its Kyma. free is true if MayHold returned
// false, so that rollouts cannot delay a version in the runtime.
func wantListed(t *testing.T, got, want Runtime, free bool) {
	t.Helper()
	if got.Channel != want.Channel || got.Published != want.Published || got.InForce != want.InForce ||
		got.Agent != want.Agent || got.Kubernetes != want.Kubernetes || len(got.Modules) != len(want.Modules) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i, m := range want.Modules {
		if g := got.Modules[i]; g.Name != m.Name || g.Version != m.Version || g.State != m.State {
			t.Fatalf("got %+v, want %+v", g, m)
		}
	}
	if free && want.Cause != nil {
		t.Fatalf("runtime %+v without held versions: the Kyma has cause %+v", got, want.Cause)
	}
}

// The test assesses random Kymas at random times.
func TestHealthyUntilIsNeverTooLate(t *testing.T) {
	r := rand.New(rand.NewPCG(suite.Seed(t, 1), 1))
	rollouts := NewRollouts(newWorld(t).rollout(v1alpha1.RolloutPaused).rollouts)
	healthy, lists := 0, 0
	for range 50_000 {
		kyma := randomKyma(r)
		if r.IntN(2) == 0 {
			calm(&kyma, r)
		}
		setHealthyUntil(&kyma, noon)
		if r.IntN(8) == 0 {
			kyma.Labels[v1beta2.LabelSkipReconciliation] = "true"
		}
		if r.IntN(8) == 0 {
			kyma.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		if r.IntN(8) == 0 {
			kyma.Annotations[v1beta2.AnnotationCarried] = "true"
		}
		now := noon.Add(time.Duration(r.Int64N(int64(60 * time.Hour))))
		got, is := rowOf(&kyma).Healthy(now)
		if !is {
			continue
		}
		healthy++
		want := Judge(&kyma, rollouts, now)
		if want.Health != Healthy || want.ID != got.ID || !want.Reporting {
			t.Fatalf("at %s the row %+v is healthy, but the Kyma is %s with cause %+v: %+v", now, rowOf(&kyma),
				want.Health, want.Cause, kyma)
		}
		if listed, is := rowOf(&kyma).RuntimeWithModules(now); is {
			lists++
			wantListed(t, listed, want, !rollouts.MayHold(&listed))
		}
		if want.Cause != nil && want.Cause.Situation != RolloutPaused {
			t.Fatalf("at %s the row %+v is healthy, but the Kyma has cause %+v", now, rowOf(&kyma), want.Cause)
		}
	}
	if healthy < 100 || lists < 100 {
		t.Errorf("got %d healthy and %d listed runtimes, want at least 100 of each", healthy, lists)
	}
}

// calm removes most problems from a Kyma, so that its health can depend on the time.
func calm(kyma *v1beta2.Kyma, r *rand.Rand) {
	kyma.Status.State, kyma.DeletionTimestamp = v1beta2.StateReady, nil
	delete(kyma.Labels, v1beta2.LabelSkipReconciliation)
	kyma.Status.Conditions = nil
	for _, kind := range []string{v1beta2.ConditionReady, v1beta2.ConditionReporting, v1beta2.ConditionModules} {
		kyma.Status.Conditions = append(kyma.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Ready",
		})
	}
	if r.IntN(4) == 0 {
		kyma.Status.Conditions = append(kyma.Status.Conditions, metav1.Condition{
			Type: v1beta2.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "Pending",
		})
	}
	versions := map[string]string{}
	for i := range kyma.Status.Modules {
		m := &kyma.Status.Modules[i]
		m.State, m.Maintenance, versions[m.Name] = []v1beta2.State{v1beta2.StateReady, v1beta2.StateReady,
			v1beta2.StateUnmanaged}[r.IntN(3)], false, m.Version
	}
	kyma.Status.ActiveChannel = "regular"
	reportedAt := metav1.NewTime(noon.Add(-time.Duration(r.IntN(30)) * time.Hour))
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		ID: plan.RuntimeID(kyma), Observed: &v1beta2.ObservedBundle{Time: reportedAt, Heard: &reportedAt},
	}
	if r.IntN(2) == 0 {
		published := noon.Add(-time.Duration(r.IntN(90)) * time.Minute)
		kyma.Status.Runtime.Published = &v1beta2.PublishedBundle{
			Sequence: 7, Time: metav1.NewTime(published), Versions: versions,
		}
		for _, name := range []string{"keda", "mail"} {
			kyma.Spec.Modules = append(kyma.Spec.Modules, v1beta2.Module{Name: name, Managed: r.IntN(4) > 0})
		}
		if r.IntN(2) == 0 {
			kyma.Status.Runtime.Published.Certificate = &v1beta2.CertificateLife{
				NotBefore: metav1.NewTime(noon.Add(-24 * time.Hour)),
				NotAfter:  metav1.NewTime(noon.Add(time.Duration(r.IntN(72)) * time.Hour))}
		}
	}
}
