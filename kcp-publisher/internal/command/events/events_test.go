package events

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
)

func eventAbout(kind, version, name string, minutes int) corev1.Event {
	return corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: controlplane.DefaultNamespace, Name: fmt.Sprintf("%s.%d", name, minutes),
		},
		InvolvedObject: corev1.ObjectReference{Kind: kind, APIVersion: version, Name: name},
		Type:           corev1.EventTypeNormal, Reason: "Published", Message: "about " + name,
		LastTimestamp: metav1.NewTime(noon.Add(-time.Duration(minutes) * time.Minute)),
	}
}

func TestFleetEventsAreListedByTime(t *testing.T) {
	operator, rollouts := v1beta2.GroupVersion.String(), v1alpha1.GroupVersion.String()
	series := eventAbout("Rollout", rollouts, "scaler-1", 60)
	series.Type = corev1.EventTypeWarning
	series.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(noon.Add(-2 * time.Minute))}
	events := corev1.EventList{Items: []corev1.Event{
		series, eventAbout("Kyma", operator, "berlin", 1), eventAbout("Kyma", operator, "oslo", 90),
		eventAbout("Pod", "v1", "other", 5),
	}}
	scheme, err := controlplane.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithLists(&events).Build()
	all, err := listEvents(t.Context(), api, controlplane.DefaultNamespace, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	(&eventFlags{}).draw(&out, all, noon)
	want := "AGE  TYPE     REASON     OBJECT            COUNT  MESSAGE\n" +
		"90m  Normal   Published  Kyma/oslo             1  about oslo\n" +
		"2m   Warning  Published  Rollout/scaler-1      7  about scaler-1\n" +
		"60s  Normal   Published  Kyma/berlin           1  about berlin\n"
	if out.String() != want {
		t.Errorf("got table\n%s\nwant\n%s", out.String(), want)
	}
}

func TestEventsCommandRefusesConflictingArguments(t *testing.T) {
	for name, c := range map[string]struct {
		flags eventFlags
		args  []string
		want  string
	}{
		"a runtime and a rollout": {
			eventFlags{rollout: "scaler-1"}, []string{"berlin"}, "--rollout cannot be combined",
		},
		"two runtimes": {
			eventFlags{}, []string{"berlin", "oslo"}, "expected at most one runtime ID, got 2 arguments",
		},
		"a runtime in all namespaces": {
			eventFlags{Flags: controlplane.Flags{Everywhere: true}}, []string{"berlin"}, "use --namespace",
		},
		"a rollout in all namespaces": {
			eventFlags{Flags: controlplane.Flags{Everywhere: true}, rollout: "a"}, nil, "use --namespace",
		},
		"the fleet in all namespaces":  {eventFlags{Flags: controlplane.Flags{Everywhere: true}}, nil, ""},
		"one runtime in the namespace": {eventFlags{}, []string{"berlin"}, ""},
	} {
		err := c.flags.check(c.args)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}
