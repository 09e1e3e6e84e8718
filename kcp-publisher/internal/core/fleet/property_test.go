package fleet

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// randomKyma returns a Kyma with random conditions and modules, including combinations that the publisher never writes.
func randomKyma(r *rand.Rand) v1beta2.Kyma {
	one := func(all ...string) string { return all[r.IntN(len(all))] }
	maybe := func(n int) bool { return r.IntN(n) == 0 }
	kyma := v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{
			Name: one("one", "two"), Namespace: "kcp-system", Labels: map[string]string{},
			Annotations: map[string]string{},
		},
	}
	if maybe(2) {
		kyma.Annotations[v1beta2.AnnotationCarried] = one("true", "2160h", "soon")
	}
	if maybe(4) {
		kyma.Labels[v1beta2.LabelSkipReconciliation] = "true"
	}
	if maybe(4) {
		kyma.DeletionTimestamp = &metav1.Time{Time: noon.Add(-time.Duration(r.IntN(50)) * time.Hour)}
	}
	reasons := []string{"Ready", "NotReady", "PublishFailed", "Reported", "NeverReported", "Silent", "ReportRefused",
		"ClockBehind", "Carried", "Accepted", "Pending", "BundleRefused", "Expired",
		"StorageRefused", "BundleMissing", "BundleForeign", "NotSealed", "NotWritten", "RolledBack", "NotWatched", "",
		"Whatever"}
	for _, kind := range []string{"Ready", "Reporting", "Accepted", "Modules", "ModuleCatalog", "Registry", "Agent",
		"Synced", "Secrets", "SKRWebhook", "Other"} {
		if maybe(3) {
			continue
		}
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(one("True", "False", "Unknown")), Reason: one(reasons...),
			Message: one("", "(", "()", "refused (Revoked): x", "runtime ID x", "\x1b[2J", "its report cannot be read"),
		}
		if maybe(2) {
			c.LastTransitionTime = metav1.NewTime(noon.Add(-time.Duration(r.IntN(50)) * time.Hour))
		}
		kyma.Status.Conditions = append(kyma.Status.Conditions, c)
	}
	for _, name := range []string{"keda", "mail", "\x1b[2J"} {
		if maybe(2) {
			kyma.Status.Modules = append(kyma.Status.Modules,
				v1beta2.ModuleStatus{Name: name, Version: one("", "1.0.0", "x"), Maintenance: maybe(4),
					State:   v1beta2.State(one("", "Ready", "Processing", "Error", "Warning", "Deleting", "Unmanaged")),
					Message: one("", "x", "is unknown", "\u202e")})
		}
	}
	if maybe(4) {
		return kyma
	}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: one("", "r-1")}
	if maybe(2) {
		kyma.Status.Runtime.Published = &v1beta2.PublishedBundle{
			Sequence: 7, Time: metav1.NewTime(noon.Add(-time.Duration(r.IntN(90)) * time.Minute)),
		}
	}
	if maybe(2) {
		kyma.Status.Runtime.Observed = &v1beta2.ObservedBundle{
			Time: metav1.NewTime(noon.Add(-time.Duration(r.IntN(50)) * time.Hour)), AgentVersion: "\x1b",
		}
	}
	if maybe(4) {
		kyma.Status.Runtime.Takeover = &v1beta2.TakeoverStatus{Message: one("", "x")}
	}
	return kyma
}

func TestEveryUnhealthyKymaHasADescribedCause(t *testing.T) {
	r := rand.New(rand.NewPCG(suite.Seed(t, 1), 1))
	rollouts := NewRollouts(newWorld(t).rollout(v1alpha1.RolloutPaused).rollouts)
	for range 20_000 {
		kyma := randomKyma(r)
		got := Judge(&kyma, rollouts, noon)
		c := got.Cause
		ready := meta.IsStatusConditionTrue(kyma.Status.Conditions, v1beta2.ConditionReady)
		switch {
		case c == nil && got.Health != Healthy && (got.Health != Deleting || kyma.DeletionTimestamp.IsZero()):
			t.Fatalf("%s without a cause: %+v", got.Health, kyma)
		case c == nil && !ready:
			t.Fatalf("runtime is healthy although the Kyma is not ready: %+v", kyma)
		case c == nil:
			continue
		case byName[c.Situation] == nil || c.Advice == "":
			t.Fatalf("cause %+v has no description or advice: %+v", c, kyma)
		case got.Health != byName[c.Situation].Health && (got.Health != Deleting || kyma.DeletionTimestamp.IsZero()):
			t.Fatalf("got health %s for cause %+v, want %s", got.Health, c, byName[c.Situation].Health)
		case strings.ContainsAny(c.Message+c.Advice+got.Agent, "\x1b\u202e"):
			t.Fatalf("cause contains terminal control characters: %q", c)
		case got.Since != nil && got.Since.IsZero():
			t.Fatalf("cause %+v has a zero start time", c)
		}
	}
}
