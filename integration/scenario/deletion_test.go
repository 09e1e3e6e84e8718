package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func deleteKyma(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) {
	t.Helper()
	kyma, err := r.Record(t.Context())
	must(t, err)
	must(t, f.Control.Delete(t.Context(), kyma))
}

func untilForgotten(t *testing.T, r *fleet.Runtime, limit time.Duration) {
	t.Helper()
	until(t, limit, "the control plane has removed runtime "+r.ID, func() (bool, string) {
		kyma, err := r.Record(t.Context())
		return apierrors.IsNotFound(err), fmt.Sprintf("%v, %+v", err, kyma.Status.Modules)
	})
}

// untilEmpty waits until all Kymas, Manifests, ModuleTemplates and module objects are deleted in the runtime.
func untilEmpty(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	until(t, 40*time.Second, r.ID+" has no module objects", func() (bool, string) {
		var manifests v1beta2.ManifestList
		var templates v1beta2.ModuleTemplateList
		if err := r.API.List(t.Context(), &manifests); err != nil {
			return false, err.Error()
		}
		if err := r.API.List(t.Context(), &templates); err != nil {
			return false, err.Error()
		}
		_, err := r.Kyma(t.Context())
		installed := r.API.Get(t.Context(), inKyma("scaler-manager"), &appsv1.Deployment{})
		return len(manifests.Items)+len(templates.Items) == 0 && apierrors.IsNotFound(err) &&
				apierrors.IsNotFound(installed),
			fmt.Sprintf("%d Manifests, %d ModuleTemplates, Kyma: %v, scaler: %v", len(manifests.Items),
				len(templates.Items), err, installed)
	})
}

func userScaler(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"interval": int64(7)}}}
	object.SetAPIVersion("sample.kyma-pull.dev/v1")
	object.SetKind("Scaler")
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

func TestDeletedKymaLeavesAnEmptyRuntime(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	mine := userScaler("mine")
	must(t, r.API.Create(ctx, mine))
	deleteKyma(t, f, r)
	until(t, 40*time.Second, "the control plane reports what blocks the Kyma's deletion", func() (bool, string) {
		kyma, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, m := range kyma.Status.Modules {
			if m.Name == f.Own("scaler") && m.State == v1beta2.StateWarning &&
				strings.Contains(m.Message, "default/mine") {
				return kyma.Status.State == v1beta2.StateDeleting || kyma.Status.State == v1beta2.StateWarning,
					string(kyma.Status.State)
			}
		}
		return false, fmt.Sprintf("%+v", kyma.Status.Modules)
	})
	must(t, r.API.Delete(ctx, mine))
	untilForgotten(t, r, 60*time.Second)
	untilEmpty(t, r)

	// A runtime that enrolls again starts from an empty state.
	must(t, f.CreateKyma(ctx, fleet.NewKyma(r.ID, "regular", f.Own("mailer"))))
	must(t, r.UntilState(ctx, f.Own("mailer"), "1.0.0", v1beta2.StateReady))
}

func TestSilentRuntimeDoesNotBlockKymaDeletion(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--set", "deletion-timeout=6s"}})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	r.Agent().Stop()
	deleteKyma(t, f, r)
	until(t, 20*time.Second, "the Kyma waits for its runtime", func() (bool, string) {
		kyma, err := r.Record(ctx)
		return err == nil && !kyma.DeletionTimestamp.IsZero(), fmt.Sprint(err)
	})
	untilForgotten(t, r, 40*time.Second)
	must(t, r.API.Get(ctx, inKyma("scaler-manager"), &appsv1.Deployment{}))
	must(t, r.StartAgent()) // later, the deleted runtime's agent starts again
	untilEmpty(t, r)
}

func TestKymaDeletionCanBeForced(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	gone := fleet.NewKyma("gone", "regular")
	must(t, f.Control.Create(ctx, gone))
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	r.Agent().Stop()
	deleteKyma(t, f, r)
	kyma, err := r.Record(ctx)
	must(t, err)
	before := kyma.DeepCopy()
	kyma.Labels[v1beta2.LabelForceDeletion] = v1beta2.True
	must(t, f.Control.Patch(ctx, kyma, client.MergeFrom(before)))
	untilForgotten(t, r, 30*time.Second)
	untilEvent(t, f, "one", "DeletionForced", "the deletion did not wait for")

	t.Log("A Kyma whose cluster no longer exists is deleted without the registry.")
	must(t, f.Registry.Stop())
	must(t, f.Control.Delete(ctx, gone))
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(gone), gone))
	before = gone.DeepCopy()
	gone.Labels[v1beta2.LabelRuntimeGone] = v1beta2.True
	must(t, f.Control.Patch(ctx, gone, client.MergeFrom(before)))
	until(t, 30*time.Second, "the Kyma is deleted", func() (bool, string) {
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(gone), gone)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v, %+v", err, gone.Status)
	})
	untilEvent(t, f, "gone", "RuntimeGone", v1beta2.LabelRuntimeGone)
}

func TestAgentRestoresKymaDeletedInRuntime(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	kyma, err := r.Kyma(ctx)
	must(t, err)
	must(t, r.API.Delete(ctx, kyma))
	until(t, 30*time.Second, "the Kyma exists again with its modules", func() (bool, string) {
		again, err := r.Kyma(ctx)
		if err != nil {
			return false, err.Error()
		}
		return again.UID != kyma.UID && len(again.Spec.Modules) == 1 && again.Status.State == v1beta2.StateReady,
			fmt.Sprintf("%+v", again.Status)
	})
	must(t, r.API.Get(ctx, inKyma("scaler-manager"), &appsv1.Deployment{}))
}
