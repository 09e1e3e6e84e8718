package removals

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func TestPartialApprovalReportsTheApprovedRuntimes(t *testing.T) {
	scheme, err := controlplane.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(time.Now().Truncate(time.Second))
	var kymas []v1beta2.Kyma
	for _, name := range []string{"berlin", "oslo", "rome"} {
		kymas = append(kymas, v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.DefaultNamespace, Name: name},
			Status: v1beta2.KymaStatus{Runtime: &v1beta2.RuntimeStatus{Removals: []v1beta2.ModuleRemoval{
				{Module: "keda", Decision: v1beta2.RemovalHeld, Time: at},
			}}},
		})
	}
	build := fake.NewClientBuilder().WithScheme(scheme)
	for i := range kymas {
		build = build.WithObjects(kymas[i].DeepCopy())
	}
	fails := true
	api := build.WithInterceptorFuncs(interceptor.Funcs{Patch: func(
		ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
	) error {
		if fails && o.GetName() == "oslo" {
			return errors.New("no permission")
		}
		return c.Patch(ctx, o, patch, options...)
	}}).Build()
	message, err := approveRemovals(t.Context(), api, controlplane.DefaultNamespace, plan.HeldRemovals(kymas)[0].ID)
	if err == nil || !strings.Contains(err.Error(), "oslo") || !strings.Contains(message, "in 2 of 3 runtimes") {
		t.Errorf("got %q, %v, want two approvals and an error about oslo", message, err)
	}
	fails = false
	message, err = approveRemovals(t.Context(), api, controlplane.DefaultNamespace, plan.HeldRemovals(kymas[1:2])[0].ID)
	if err != nil || message != "approved removals in 1 runtimes" {
		t.Errorf("got %q, %v, want one approval", message, err)
	}
}
