package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// blockTrain adds a channel that the module does not use, and waits until `train status` and an Event report the
// blocked version.
func blockTrain(t *testing.T, f *fleet.Fleet) {
	changeTrain(t, f, func(spec *v1alpha1.PromotionPolicySpec) {
		spec.Channels[2].After = &metav1.Duration{Duration: minChannelTime}
		spec.Channels = append(spec.Channels, v1alpha1.TrainChannel{Name: "later"})
	})
	untilTrain(t, f, "regular", "1.8.0", v1alpha1.WaitChannelMissing, "")
	if status := ask(t, f, "status"); !strings.Contains(status,
		"train train: module scaler 1.8.0 in channel regular") ||
		!strings.Contains(status, "kcp-publisher train status train") {
		t.Errorf("unexpected status output:\n%s", status)
	}
	until(t, time.Minute, "an Event reports the blocked promotion", func() (bool, string) {
		var all eventsv1.EventList
		if err := f.Control.List(t.Context(), &all, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		var notes []string
		for _, e := range all.Items {
			if e.Reason == v1alpha1.PolicyPromotionBlocked {
				notes = append(notes, e.Type+" "+e.Note)
			}
		}
		return len(notes) == 1 &&
				strings.HasPrefix(notes[0], "Warning module scaler, version 1.8.0, channel regular: ChannelMissing: "),
			fmt.Sprint(notes)
	})
}
