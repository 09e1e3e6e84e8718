package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// rareReports sets a report interval that is longer than the test, so that the agent reports only changes.
var rareReports = fleet.Options{PublisherFlags: []string{"--agent-report-interval", "10m"}}

func watcher(name, group, resource string, field v1beta2.FieldName) *v1beta2.Watcher {
	return &v1beta2.Watcher{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: name},
		Spec: v1beta2.WatcherSpec{
			ResourceToWatch: v1beta2.WatchableGVR{Group: group, Version: "v1", Resource: resource},
			LabelsToWatch:   map[string]string{"team": "shop"}, Field: field,
		},
	}
}

func config(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
}

// watchEvents returns the messages in all Events about watched objects.
func watchEvents(ctx context.Context, f *fleet.Fleet) ([]string, error) {
	var events eventsv1.EventList
	if err := f.Control.List(ctx, &events, client.InNamespace(sample.Namespace)); err != nil {
		return nil, err
	}
	var notes []string
	for _, e := range events.Items {
		if e.Reason == "WatchedObjectChanged" && e.Regarding.Kind == "Kyma" {
			notes = append(notes, e.Note)
		}
	}
	slices.Sort(notes)
	return notes, nil
}

func untilEventOf(t *testing.T, f *fleet.Fleet, parts ...string) {
	t.Helper()
	until(t, 20*time.Second, "an Event reports "+strings.Join(parts, ", "), func() (bool, string) {
		notes, err := watchEvents(t.Context(), f)
		return slices.ContainsFunc(notes, func(note string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(note, part) })
		}), fmt.Sprint(notes, err)
	})
}

func untilState(t *testing.T, f *fleet.Fleet, name string, state v1beta2.State) *v1beta2.Watcher {
	t.Helper()
	w := &v1beta2.Watcher{}
	until(t, 20*time.Second, fmt.Sprintf("Watcher %s is %s", name, state), func() (bool, string) {
		err := f.Control.Get(t.Context(), client.ObjectKey{Namespace: sample.Namespace, Name: name}, w)
		return err == nil && w.Status.State == state && w.Status.ObservedGeneration == w.Generation,
			fmt.Sprint(w.Status, err)
	})
	return w
}

// published waits until the runtime has applied a newer bundle, and returns the digest of that bundle.
func published(t *testing.T, r *fleet.Runtime, before string) string {
	t.Helper()
	var digest string
	until(t, 30*time.Second, fmt.Sprintf("%s applies a bundle other than %s", r.ID, before), func() (bool, string) {
		record, err := r.Record(t.Context())
		if err != nil {
			return false, err.Error()
		}
		status := record.Status.Runtime
		if status == nil || status.Observed == nil || status.Published == nil {
			return false, "nothing published or observed"
		}
		digest = status.Published.Digest
		return digest == status.Observed.Digest && digest != before, digest
	})
	return digest
}

func TestWatchedChangesAreReportedImmediately(t *testing.T) {
	suite.Long(t) // the short suite runs TestModulesHaveOnlyTheirAccountsRights and TestWatchesReportChangesFromAPIServer
	ctx := t.Context()
	f := newFleet(t, rareReports)
	r := runtimeWith(t, f, "one", map[string]string{"mailer": "1.0.0"})
	plain, settings := config("plain", nil), config("settings", map[string]string{"team": "shop"})
	must(t, r.API.Create(ctx, plain))
	must(t, r.API.Create(ctx, settings))

	change := func(object *corev1.ConfigMap, value string) {
		t.Helper()
		before := object.DeepCopy()
		object.Data = map[string]string{"value": value}
		must(t, r.API.Patch(ctx, object, client.MergeFrom(before)))
	}
	about := func(name string) (found []string) {
		t.Helper()
		notes, err := watchEvents(ctx, f)
		must(t, err)
		return slices.DeleteFunc(notes, func(note string) bool { return !strings.Contains(note, " "+name+" ") })
	}

	before := published(t, r, "")
	for _, w := range []*v1beta2.Watcher{
		watcher("settings", "", "configmaps", bundle.FieldSpec),
		watcher("lights", "", "services", bundle.FieldStatus),
		watcher("later", "sample.example.com", "lamps", bundle.FieldStatus),
		watcher("keys", "", "secrets", bundle.FieldSpec),
	} {
		must(t, f.Control.Create(ctx, w))
	}
	t.Run("Watchers become ready except for Secrets", func(t *testing.T) {
		for _, name := range []string{"settings", "lights", "later"} {
			untilState(t, f, name, v1beta2.StateReady)
		}
		refused := untilState(t, f, "keys", v1beta2.StateError)
		if c := refused.Status.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionFalse ||
			!strings.Contains(c[0].Message, "secrets cannot be watched") {
			t.Errorf("unexpected conditions %+v of a Watcher for Secrets", c)
		}
	})
	published(t, r, before)
	probes := 0
	until(t, 30*time.Second, "the agent reports the first change", func() (bool, string) {
		probes++
		must(t, r.API.Create(ctx, config(fmt.Sprintf("probe-%d", probes), settings.Labels)))
		notes, err := watchEvents(ctx, f)
		return len(notes) > 0, fmt.Sprint(err)
	})

	t.Run("only changes to labeled objects are reported", func(t *testing.T) {
		change(plain, "one")
		change(settings, "one")
		untilEventOf(t, f, "watcher settings", "configmaps default/settings", "runtime one")
		if notes := about("default/plain"); len(notes) > 0 {
			t.Errorf("a change to an object without the label was reported: %v", notes)
		}
	})
	t.Run("restarted publisher does not repeat Events", func(t *testing.T) {
		f.Publisher().Kill()
		must(t, f.StartPublisher())
		must(t, r.API.Create(ctx, config("fence", settings.Labels)))
		untilEventOf(t, f, "configmaps default/fence")
		if notes := about("default/settings"); len(notes) != 1 {
			t.Errorf("the change was reported %d times, want once: %v", len(notes), notes)
		}
	})
	t.Run("status change is reported", func(t *testing.T) {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
			Spec: corev1.ServiceSpec{
				Ports: []corev1.ServicePort{{Port: 80}}, Type: corev1.ServiceTypeLoadBalancer,
			},
		}
		must(t, r.API.Create(ctx, service))
		was := service.DeepCopy()
		service.Labels = settings.Labels
		must(t, r.API.Patch(ctx, service, client.MergeFrom(was)))
		untilEventOf(t, f, "watcher lights", "services default/shop")
		report := reportSequence(t, r)
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		must(t, r.API.Status().Update(ctx, service))
		until(t, 20*time.Second, "the agent sends a report", func() (bool, string) {
			now := reportSequence(t, r)
			return now > report, fmt.Sprint(now)
		})
	})
	t.Run("kind installed later is watched", func(t *testing.T) {
		must(t, r.API.Create(ctx, lamps()))
		lamp := &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": "sample.example.com/v1", "kind": "Lamp"},
		}
		lamp.SetNamespace("default")
		lamp.SetName("desk")
		lamp.SetLabels(settings.Labels)
		until(t, 20*time.Second, "the lamp is created", func() (bool, string) {
			err := r.API.Create(ctx, lamp.DeepCopy())
			return err == nil, fmt.Sprint(err)
		})
		until(t, 90*time.Second, "an Event reports the lamp", func() (bool, string) {
			return len(about("default/desk")) == 1, "nothing"
		})
		if log := r.Agent().Log(); strings.Contains(log, "lamps") {
			t.Errorf("the agent logs the missing kind:\n%s", log)
		}
	})
	t.Run("deleted Watcher stops its Events", func(t *testing.T) {
		before := published(t, r, "")
		must(t, f.Control.Delete(ctx, watcher("settings", "", "configmaps", bundle.FieldSpec)))
		published(t, r, before)
		must(t, r.API.Create(ctx, config("too-late", settings.Labels)))
		lamp := &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": "sample.example.com/v1", "kind": "Lamp"},
		}
		lamp.SetNamespace("default")
		lamp.SetName("floor")
		lamp.SetLabels(settings.Labels)
		must(t, r.API.Create(ctx, lamp))
		untilEventOf(t, f, "watcher later", "default/floor")
		if notes := about("default/too-late"); len(notes) > 0 {
			t.Errorf("a change was reported without a Watcher: %v", notes)
		}
	})
}

func reportSequence(t *testing.T, r *fleet.Runtime) int64 {
	t.Helper()
	record, err := r.Record(t.Context())
	must(t, err)
	return record.Status.Runtime.ReportSequence
}

// lamps returns the CRD for a kind that only this test uses.
func lamps() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "lamps.sample.example.com"},
		"spec": map[string]any{
			"group": "sample.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{
					"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				},
			}},
		},
	}}
}
