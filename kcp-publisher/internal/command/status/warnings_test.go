package status

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestStatusWatchPrintsAllWarningsWithTheSameCause(t *testing.T) {
	blocked := func(subject, message string) fleet.Cause {
		return fleet.Cause{Situation: fleet.TrainBlocked, Subject: subject, Message: message}
	}
	before := fleet.Fleet{Time: noon, Warnings: []fleet.Cause{blocked("keda", "keda: 1 of 9 failed")}}
	now := fleet.Fleet{
		Time:     noon,
		Warnings: []fleet.Cause{blocked("keda", "keda: 2 of 9 failed"), blocked("nats", "nats: 1 of 3 failed")},
	}
	f := &statusFlags{format: "table"}
	var out bytes.Buffer
	if err := f.printNews(&out, before, now); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "warning  nats: 1 of 3 failed") || strings.Contains(got, "keda") {
		t.Errorf("after a second warning: got output %q", got)
	}
	out.Reset()
	if err := f.printNews(&out, now, before); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "warning resolved  nats: 1 of 3 failed") ||
		strings.Contains(got, "keda") {
		t.Errorf("after the second warning ended: got output %q", got)
	}
}

func TestStatusWatchReadsModuleReleaseMetasAgain(t *testing.T) {
	scheme, err := controlplane.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	meta := func(name string) *v1beta2.ModuleReleaseMeta {
		return &v1beta2.ModuleReleaseMeta{
			ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.DefaultNamespace, Name: name},
			Spec:       v1beta2.ModuleReleaseMetaSpec{ModuleName: name},
		}
	}
	policy := &v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.DefaultNamespace, Name: "careful"},
		Spec: v1alpha1.RolloutPolicySpec{Modules: []string{"nats"}, Course: v1alpha1.Course{
			Waves: []v1alpha1.Wave{{Name: "all", Percent: new(int32(100))}}}},
	}
	for name, everywhere := range map[string]bool{"one namespace": false, "all namespaces": true} {
		var broken bool
		api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(meta("keda"), policy.DeepCopy()).
			WithInterceptorFuncs(interceptor.Funcs{List: func(
				ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption,
			) error {
				if _, metas := list.(*v1beta2.ModuleReleaseMetaList); metas && broken {
					return errors.New("time-out")
				}
				return api.List(ctx, list, options...)
			}}).Build()
		f := &statusFlags{}
		f.Namespace, f.Everywhere = controlplane.DefaultNamespace, everywhere
		var around fleet.Input
		read := func(metas, unmatched int) {
			t.Helper()
			if err := f.refresh(t.Context(), api, &around); (err != nil) != broken {
				t.Errorf("%s: got error %v", name, err)
			}
			if everywhere {
				unmatched = 0
			}
			if len(around.Metas) != metas || len(around.UnmatchedPolicies) != unmatched {
				t.Errorf("%s: got %d ModuleReleaseMetas and unmatched policies %v, want %d and %d", name,
					len(around.Metas), around.UnmatchedPolicies, metas, unmatched)
			}
		}
		read(1, 1)
		if err := api.Create(t.Context(), meta("nats")); err != nil {
			t.Fatal(err)
		}
		broken = true
		read(1, 1)
		broken = false
		read(2, 0)
	}
}
