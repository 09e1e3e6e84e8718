package scenario

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// The test sends the dashboard's JSON patches, which set a module's channel and version. Then it replaces the whole
// Kyma as Kyma's CLI does, which drops fields that the CLI does not define.
func TestAdminWorksWithTheKymaDashboard(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{
		PublisherFlags: []string{"--kyma-labels=" + v1beta2.LabelGlobalAccountID + "," + v1beta2.LabelSubaccountID},
	})
	must(t, f.Offer(ctx, sample.Scaler("1.9.0"), sample.Scaler("1.10.0"), sample.Scaler("1.11.0")))
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	patch := func(patch string) {
		t.Helper()
		kyma, err := r.Kyma(ctx)
		must(t, err)
		must(t, r.API.Patch(ctx, kyma, client.RawPatch(types.JSONPatchType, []byte(patch))))
	}

	account := func(labels string, want map[string]string) {
		t.Helper()
		record, err := r.Record(ctx)
		must(t, err)
		must(t, f.Control.Patch(ctx, record,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`))))
		until(t, 40*time.Second, "the runtime's Kyma has the dashboard's labels", func() (bool, string) {
			kyma, err := r.Kyma(ctx)
			if err != nil {
				return false, err.Error()
			}
			seen := map[string]string{}
			for _, key := range []string{v1beta2.LabelGlobalAccountID, v1beta2.LabelSubaccountID, v1beta2.LabelBeta,
				v1beta2.LabelRegion} {
				if value, is := kyma.Labels[key]; is {
					seen[key] = value
				}
			}
			return maps.Equal(seen, want), fmt.Sprint(kyma.Labels)
		})
	}
	account(
		`{"kyma-project.io/global-account-id":"g","kyma-project.io/subaccount-id":"s","kyma-project.io/region":"r","operator.kyma-project.io/beta":"true"}`,
		map[string]string{
			v1beta2.LabelGlobalAccountID: "g", v1beta2.LabelSubaccountID: "s", v1beta2.LabelBeta: v1beta2.True,
		})
	account(`{"kyma-project.io/subaccount-id":null,"operator.kyma-project.io/beta":null}`,
		map[string]string{v1beta2.LabelGlobalAccountID: "g"})

	patch(`[{"op":"add","path":"/spec/modules/0/channel","value":"fast"},{"op":"add","path":"/spec/modules/0/version","value":"1.8.0"}]`)
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	promote(t, f, "1.9.0")
	must(t, r.UntilState(ctx, "scaler", "1.9.0", v1beta2.StateReady))
	patch(`[{"op":"add","path":"/spec/modules/1","value":{"name":"mailer","channel":"fast","version":"1.0.0","managed":true,"customResourcePolicy":"CreateAndDelete"}}]`)
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	patch(`[{"op":"test","path":"/spec/modules/0/name","value":"scaler"},{"op":"remove","path":"/spec/modules/0/channel"}]`)
	promote(t, f, "1.10.0")
	must(t, r.UntilState(ctx, "scaler", "1.10.0", v1beta2.StateReady))

	patch(`[{"op":"add","path":"/metadata/annotations","value":{"kyma-pull.dev/pinned-versions":"scaler=1.10.0"}}]`)
	until(t, 40*time.Second, "the control plane records the pinned version", func() (bool, string) {
		record, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		requested := record.Status.Runtime.Requested
		return requested != nil && requested.Spec.Modules[0].Pin() == "1.10.0", fmt.Sprintf("%+v", requested)
	})
	must(t, f.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.11.0"),
		sample.Channel("fast", "1.11.0")))
	kyma, err := r.Kyma(ctx)
	must(t, err)
	change(t, r.API, kyma, func(kyma *v1beta2.Kyma) {
		for i := range kyma.Spec.Modules {
			kyma.Spec.Modules[i].Version = "" // the CLI drops this field
		}
		kyma.Spec.Modules = kyma.Spec.Modules[:1]
	})
	must(t, r.UntilGone(ctx, "mailer"))
	must(t, r.UntilState(ctx, "scaler", "1.10.0", v1beta2.StateReady))

	patch(`[{"op":"replace","path":"/metadata/annotations/kyma-pull.dev~1pinned-versions","value":"scaler"}]`)
	for side, read := range map[string]func() (*v1beta2.Kyma, error){
		"control plane": func() (*v1beta2.Kyma, error) { return r.Record(ctx) },
		"runtime":       func() (*v1beta2.Kyma, error) { return r.Kyma(ctx) },
	} {
		until(t, 40*time.Second, "the "+side+" reports the problem with the pins", func() (bool, string) {
			kyma, err := read()
			if err != nil {
				return false, err.Error()
			}
			synced := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionSynced)
			return kyma.Status.State == v1beta2.StateWarning && synced != nil &&
					synced.Status == metav1.ConditionFalse && synced.Reason == v1beta2.ReasonPinsUnreadable &&
					strings.Contains(synced.Message,
						`metadata.annotations[kyma-pull.dev/pinned-versions]: entry "scaler": must be MODULE=VERSION`),
				fmt.Sprintf("%+v", kyma.Status)
		})
	}
	must(t, r.UntilState(ctx, "scaler", "1.10.0", v1beta2.StateReady))
	patch(`[{"op":"remove","path":"/metadata/annotations/kyma-pull.dev~1pinned-versions"}]`)
	must(t, r.UntilState(ctx, "scaler", "1.11.0", v1beta2.StateReady))
}
