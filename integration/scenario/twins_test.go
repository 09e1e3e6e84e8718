package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTwoKymasCannotUseTheSameRuntime(t *testing.T) {
	suite.Long(t) // the short suite runs TestDuplicateKymaNamesAcrossNamespacesOwnNoRuntime
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"mailer": "1.0.0"})
	untilQuiet(t, f)
	before, err := r.Desired(ctx)
	must(t, err)
	twin := fleet.NewKyma(f.Own("twin"), "regular", f.Own("scaler"))
	twin.Labels[v1beta2.LabelRuntimeID] = r.ID
	must(t, f.CreateKyma(ctx, twin))
	until(t, 20*time.Second, "the younger Kyma reports the owner of the runtime", func() (bool, string) {
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(twin), twin)
		for _, c := range twin.Status.Conditions {
			if c.Type == v1beta2.ConditionReady && strings.Contains(c.Message,
				"already belongs to Kyma kcp-system/"+r.ID) {
				return twin.Status.State == v1beta2.StateError, string(twin.Status.State)
			}
		}
		return false, fmt.Sprint(err, twin.Status.Conditions)
	})
	after, err := r.Desired(ctx)
	must(t, err)
	if after.Descriptor.Digest != before.Descriptor.Digest {
		t.Error("the younger Kyma changed the runtime's bundle")
	}
}
