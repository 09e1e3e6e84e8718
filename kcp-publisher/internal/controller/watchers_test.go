package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
)

func TestOnlyNewChangesOfExistingWatchersAreReported(t *testing.T) {
	watchers := []bundle.Watcher{{Name: "a"}, {Name: "b"}}
	flood := bundle.ReportedWatch{Watcher: "a", Since: 20}
	for i := range 3 * bundle.MaxWatchedReported {
		flood.Objects = append(flood.Objects, bundle.WatchedObject{Name: fmt.Sprint("x", i), Since: 20})
	}
	old, recent := bundle.WatchedObject{Name: "old", Since: 10}, bundle.WatchedObject{Name: "recent", Since: 20}
	for name, c := range map[string]struct {
		watched []bundle.ReportedWatch
		news    int
		objects []string
	}{
		"report without changes": {nil, 0, []string{}},
		"changes from an earlier report": {
			[]bundle.ReportedWatch{{Watcher: "a", Since: 15, Objects: []bundle.WatchedObject{old}}}, 0, []string{},
		},
		"report with one new and one old change": {
			[]bundle.ReportedWatch{{Watcher: "a", Since: 20, Objects: []bundle.WatchedObject{recent, old}}}, 1,
			[]string{"recent"},
		},
		"report about an unknown watcher": {
			[]bundle.ReportedWatch{{Watcher: "c", Since: 20, Objects: []bundle.WatchedObject{recent}}}, 0, []string{},
		},
		"sequence in the future": {
			[]bundle.ReportedWatch{{Watcher: "a", Since: 21, Objects: []bundle.WatchedObject{recent}}}, 0, []string{},
		},
		"report with a duplicate watcher": {
			[]bundle.ReportedWatch{{Watcher: "a", Since: 20}, {Watcher: "a", Since: 20}}, 1, []string{},
		},
		"invalid object name": {
			[]bundle.ReportedWatch{
				{Watcher: "a", Since: 20, Objects: []bundle.WatchedObject{{Name: "a\nb", Since: 20}}},
			}, 1, []string{},
		},
		"report with too many objects": {
			[]bundle.ReportedWatch{flood, {Watcher: "b", Since: 20, Objects: []bundle.WatchedObject{recent}}}, 2, nil,
		},
		"report about a failed watch without objects": {
			[]bundle.ReportedWatch{{Watcher: "b", Since: 20, Trouble: "forbidden"}}, 1, []string{},
		},
		"two watchers with one object each": {
			[]bundle.ReportedWatch{{Watcher: "b", Since: 20, Objects: []bundle.WatchedObject{recent}},
				{Watcher: "a", Since: 20, Objects: []bundle.WatchedObject{recent}}}, 2, []string{"recent", "recent"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			news := newChanges(bundle.Report{Sequence: 20, Watched: c.watched}, watchers, 15)
			objects := []string{}
			for _, n := range news {
				for _, o := range n.objects {
					objects = append(objects, o.Name)
				}
			}
			if len(news) != c.news || c.objects != nil && !slices.Equal(objects, c.objects) ||
				len(objects) > bundle.MaxWatchedReported {
				t.Errorf("got changes of %d watchers with objects %v, want %d with %v", len(news), objects, c.news,
					c.objects)
			}
		})
	}
}

func TestManyWatchedChangesEmitFewEvents(t *testing.T) {
	recorder := events.NewFakeRecorder(100)
	k := &Kymas{Watchers: &Watchers{}, Events: recorder, fleet: fleetstate.New(), Now: time.Now}
	k.Watchers.accepted.Store(&[]bundle.Watcher{{Name: "settings", Version: "v1", Resource: "configmaps"}})
	watched := bundle.ReportedWatch{Watcher: "settings", Since: 20, Trouble: strings.Repeat("x", 9000)}
	for i := range 50 {
		watched.Objects = append(watched.Objects, bundle.WatchedObject{
			Namespace: "shop", Name: fmt.Sprint("c-", i), Since: 20,
		})
	}
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{ReportSequence: 15}
	report := bundle.AcceptedReport{Report: bundle.Report{Sequence: 20, Watched: []bundle.ReportedWatch{watched}}}
	k.announceWatched(kyma, nil, report)
	close(recorder.Events)
	var notes []string
	for note := range recorder.Events {
		notes = append(notes, note)
	}
	if len(notes) != maxWatchEvents+1 {
		t.Fatalf("got %d Events %v, want the maximum per watcher plus one", len(notes), notes)
	}
	if want := "watcher settings: configmaps shop/c-0 changed in runtime one"; !strings.HasSuffix(notes[0], want) {
		t.Errorf("got %q, want %q", notes[0], want)
	}
	if last := notes[maxWatchEvents-1]; !strings.HasSuffix(last, "and 42 more") {
		t.Errorf("got last Event %q, want a summary of 42 more changes", last)
	}
	if len(notes[maxWatchEvents]) > 1100 {
		t.Errorf("got an Event of %d bytes, want at most 1100", len(notes[maxWatchEvents]))
	}
	k.Events = events.NewFakeRecorder(0) // emitting any Event would block
	kyma.Status.Runtime.ReportSequence = 20
	k.announceWatched(kyma, nil, report)
	kyma.Status.Runtime.ReportSequence = 15
	k.announceWatched(kyma, &report, report)
}

func TestRuntimeCannotEmitEventsWithoutLimit(t *testing.T) {
	recorder, now := events.NewFakeRecorder(10_000), time.Now()
	k := &Kymas{Watchers: &Watchers{}, Events: recorder, fleet: fleetstate.New(), Now: func() time.Time { return now }}
	k.Watchers.accepted.Store(&[]bundle.Watcher{{Name: "settings", Version: "v1", Resource: "configmaps"}})
	report := func(runtime string, sequence int64) {
		watched := bundle.ReportedWatch{Watcher: "settings", Since: sequence}
		for i := range maxWatchEvents {
			watched.Objects = append(watched.Objects, bundle.WatchedObject{
				Namespace: "shop", Name: fmt.Sprintf("c-%d-%d", sequence, i), Since: sequence,
			})
		}
		k.announceWatched(kymaOf(runtime), nil, bundle.AcceptedReport{Report: bundle.Report{
			Sequence: sequence, Watched: []bundle.ReportedWatch{watched},
		}})
	}
	for sequence := range int64(500) {
		report("hostile", 1+sequence)
	}
	if n := len(recorder.Events); n < bundle.MaxWatchedReported || n > 200 {
		t.Errorf("got %d Events for 500 reports, want one full report and at most 200", n)
	}
	before := len(recorder.Events)
	report("other", 1)
	if n := len(recorder.Events) - before; n != maxWatchEvents {
		t.Errorf("got %d Events of another runtime, want %d", n, maxWatchEvents)
	}
	now = now.Add(time.Hour)
	before = len(recorder.Events)
	report("hostile", 1000)
	if n := len(recorder.Events) - before; n != maxWatchEvents {
		t.Errorf("got %d Events an hour later, want %d", n, maxWatchEvents)
	}
}

// A runtime can report a different state each time. Its Events are limited, but not the Events about its bundles.
func TestRuntimeCannotEmitStateEventsWithoutLimit(t *testing.T) {
	recorder, now := events.NewFakeRecorder(10_000), time.Now()
	k := &Kymas{Events: recorder, fleet: fleetstate.New(), Now: func() time.Time { return now }}
	status := func(state v1beta2.State, sequence int64, version string) v1beta2.KymaStatus {
		return v1beta2.KymaStatus{
			State: state,
			Conditions: []metav1.Condition{{
				Type: v1beta2.ConditionReady, Status: metav1.ConditionFalse, Reason: v1beta2.ReasonNotReady,
				Message: "module scaler is Error",
			}},
			Runtime: &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{
				Sequence: sequence, Digest: fmt.Sprint("sha256:", sequence), Versions: map[string]string{"scaler": version},
			}},
		}
	}
	flap := func(times int) (emitted int) {
		before := len(recorder.Events)
		kyma := kymaOf("hostile")
		for range times {
			kyma.Status = status(v1beta2.StateReady, 1, "1.0.0")
			k.emitChanges(status(v1beta2.StateError, 1, "1.0.0"), kyma)
			kyma.Status = status(v1beta2.StateError, 1, "1.0.0")
			k.emitChanges(status(v1beta2.StateReady, 1, "1.0.0"), kyma)
		}
		return len(recorder.Events) - before
	}
	if n := flap(500); n < 2 || n > 20 {
		t.Errorf("got %d Events for 1,000 changes of the state, want at most 20", n)
	}
	before := len(recorder.Events)
	kyma := kymaOf("hostile")
	kyma.Status = status(v1beta2.StateError, 2, "2.0.0")
	k.emitChanges(status(v1beta2.StateError, 1, "1.0.0"), kyma)
	if n := len(recorder.Events) - before; n != 1 {
		t.Errorf("got %d Events about a new bundle, want 1", n)
	}
	now = now.Add(time.Hour)
	if n := flap(1); n != 2 {
		t.Errorf("got %d Events an hour later, want 2", n)
	}
}
