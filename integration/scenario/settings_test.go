package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// The test annotates a Kyma, first without and then with the chart's settings policy.
func TestKymaAuthorCannotSelectAgentImage(t *testing.T) {
	suite.Long(t) // the short suite runs TestSettingsAreIgnoredWithoutThePolicy and TestKymaSettingsRequireTheirRBACVerb
	ctx := t.Context()
	f := newFleet(t, fleet.Options{RestrictSettings: true})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	const image = "evil.example/agent@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	annotate := func(value string) error {
		kyma := &v1beta2.Kyma{}
		must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: r.ID}, kyma))
		before := kyma.DeepCopy()
		kyma.Annotations = map[string]string{v1beta2.AnnotationAgentImage: value}
		return f.Control.Patch(ctx, kyma, client.MergeFrom(before))
	}

	t.Log("Without the policy, the publisher ignores the image and reports the annotation.")
	must(t, annotate(image))
	until(t, 90*time.Second, "an Event reports the ignored image", func() (bool, string) {
		var events corev1.EventList
		must(t, f.Control.List(ctx, &events, client.InNamespace(sample.Namespace)))
		for _, e := range events.Items {
			if e.Reason == v1beta2.ReasonSettingsIgnored && strings.Contains(e.Message, v1beta2.AnnotationAgentImage) {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d Events", len(events.Items))
	})
	untilReadyBecause(t, f, r.ID, v1beta2.StateReady, "all modules are ready")
	wantNoAttackerImage(t, f, r)

	t.Log("With the policy, an operator's image is part of the next bundle.")
	must(t, fleet.ApplyChartFile(ctx, f.Control, "kcp-publisher", "policy", "settings.yaml"))
	own := strings.Replace(image, "evil", "own", 1)
	must(t, annotate(own))
	until(t, 90*time.Second, "the image is published", func() (bool, string) {
		have := desiredState(t, f, r).Settings.Agent
		return have == own, have
	})
}
