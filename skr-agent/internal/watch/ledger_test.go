package watch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func names(w bundle.ReportedWatch) (all []string) {
	for _, o := range w.Objects {
		all = append(all, fmt.Sprintf("%s@%d", o.Name, o.Since))
	}
	return all
}

func TestWatchedChangeIsReportedOnce(t *testing.T) {
	var l changeLog
	l.reportPending(10, noon)
	if l.reported.Since != 0 || l.hasPending() {
		t.Fatalf("got report %+v before the first change, want none", l.reported)
	}
	l.addObject(object{name: "a"})
	l.addObject(object{name: "b"})
	l.reportPending(20, noon)
	if got, want := names(l.reported), []string{"b@20", "a@20"}; !reflect.DeepEqual(got, want) ||
		l.reported.Since != 20 ||
		l.reported.Changes != 2 {
		t.Fatalf("reported objects: got %v in %+v, want %v", got, l.reported, want)
	}
	before := l.reported
	l.reportPending(30, noon.Add(time.Hour))
	if !reflect.DeepEqual(l.reported, before) {
		t.Errorf("report without new changes: got %+v, want the previous report", l.reported)
	}

	l.addObject(object{name: "a"})
	l.reportPending(40, noon.Add(reportInterval-1))
	if !reflect.DeepEqual(l.reported, before) || l.reportDelay(noon.Add(reportInterval-1)) != 1 {
		t.Errorf("report within the spacing: got %+v, want the previous report", l.reported)
	}
	l.addObject(object{name: "a"})
	l.reportPending(50, noon.Add(reportInterval))
	if got, want := names(l.reported), []string{"a@50", "b@20"}; !reflect.DeepEqual(got, want) ||
		l.reported.Changes != 4 ||
		l.hasPending() {
		t.Errorf("reported objects: got %v in %+v, want %v", got, l.reported, want)
	}
}

func TestFailedWatchIsReportedUntilItRecovers(t *testing.T) {
	var l changeLog
	l.trouble = "forbidden"
	l.reportPending(10, noon)
	if l.reported.Trouble != "forbidden" || l.reported.Since != 10 || l.hasPending() {
		t.Fatalf("trouble: got %+v, want forbidden since 10", l.reported)
	}
	l.trouble = ""
	l.reportPending(20, noon.Add(reportInterval))
	if l.reported.Trouble != "" || l.reported.Since != 20 {
		t.Errorf("end of trouble: got %+v, want no trouble since 20", l.reported)
	}
}

func TestReportSpaceIsSharedEquallyByWatches(t *testing.T) {
	for _, watches := range []int{1, 2, 7, bundle.MaxWatchers} {
		for _, length := range []int{1, 40, 253} {
			t.Run(fmt.Sprintf("%d watches with names of %d bytes", watches, length), func(t *testing.T) {
				var reports []bundle.ReportedWatch
				for i := range watches {
					l := changeLog{reported: bundle.ReportedWatch{Watcher: fmt.Sprintf("w-%02d", watches-i)}}
					for n := range 500 {
						l.addObject(object{name: fmt.Sprintf("%d-%s", n, strings.Repeat("x", length))})
					}
					l.reportPending(1, noon)
					reports = append(reports, l.reported)
				}
				got := summary(reports)
				objects, last := 0, ""
				for _, w := range got {
					objects += len(w.Objects)
					if len(w.Objects) == 0 && length < 253 || w.Changes != 500 {
						t.Errorf("watcher %s: got %d objects and %d changes, want objects and 500 changes", w.Watcher,
							len(w.Objects), w.Changes)
					}
					if w.Watcher < last {
						t.Errorf("got watcher %s after %s, want watchers sorted by name", w.Watcher, last)
					}
					if last = w.Watcher; len(w.Objects) > 0 && !strings.HasPrefix(w.Objects[0].Name, "499-") {
						t.Errorf("watcher %s: got first object %s, want the newest", w.Watcher, w.Objects[0].Name)
					}
				}
				data, err := json.Marshal(got)
				if err != nil || objects > bundle.MaxWatchedReported || len(data) > 16<<10 {
					t.Errorf("summary has %d objects in %d bytes, error %v: want at most %d objects in 16 KiB", objects,
						len(data), err, bundle.MaxWatchedReported)
				}
			})
		}
	}
}
