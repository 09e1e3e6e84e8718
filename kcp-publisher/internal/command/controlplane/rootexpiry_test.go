package controlplane

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestRootExpiryIsReadFromPublisherLeasesOnly(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	end := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	earlier := end.AddDate(0, -1, 0)
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for name, note := range map[string]fleet.RootNote{
		controller.LeaseName:                              {Epoch: 1, Version: 2, Expires: end, Fleet: "north"},
		manager.Identity(controller.LeaseName, "shard=a"): {Epoch: 1, Version: 1, Expires: earlier, Fleet: "north"},
		controller.LeaseName + "x":                        {Epoch: 9, Version: 9, Expires: earlier, Fleet: "south"},
		controller.LeaseName + "-shard-0":                 {Epoch: 9, Version: 9, Expires: earlier, Fleet: "south"},
		controller.LeaseName + "-0123456789":              {Epoch: 9, Version: 9, Expires: earlier, Fleet: "south"},
	} {
		builder.WithObjects(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kcp-system", Name: name, Annotations: map[string]string{
					v1beta2.AnnotationRootOfTrust: note.String(),
				},
			},
		})
	}
	if got, err := rootExpires(t.Context(), builder.Build(), "kcp-system"); err != nil || !got.Equal(end) {
		t.Errorf("got expiry %s, %v, want %s", got, err, end)
	}
}
