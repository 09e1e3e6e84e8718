package scenario

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// earlier is a commit from before there were features. Its programs refuse fields that they do not know, and know nothing of takeovers, a Secret to
// pull images with, and labels of kyma-system.
const earlier = "414502e1970ae67cac9d25a05dd5535a7b945a6f"

// untilUnderstood waits until the control plane says whether the agent understands all of its bundle.
func untilUnderstood(t *testing.T, r *fleet.Runtime, status metav1.ConditionStatus, reason string) {
	t.Helper()
	until(t, 90*time.Second, "condition Features is "+reason, func() (bool, string) {
		record, err := r.Record(t.Context())
		must(t, err)
		c := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionFeatures)
		return c != nil && c.Status == status && c.Reason == reason, fmt.Sprint(record.Status.Conditions)
	})
}

// untilLabeled waits until kyma-system has the label for sidecars, or not.
func untilLabeled(t *testing.T, r *fleet.Runtime, want string) {
	t.Helper()
	until(t, 60*time.Second, "kyma-system has istio-injection="+want, func() (bool, string) {
		var namespace corev1.Namespace
		must(t, r.API.Get(t.Context(), client.ObjectKey{Name: v1beta2.RuntimeNamespace}, &namespace))
		return namespace.Labels["istio-injection"] == want, fmt.Sprint(namespace.Labels)
	})
}

func TestProgramsOfAnEarlierVersionWorkWithThoseOfToday(t *testing.T) {
	before, err := fleet.BuildAt(t.Context(), earlier)
	if errors.Is(err, fleet.ErrNoHistory) {
		t.Skipf("needs the repository's history: git fetch --unshallow: %v", err)
	}
	must(t, err)
	today, err := fleet.Build()
	must(t, err)
	const label = "--runtime-namespace-label=istio-injection=enabled"
	f := newFleet(t, fleet.Options{PublisherFlags: []string{label}})

	// The publisher is newer: its first bundle, written before the agent reported, has a setting that the agent refuses. The next one does without.
	f.Use(fleet.Binaries{Agent: before.Agent})
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	untilUnderstood(t, berlin, metav1.ConditionFalse, v1beta2.ReasonAgentOutdated)
	output, err := f.Why(t.Context(), "berlin")
	must(t, err)
	if !strings.Contains(output, "the agent is too old for namespace-labels") {
		t.Errorf("why says:\n%s", output)
	}
	promote(t, f, "1.8.0")
	must(t, berlin.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))
	untilLabeled(t, berlin, "")

	// The agent is upgraded, and gets what was left out.
	f.Use(fleet.Binaries{Agent: today.Agent})
	berlin.Agent().Stop()
	must(t, berlin.StartAgent())
	untilUnderstood(t, berlin, metav1.ConditionTrue, v1beta2.ReasonUnderstood)
	untilLabeled(t, berlin, "enabled")

	// The agent is newer: an earlier publisher reads its reports, and installs, upgrades and removes.
	f.Use(fleet.Binaries{Publisher: before.Publisher})
	must(t, f.RestartPublisher())
	must(t, berlin.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete})
	}))
	must(t, berlin.UntilState(t.Context(), "mailer", "1.0.0", v1beta2.StateReady))

	// The agent goes back as well, to a bundle that it can read, and the publisher comes again.
	f.Use(fleet.Binaries{Agent: before.Agent})
	berlin.Agent().Stop()
	must(t, berlin.StartAgent())
	must(t, berlin.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[:1] }))
	must(t, berlin.UntilGone(t.Context(), "mailer"))
	f.Use(fleet.Binaries{Publisher: today.Publisher})
	must(t, f.RestartPublisher(label))
	untilUnderstood(t, berlin, metav1.ConditionFalse, v1beta2.ReasonAgentOutdated)
	must(t, berlin.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))
}
