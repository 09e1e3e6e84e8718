package scenario

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Without Git, the publisher promotes a version by editing the ModuleReleaseMeta.
func TestTrainPromotesByEditingTheReleaseMeta(t *testing.T) {
	ctx := t.Context()
	f := startFleet(t, fleet.Options{PublisherRights: []string{"publisher.yaml", "promotions.yaml"}})
	must(t, f.Offer(ctx, sample.Scaler("1.7.0"), sample.Scaler("1.8.0")))
	threeChannels(t, f, "1.7.0", "1.7.0", "1.7.0")
	runtimes := map[string]*fleet.Simulated{}
	for _, channel := range []string{"dev", "fast"} {
		s, err := f.Simulate(ctx, fleet.NewKyma(channel+"-one", channel, "scaler"))
		must(t, err)
		runtimes[channel] = s
		untilSettled(t, s, "1.7.0")
	}
	labelVersion(t, f, "1.8.0", `"audit"`)
	policy := trainPolicy()
	policy.Spec.Channels[0].After = &metav1.Duration{Duration: time.Second}
	policy.Spec.Channels[1].After = &metav1.Duration{Duration: time.Hour}
	must(t, f.Control.Create(ctx, policy))
	threeChannels(t, f, "1.8.0", "1.7.0", "1.7.0")
	untilSettled(t, runtimes["dev"], "1.8.0")
	untilTrain(t, f, "dev", "1.8.0", v1alpha1.WaitVersionHeld, "label "+v1beta2.LabelHoldPromotion+"=audit")
	wantHistory(t, runtimes["fast"], "1.7.0")
	labelVersion(t, f, "1.8.0", "null")
	untilTrain(t, f, "dev", "1.8.0", v1alpha1.WaitPromoted, "")
	untilSettled(t, runtimes["fast"], "1.8.0")
	untilTrain(t, f, "fast", "1.8.0", v1alpha1.WaitTimeNotReached, "")
	untilPromotionEvents(t, f, "fast")
	meta := sample.Release("scaler", "")
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(meta), meta))
	want := []v1beta2.ChannelVersion{
		sample.Channel("dev", "1.8.0"), sample.Channel("fast", "1.8.0"), sample.Channel("regular", "1.7.0"),
	}
	if !slices.Equal(meta.Spec.Channels, want) {
		t.Errorf("got channels %v, want %v", meta.Spec.Channels, want)
	}
	if !slices.ContainsFunc(meta.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "kcp-publisher-train"
	}) {
		t.Errorf("the field manager of the promotion is missing in %v", meta.ManagedFields)
	}
}

// labelVersion sets the label that holds back a version on the version's ModuleTemplate. The value is JSON.
func labelVersion(t *testing.T, f *fleet.Fleet, version, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, v1beta2.LabelHoldPromotion, value)
	template := sample.Scaler(version).Template()
	must(t, f.Control.Patch(t.Context(), template, client.RawPatch("application/merge-patch+json", []byte(patch))))
}
