package ui

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// serveAPI serves the pages of a fleet to a viewer whose actions change the objects of a fake API server.
func serveAPI(t *testing.T, f fleet.Fleet) (*served, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta2.AddToScheme(scheme),
		v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for i := range f.Rollouts {
		object := rolloutObject(&f.Rollouts[i])
		objects = append(objects, &object)
	}
	for _, r := range f.Runtimes {
		kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Kyma}}
		if r.Health == fleet.Suspended {
			kyma.Labels = map[string]string{v1beta2.LabelSkipReconciliation: v1beta2.True}
		}
		objects = append(objects, kyma)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	may := func(context.Context, client.ObjectKey) (bool, error) { return true, nil }
	return serve(t, f, &Viewer{
		Name: "ada@example.org", MaySee: func(context.Context, string) (bool, error) { return true, nil },
		MayChangeRollout: may, MayAct: may,
		ActOnRollout: func(ctx context.Context, key client.ObjectKey, a actions.Rollout) (actions.Result, error) {
			return actions.Apply(ctx, api, key, "ada@example.org", a)
		},
		Act: func(ctx context.Context, key client.ObjectKey, a actions.Runtime) (actions.Result, error) {
			return actions.Apply(ctx, api, key, "ada@example.org", a)
		},
	}), api
}

// onlyEvent returns the reason of the only Event. The Event must be about the named object and name the viewer.
func onlyEvent(t *testing.T, api client.Client, kind, name string) string {
	t.Helper()
	var events corev1.EventList
	if err := api.List(t.Context(), &events, client.InNamespace("kcp-system")); err != nil || len(events.Items) != 1 {
		t.Fatalf("got %d Events and error %v, want 1 Event", len(events.Items), err)
	}
	e := events.Items[0]
	if e.InvolvedObject.Kind != kind || e.InvolvedObject.Name != name ||
		!strings.HasSuffix(e.Message, ", by ada@example.org") {
		t.Errorf("got Event about %s %s with message %q, want one about %s %s by ada@example.org", e.InvolvedObject.Kind,
			e.InvolvedObject.Name, e.Message, kind, name)
	}
	return e.Reason
}

func TestEachRolloutActionChangesSpecAndCreatesEvent(t *testing.T) {
	const address = "/rollouts/keda-regular-4"
	for name, c := range map[string]struct {
		action, reason string
		before         func(*fleet.Rollout)
		changed        func(v1alpha1.RolloutSpec) bool
	}{
		"pause":  {"pause", "Paused", nil, func(s v1alpha1.RolloutSpec) bool { return s.Paused }},
		"resume": {"resume", "Resumed", func(r *fleet.Rollout) { r.Spec.Paused = true }, notPaused},
		"approve": {"approve&wave=rest", "WaveApproved", nil, func(s v1alpha1.RolloutSpec) bool {
			return slices.Equal(s.ApprovedWaves, []string{"rest"})
		}},
		"abort": {"abort", "Aborted", nil, func(s v1alpha1.RolloutSpec) bool { return s.Abort && !s.Undo }},
		"undo":  {"undo", "Undone", nil, func(s v1alpha1.RolloutSpec) bool { return s.Undo && !s.Abort }},
		"retry": {
			"retry", "Retried", func(r *fleet.Rollout) { r.Status.State = v1alpha1.RolloutStopped },
			func(s v1alpha1.RolloutSpec) bool { return s.Retry },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := sampleFleet(100, false)
			if c.before != nil {
				c.before(&f.Rollouts[0])
			}
			s, api := serveAPI(t, f)
			if _, page, _ := s.get(t, address); !strings.Contains(page, `name="action" value="`+name+`"`) {
				t.Errorf("the page has no button for %s", name)
			}
			status, body, header := s.confirm(t, address, c.action, "")
			if status != http.StatusSeeOther || header.Get("Location") != address+"?done="+name {
				t.Fatalf("got status %d and location %q\n%s", status, header.Get("Location"), body)
			}
			var got v1alpha1.Rollout
			key := client.ObjectKey{Namespace: "kcp-system", Name: "keda-regular-4"}
			if err := api.Get(t.Context(), key, &got); err != nil || !c.changed(got.Spec) {
				t.Errorf("got spec %+v and error %v", got.Spec, err)
			}
			if reason := onlyEvent(t, api, "Rollout", got.Name); reason != c.reason {
				t.Errorf("got an Event with reason %s, want %s", reason, c.reason)
			}
			if _, page, _ := s.get(t, address+"?done="+name); !strings.Contains(page, doneMessages[name]) {
				t.Errorf("the page after the action does not contain %q", doneMessages[name])
			}
		})
	}
}

func notPaused(s v1alpha1.RolloutSpec) bool { return !s.Paused }

func TestEachRuntimeActionChangesKymaAndCreatesEvent(t *testing.T) {
	for name, c := range map[string]struct {
		runtime, kyma, reason string
		changed               func(v1beta2.Kyma) bool
	}{
		"reconcile": {"r-00001", "kyma-00001", "ReconcileRequested", func(k v1beta2.Kyma) bool {
			return k.Annotations[v1beta2.AnnotationReconcileRequested] != ""
		}},
		"suspend": {"r-00001", "kyma-00001", "Suspended", func(k v1beta2.Kyma) bool {
			return k.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True
		}},
		"resume": {"r-00009", "kyma-00009", "Resumed", func(k v1beta2.Kyma) bool {
			return k.Labels[v1beta2.LabelSkipReconciliation] == ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, api := serveAPI(t, sampleFleet(10, false))
			if status, body, _ := s.confirm(t, "/runtimes/"+c.runtime, name, ""); status != http.StatusSeeOther {
				t.Fatalf("got status %d\n%s", status, body)
			}
			var got v1beta2.Kyma
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: "kcp-system", Name: c.kyma},
				&got); err != nil || !c.changed(got) {
				t.Errorf("got labels %v, annotations %v and error %v", got.Labels, got.Annotations, err)
			}
			if reason := onlyEvent(t, api, "Kyma", c.kyma); reason != c.reason {
				t.Errorf("got an Event with reason %s, want %s", reason, c.reason)
			}
		})
	}
}
