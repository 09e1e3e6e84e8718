package actions_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
)

var berlin = client.ObjectKey{Namespace: "kcp-system", Name: "berlin"}

func apiWith(t *testing.T, functions interceptor.Funcs) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: berlin.Namespace, Name: berlin.Name, UID: "1"}}
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(functions).WithObjects(kyma).Build()
}

func TestActionCreatesEvent(t *testing.T) {
	api := apiWith(t, interceptor.Funcs{})
	result, err := actions.Apply(t.Context(), api, berlin, "ada", actions.Suspend("move"))
	if err != nil || result.Unrecorded != nil {
		t.Fatal(err, result.Unrecorded)
	}
	var events corev1.EventList
	if err := api.List(t.Context(), &events); err != nil || len(events.Items) != 1 {
		t.Fatalf("got %d Events, %v", len(events.Items), err)
	}
	e := events.Items[0]
	if e.Reason != "Suspended" || !strings.HasPrefix(e.Message, "berlin is suspended: ") ||
		!strings.HasSuffix(e.Message, ", by ada") ||
		e.InvolvedObject.Kind != "Kyma" ||
		e.InvolvedObject.UID != "1" ||
		e.Namespace != berlin.Namespace {
		t.Errorf("got Event %+v, want one about Kyma berlin by ada", e)
	}
}

func TestActionWithoutChangeCreatesNoEvent(t *testing.T) {
	api := apiWith(t, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("nothing to write")
		},
	})
	result, err := actions.Apply(t.Context(), api, berlin, "ada", actions.EndCheckRun("1"))
	if err != nil || result.Effect != "does not have this request" {
		t.Errorf("end of a missing check run: got %+v, %v, want no error", result, err)
	}
	var events corev1.EventList
	if err := api.List(t.Context(), &events); err != nil || len(events.Items) != 0 {
		t.Errorf("got %d Events, %v", len(events.Items), err)
	}
}

func TestActionSucceedsWithoutPermissionToCreateEvents(t *testing.T) {
	api := apiWith(
		t,
		interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
		}},
	)
	result, err := actions.Apply(t.Context(), api, berlin, "", actions.Suspend(""))
	if err != nil || !apierrors.IsForbidden(result.Unrecorded) {
		t.Errorf("got error %v, unrecorded %v, want Forbidden as unrecorded", err, result.Unrecorded)
	}
	var kyma v1beta2.Kyma
	if err := api.Get(t.Context(), berlin, &kyma); err != nil ||
		kyma.Labels[v1beta2.LabelSkipReconciliation] != v1beta2.True {
		t.Errorf("got labels %v and %v, want a suspended Kyma", kyma.Labels, err)
	}
}

func TestActionKeepsConcurrentChanges(t *testing.T) {
	first := true
	api := apiWith(
		t,
		interceptor.Funcs{
			Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch,
				options ...client.PatchOption) error {
				if first {
					first = false
					var kyma v1beta2.Kyma
					if err := api.Get(ctx, berlin, &kyma); err != nil {
						return err
					}
					kyma.Annotations = map[string]string{"other": "value"}
					if err := api.Update(ctx, &kyma); err != nil {
						return err
					}
				}
				return api.Patch(ctx, object, patch, options...)
			},
		},
	)
	if _, err := actions.Apply(t.Context(), api, berlin, "", actions.Suspend("why")); err != nil {
		t.Fatal(err)
	}
	var kyma v1beta2.Kyma
	if err := api.Get(t.Context(), berlin, &kyma); err != nil || kyma.Annotations["other"] != "value" ||
		kyma.Annotations[v1beta2.AnnotationSuspendReason] != "why" {
		t.Errorf("got annotations %v and %v, want both changes", kyma.Annotations, err)
	}
}
